package config

import (
	"net/netip"
	"time"
)

// MaxCount is the largest number of bounces a window may have: it bounds the
// memory of a probe.
const MaxCount = 100000

// Module is one named way of probing, complete and validated: every default is
// filled in. It is a value that nobody changes after loading; a reload makes new
// ones.
type Module struct {
	Name string

	// Size of a request in bytes, wire.MinSize to wire.MaxSize.
	Size int
	// ReplySize in bytes, wire.MinReplySize to wire.MaxSize; 0 means Size. Needs
	// iperf 2.2.0 or newer at the far end.
	ReplySize int
	// Hold is how long the server is asked to wait between its read and its write.
	Hold time.Duration
	// Period between bursts; 0 means that the next bounce starts at once.
	Period time.Duration
	// Burst is the number of bounces in a period, at least 1.
	Burst int
	// Duration ends a window; 0 means that only Count does.
	Duration time.Duration
	// Count of bounces ends a window, 1 to MaxCount. The first bounce of a
	// connection does not count.
	Count int

	QuickAck  bool
	TripTimes bool
	Congest   *Congest // nil: no load

	// Timeout of the whole probe.
	Timeout time.Duration

	PreferredIPProtocol string // "ip4" or "ip6"
	IPProtocolFallback  bool
	SourceAddress       netip.Addr // invalid: the kernel's choice
	Interface           string     // SO_BINDTODEVICE; "": any
	DSCP                uint8      // 0 to 63
	CongestionControl   string     // TCP_CONGESTION; "": the kernel's default

	Histograms Histograms
}

// EffectiveReplySize is the length of a reply in bytes.
func (m *Module) EffectiveReplySize() int {
	if m.ReplySize != 0 {
		return m.ReplySize
	}
	return m.Size
}

// TOS is the byte that carries the module's DSCP.
func (m *Module) TOS() uint8 { return m.DSCP << 2 }

// BackToBack tells whether bounces follow each other without a schedule.
func (m *Module) BackToBack() bool { return m.Period == 0 }

// Congest is the load of a module.
type Congest struct {
	Direction         string // "up", "down" or "both"
	Streams           int
	Baseline          time.Duration // bounces without load first
	Warmup            time.Duration // loaded, but not measured
	MinInterval       time.Duration // from start to start of loads on one address
	CongestionControl string
	DSCP              uint8
}

// Histograms shapes the histograms of a module.
type Histograms struct {
	BucketFactor            float64   // RTT and OWD, 1.003 to 2
	AsymmetryBucketFactor   float64   // 1.003 to 2
	MaxBuckets              int       // 16 to 1000
	ClassicBuckets          []float64 // seconds, ascending; empty: native only
	AsymmetryClassicBuckets []float64 // seconds, ascending, may be negative
}

// Limits bound what runs at once. What is beyond one waits within its own
// deadline.
type Limits struct {
	MaxConcurrentProbes int // whole process
	MaxPerTarget        int // per server address
	MaxWaiting          int
	MaxDrains           int // connections being ended in the background
}

// Config is everything that the configuration files say.
type Config struct {
	AllowedTargets AllowedTargets
	Limits         Limits
	Modules        map[string]*Module
}
