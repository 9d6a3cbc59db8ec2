package prober

import (
	"net/netip"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/prober/wire"
)

// Result is all that one probe found out. It is a plain value: turning it into
// metrics, text or JSON is the business of other rooms. What was not measured is
// absent: a nil pointer, an empty slice, an Optional that is not OK.
type Result struct {
	Module *config.Module
	Target Target         // as asked for; zero where Run was given an address only
	Addr   netip.AddrPort // the one literal address that was dialled
	Local  netip.AddrPort // our end of the bounce connection; invalid before connect
	Start  time.Time
	// Timeout is what the probe was given: from Start to its deadline.
	Timeout time.Duration
	// Elapsed is from Start to the end of the answer; the drain is not in it.
	Elapsed time.Duration

	// Err is nil on success, else phase, reason and cause.
	Err *Error

	Phases Phases
	Peer   Peer

	Connect *Connect // nil unless the connection was established
	First   *Sample  // the first bounce: set-up, not a sample

	// RequestBytes and ReplyBytes of one bounce, as asked for.
	RequestBytes, ReplyBytes int

	// Windows are the measured stretches in the order they were run: without a
	// load there is one, with a load the baseline comes first.
	Windows []Window

	// TCPMinRTT is the kernel's minimum over all windows.
	TCPMinRTT Optional[time.Duration]

	Clock *Clock // nil without trip_times, or where no bounce came back
	Load  *Load  // nil without congest

	// Log is what happened, for debug=true; at most a few dozen lines.
	Log []LogLine
}

// Success tells whether at least one bounce after the first came back and nothing
// broke before the test's own end.
func (r *Result) Success() bool { return r.Err == nil }

// Optional is a value that may not have been measured.
type Optional[T any] struct {
	V  T
	OK bool
}

// Some is a measured value.
func Some[T any](v T) Optional[T] { return Optional[T]{v, true} }

// Phase names a part of a probe.
type Phase uint8

// The phases of a probe in their order.
const (
	PhaseResolve   Phase = iota
	PhaseWait            // for a slot at this server
	PhaseConnect         // of the bounce connection
	PhaseHandshake       // version and first bounce
	PhaseBounce          // all windows, warm-up included
	NumPhases
)

// String is the phase's label.
func (p Phase) String() string {
	return [...]string{"resolve", "wait", "connect", "handshake", "bounce"}[p]
}

// Phases is how long each phase took; those that were not reached are not OK.
type Phases [NumPhases]Optional[time.Duration]

// PeerKind is what answered at the address.
type PeerKind uint8

// Kinds of peer.
const (
	PeerUnknown      PeerKind = iota // nothing that could be told apart
	PeerBounceback                   // bounced
	PeerNoBounceback                 // an iperf 2 from before 2.1.7
	PeerIperf3
	PeerOther // answered, but as no iperf does
)

// Peer is what is known of the server.
type Peer struct {
	Kind    PeerKind
	Layout  wire.Layout            // 0: not settled
	Version Optional[wire.Version] // not every peer tells
}

// Connect is the bounce connection right after it was established.
type Connect struct {
	Duration time.Duration // of the connect alone
	TCP      TCPInfo
}

// Sample is one bounce. Monotonic times count from Result.Start's reading; wall
// times are nanoseconds since the Unix epoch.
type Sample struct {
	Sent, Received         int64 // monotonic ns: right before the write, right after the whole reply was read (T0, T3)
	SentWall, ReceivedWall int64 // the same instants on our wall clock, ns
	ServerReceive          int64 // S1: wall ns by the server's clock, truncated to the microsecond
	ServerSend             int64 // S2: the same right before its write
	KernelReceive          int64 // wall ns at which our kernel got the reply's last segment; 0: no stamp
}

// RTT is the application's round trip: hold, server turnaround and our own
// wake-up included, as iperf 2 counts it.
func (s *Sample) RTT() time.Duration { return time.Duration(s.Received - s.Sent) }

// Dwell is how long the message was inside the server: one clock, no
// synchronisation needed.
func (s *Sample) Dwell() time.Duration { return time.Duration(s.ServerSend - s.ServerReceive) }

// OWDToServer is S1 - T0. It means something only if both clocks agree.
func (s *Sample) OWDToServer() time.Duration { return time.Duration(s.ServerReceive - s.SentWall) }

// OWDFromServer is T3 - S2. It means something only if both clocks agree.
func (s *Sample) OWDFromServer() time.Duration {
	return time.Duration(s.ReceivedWall - s.ServerSend)
}

// Asymmetry is from_server minus to_server, signed.
func (s *Sample) Asymmetry() time.Duration { return s.OWDFromServer() - s.OWDToServer() }

// ReceiveLateness is the time from the kernel's arrival stamp to our own stamp:
// our wake-up. Not OK where the kernel gave no stamp.
func (s *Sample) ReceiveLateness() (time.Duration, bool) {
	if s.KernelReceive == 0 {
		return 0, false
	}
	return time.Duration(s.ReceivedWall - s.KernelReceive), true
}

// NetworkRTT is the RTT less the server's dwell and, where the kernel stamps
// arrivals, less our own wake-up. It is not OK, and the bounce is to be counted
// as discarded, where the dwell or the wake-up is negative or longer than the
// RTT, or where nothing is left.
func (s *Sample) NetworkRTT() (time.Duration, bool) {
	rtt, dwell := s.RTT(), s.Dwell()
	if dwell < 0 || dwell > rtt {
		return 0, false
	}
	late, ok := s.ReceiveLateness()
	if ok && (late < 0 || late > rtt) {
		return 0, false
	}
	if n := rtt - dwell - late; n >= 0 {
		return n, true
	}
	return 0, false
}

// PlausibleDwell is the dwell, unless the server's clock was set meanwhile, or
// its stamps are lies: a message can't be in the server for less than nothing, nor
// for longer than its round trip.
func (s *Sample) PlausibleDwell() (time.Duration, bool) {
	d := s.Dwell()
	return d, d >= 0 && d <= s.RTT()
}

// PlausibleLateness is likewise our own wake-up, unless our wall clock was set
// meanwhile.
func (s *Sample) PlausibleLateness() (time.Duration, bool) {
	d, ok := s.ReceiveLateness()
	return d, ok && d >= 0 && d <= s.RTT()
}

// LoadLabel says what ran beside the bounces of a window.
type LoadLabel string

// Values of the label load.
const (
	LoadNone LoadLabel = "none"
	LoadUp   LoadLabel = "up"
	LoadDown LoadLabel = "down"
	LoadBoth LoadLabel = "both"
)

// Window is one measured stretch of bounces.
type Window struct {
	Load    LoadLabel
	Samples []Sample // every reply of the window, in order; the first bounce and warm-up are in none
	// Requests is the number of messages sent; Samples are the replies.
	Requests int
	// SkippedTicks is how many scheduled bursts had to be left out because the
	// one before was still under way.
	SkippedTicks int
	// Start and End are monotonic ns from Result.Start.
	Start, End int64
	// ScheduleLateness is the worst lateness of a scheduled write; not OK without
	// a period.
	ScheduleLateness Optional[time.Duration]

	// TCP is sampled at the end of the window, before the half-close; nil where
	// that was not possible.
	TCP *TCPInfo
	// TCPRetransmits is the increase over the window.
	TCPRetransmits Optional[uint32]

	Rows []Row // one a second, for tests over a second
}

// Row is the state at the end of one second of a test: iperf's -i 1.
type Row struct {
	Window   int   // index in Result.Windows
	End      int64 // monotonic ns from Result.Start
	Replies  int   // replies in this second
	RTTSum   time.Duration
	RTTMax   time.Duration
	TCP      TCPInfo // at the end of the second
	LoadUp   int64   // load bytes acknowledged in this second, to the server
	LoadDown int64   // load bytes received in this second
}

// TCPInfo is what the kernel tells of a connection. A field that it did not
// return is not OK.
type TCPInfo struct {
	RTT              Optional[time.Duration]
	RTTVar           Optional[time.Duration]
	MinRTT           Optional[time.Duration]
	CongestionWindow Optional[uint32] // segments
	MSS              Optional[uint32] // bytes, of what we send
	TotalRetransmits Optional[uint32] // segments, SYN included, since the connection began
	BytesAcked       Optional[uint64]
	BytesReceived    Optional[uint64]
}

// Clock is what can be said of the two clocks; only with trip_times.
type Clock struct {
	// Failures is the number of bounces whose four stamps are not in causal
	// order, within the microsecond that the server's truncation needs.
	Failures int
	// LowerBound and UpperBound enclose the far clock minus ours, with no
	// assumption of symmetry: max(S2-T3) and min(S1-T0) + 1 us over all bounces.
	LowerBound, UpperBound time.Duration
	// Step is how far our wall clock moved against the monotonic one during the
	// test; a difference within the reading's own uncertainty is 0.
	Step Optional[time.Duration]
	// Of our host's kernel clock (adjtimex); not OK where that call is blocked.
	Synchronized   Optional[bool]
	MaxError       Optional[time.Duration]
	EstimatedError Optional[time.Duration]
}

// OK is the clock check: every bounce's stamps were in causal order, 0 lies
// within the bounds, and our own clock did not step. Only then are one-way
// delays published. The check is necessary, not sufficient.
func (c *Clock) OK() bool {
	return c != nil && c.Failures == 0 && c.LowerBound <= 0 && c.UpperBound >= 0 && c.Step.V == 0
}

// OWDValid tells whether one-way delays and asymmetry may be published.
func (r *Result) OWDValid() bool { return r.Module.TripTimes && r.Clock.OK() }

// Load is what the load streams did in the measured window.
type Load struct {
	Direction LoadLabel
	Streams   int
	Duration  time.Duration // of the measured window
	// BytesToServer (acknowledged by TCP) and BytesFromServer (received), only
	// where that direction was loaded.
	BytesToServer, BytesFromServer Optional[uint64]
	// Only where we send: mean and max of the streams' smoothed RTT, and the sum
	// of their retransmits in the window.
	TCPRTTMean, TCPRTTMax Optional[time.Duration]
	TCPRetransmits        Optional[uint64]
	// Started tells whether the load really began, whatever came of it later.
	Started bool
}

// LogLine is one thing that happened during a probe.
type LogLine struct {
	At      time.Duration // since Result.Start
	Message string
}
