package responder

import (
	"log/slog"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/prober/wire"
)

// OwnVersion is what a responder that emulates no release tells in acks.
func OwnVersion() wire.Version { return wire.Version{Upper: 2, Lower: 2, Patch: 99} }

// Options of a Responder. The zero value of each field stands for its default.
type Options struct {
	// MaxConnections at once; 1024. Beyond it the connection that has been without
	// a complete first message for longest gives way, or else the one that has been
	// silent between messages for longest, if that is 10 s at least; if there is none
	// either, the new one is closed. A connection keeps memory for one message, so
	// that MaxConnections times MaxMessage bounds them all.
	MaxConnections int
	// MaxPerAddress bounds the connections of one remote IP address; beyond it a new
	// one is closed. 0: no such limit.
	MaxPerAddress int
	// MaxMessage is the largest request and reply in bytes; 131072, which is also
	// the largest that real servers up to 2.1.9 survive.
	MaxMessage int
	// FirstMessageTimeout is how long a connection may take until its first message
	// is complete; 60 s, as servers from 2.2.0 on have it.
	FirstMessageTimeout time.Duration
	// IdleTimeout is how long a client may take until its next message is complete,
	// or until it has taken our reply; 5 min. The connection ends after that, and
	// before a quarter more has passed.
	IdleTimeout time.Duration
	// MaxHold bounds the hold that a client asks for; 60 s. A longer one is cut to it.
	MaxHold time.Duration

	// DisableLoads refuses load streams. Version requests, which look like the
	// start of one, are answered all the same.
	DisableLoads bool
	// MaxLoadStreams at once; 16. A stream beyond it is refused.
	MaxLoadStreams int
	// MaxLoadDuration is how long we send or receive on a load stream, whatever its
	// header says; 60 s.
	MaxLoadDuration time.Duration

	// Emulate makes the responder behave as a certain release, for tests.
	Emulate *Emulation
	// Clock gives the wall clock of the stamps, for tests; time.Now.
	Clock func() time.Time
	// Logger gets a line per connection at level debug, and warnings about the
	// listener. nil: none.
	Logger *slog.Logger
}

// Emulation is a release to behave as, in what a client can see of its protocol.
// Bugs are not emulated.
type Emulation struct {
	// Version decides the layout that is answered (2.1.7: A; newer: B and C; older:
	// none), the smallest message, whether a reply size, hold and the stop bit
	// count, 2.1.7's limit of 10 s, and what acks tell. Zero: no release.
	Version wire.Version
	// Hold overrides whether hold is honoured.
	Hold HoldPolicy
	// NoAck leaves out acks even where they are asked for, as in compatibility mode.
	NoAck bool
}

// HoldPolicy is whether hold is honoured.
type HoldPolicy uint8

// Policies of hold.
const (
	HoldByVersion HoldPolicy = iota // up to 2.1.9 yes, from 2.2.0 on no
	HoldHonoured
	HoldIgnored
)

func (o Options) withDefaults() Options {
	orInt := func(p *int, v int) {
		if *p <= 0 {
			*p = v
		}
	}
	orTime := func(p *time.Duration, v time.Duration) {
		if *p <= 0 {
			*p = v
		}
	}
	orInt(&o.MaxConnections, 1024)
	orInt(&o.MaxMessage, wire.MaxSize)
	orInt(&o.MaxLoadStreams, 16)
	orTime(&o.FirstMessageTimeout, time.Minute)
	orTime(&o.IdleTimeout, 5*time.Minute)
	orTime(&o.MaxHold, time.Minute)
	orTime(&o.MaxLoadDuration, time.Minute)
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// behaviour is what Options and Emulation come to.
type behaviour struct {
	version           wire.Version
	layoutA, layoutBC bool
	minA, minBC       int // smallest request
	replySize         bool
	hold              bool
	stop              bool
	acks              bool
	timeLimit         time.Duration // 0: none
}

func (e *Emulation) behaviour() behaviour {
	// Not iperf's minimum: real clients send whatever -l says. The hold field is the
	// last that a server has to read.
	b := behaviour{
		version: OwnVersion(), layoutA: true, layoutBC: true, minA: 44, minBC: 48,
		replySize: true, hold: true, stop: true, acks: true,
	}
	if e == nil {
		return b
	}
	b.acks = !e.NoAck
	switch e.Hold {
	case HoldHonoured:
		b.hold = true
	case HoldIgnored:
		b.hold = false
	}
	v := e.Version
	if v == (wire.Version{}) {
		return b
	}
	is217 := v.Upper == 2 && v.Lower == 1 && v.Patch == 7
	b.version = v
	b.layoutA = is217
	b.layoutBC = !v.Less(wire.V2_1_8)
	b.minA = wire.LayoutA.MinSize()
	b.minBC = wire.LayoutB.MinSize()
	b.replySize = !v.Less(wire.V2_2_0)
	if e.Hold == HoldByVersion {
		b.hold = v.Less(wire.V2_2_0)
	}
	b.stop = b.layoutBC
	if b.replySize {
		b.minBC = wire.LayoutC.MinSize()
	}
	if is217 {
		b.timeLimit = 10 * time.Second
	}
	return b
}
