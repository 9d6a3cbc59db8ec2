package prober

import (
	"context"
	"net"
	"net/netip"
	"sync"
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
	Peers    *peers.Table // what is known of addresses; a new one
	Resolver Resolver     // net.DefaultResolver
	Bounds   Bounds
}

// Bounds limit what goes on in the background after an answer was given, and how
// long silence is waited for. They are fields so that tests can shorten them; a
// zero field has its default.
type Bounds struct {
	// FirstWrite is how long a first message may take to be written after its
	// probe was given up; 30 s.
	FirstWrite time.Duration
	// Drain is how long, beyond the hold, a half-closed connection is read for its
	// EOF; 5 s.
	Drain time.Duration
	// FirstReply is how long, beyond the hold, a first reply is waited for before
	// the peer counts as one that does not bounce; 3 s.
	FirstReply time.Duration
}

// Prober runs probes. It is safe for concurrent use.
type Prober struct {
	opts Options

	abandoned atomic.Uint64

	mu    sync.Mutex
	conns map[*conn]struct{} // every open connection, for HalfCloseAll
	idle  *sync.Cond         // signalled when background falls to 0
	bg    int                // connections that are being ended in the background

	wallShift func() int64 // tests: nanoseconds added to the wall clock
}

// New makes a Prober.
func New(o Options) *Prober {
	if o.Peers == nil {
		o.Peers = peers.New(peers.Options{})
	}
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	setDefault(&o.Bounds.FirstWrite, 30*time.Second)
	setDefault(&o.Bounds.Drain, 5*time.Second)
	setDefault(&o.Bounds.FirstReply, 3*time.Second)
	p := &Prober{opts: o, conns: make(map[*conn]struct{})}
	p.idle = sync.NewCond(&p.mu)
	return p
}

func setDefault(d *time.Duration, v time.Duration) {
	if *d <= 0 {
		*d = v
	}
}

// DrainsInFlight is the number of connections that are being ended in the
// background.
func (p *Prober) DrainsInFlight() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bg
}

// DrainsAbandoned counts the connections that were closed at their bound without
// having seen the peer's EOF.
func (p *Prober) DrainsAbandoned() uint64 { return p.abandoned.Load() }

// Wait returns when nothing goes on in the background, or with ctx's error.
func (p *Prober) Wait(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.idle.Broadcast()
	})
	defer stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.bg > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		p.idle.Wait()
	}
	return nil
}

// HalfCloseAll half-closes every open connection at once, for an immediate exit
// of the process: with our FIN out first, the reset that a dying process sends is
// harmless to the server.
func (p *Prober) HalfCloseAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.halfClose()
	}
}

func (p *Prober) track(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[c] = struct{}{}
}

func (p *Prober) untrack(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// Live shows the rows of a running test to whoever draws progress. The loop
// publishes without a lock; readers see a prefix of the rows.
type Live struct {
	rows atomic.Pointer[[]Row]
	n    atomic.Int32
}

// Rows returns the rows published so far.
func (l *Live) Rows() []Row {
	rows := l.rows.Load()
	if rows == nil {
		return nil
	}
	return (*rows)[:l.n.Load()]
}
