package prober

import (
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/prober/peers"
)

// Job is one probe to be done.
type Job struct {
	Module *config.Module
	Target Target
	// Allowed is who may be probed; nil: everything.
	Allowed *config.AllowedTargets
	// Start is when the request came in, from which phases and Result.Elapsed
	// count; zero: when Resolve or Run is called.
	Start time.Time
	// Addr is the one literal address to dial. Resolve fills it.
	Addr netip.AddrPort
	// ResolveTook is filled by Resolve.
	ResolveTook Optional[time.Duration]
	// Waited is time already spent waiting for admission; it is part of PhaseWait.
	Waited time.Duration
	// Lease is the admission at the address (peers.Table.Enter). The run holds it
	// on for what goes on in the background. nil: Run enters by itself.
	Lease *peers.Lease
	// Live, if not nil, shows the rows of the running test.
	Live *Live
}

// Options of a Prober; the zero value of each field is a sensible default.
type Options struct {
	Peers  *peers.Table
	Bounds Bounds
}

// Bounds limit what goes on in the background after an answer was given. They
// are fields so that tests can shorten them.
type Bounds struct {
	// FirstWrite is how long connect and first message may go on after their
	// probe was given up; 30 s.
	FirstWrite time.Duration
	// Drain is how long, beyond the hold, a half-closed connection is read for its
	// EOF; 5 s.
	Drain time.Duration
}

// Prober runs probes. It is safe for concurrent use.
type Prober struct {
	opts Options
}

// New makes a Prober.
func New(o Options) *Prober { return &Prober{opts: o} }

// Resolve turns job.Target into the one literal address job.Addr: the preferred
// family of the module, the other where fallback is allowed. On failure it
// returns the finished Result, else nil.
func (p *Prober) Resolve(ctx context.Context, job *Job) *Result {
	return &Result{Module: job.Module, Err: &Error{PhaseResolve, ReasonResolve, errors.ErrUnsupported}}
}

// Run dials job.Addr and does the whole test within ctx, whose deadline bounds
// the answer. It always returns a Result.
func (p *Prober) Run(ctx context.Context, job *Job) *Result {
	return &Result{Module: job.Module, Err: &Error{PhaseConnect, ReasonLocalLimit, errors.ErrUnsupported}}
}

// DrainsInFlight is the number of connections that are being ended in the
// background; DrainsAbandoned counts those that were closed at their bound
// without having seen the peer's EOF.
func (p *Prober) DrainsInFlight() int     { return 0 }
func (p *Prober) DrainsAbandoned() uint64 { return 0 }

// Wait returns when nothing goes on in the background, or with ctx's error.
func (p *Prober) Wait(ctx context.Context) error { return nil }

// HalfCloseAll half-closes every open bounce connection at once, for an immediate
// exit of the process: with our FIN out first, the RST of a dying process is
// harmless to the server.
func (p *Prober) HalfCloseAll() {}

// ParseTarget reads host, host:port, [v6], [v6]:port, a bare v6 address or
// v6%zone. Port is DefaultPort unless given.
func ParseTarget(s string) (Target, error) { return Target{}, errors.ErrUnsupported }

// Target is what a user asks for: a host, which may be a name or a literal
// address with a zone, and a port.
type Target struct {
	Host string
	Port uint16
}

// DefaultPort is iperf 2's.
const DefaultPort = 5001

// Live shows the rows of a running test to whoever draws progress. The loop
// publishes without a lock; readers see a prefix of the rows.
type Live struct {
	rows []Row
	n    atomic.Int32
}

// Rows returns the rows published so far.
func (l *Live) Rows() []Row { return l.rows[:l.n.Load()] }
