package responder

import (
	"container/list"
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/prober/wire"
)

// ErrClosed is what Serve returns after Close.
var ErrClosed = errors.New("responder: closed")

// giveWay is how long a client of a full responder may be silent between messages
// before its place goes to a new one.
const giveWay = 10 * time.Second

// Responder answers bounce tests on any number of listeners. Its limits and
// counters are common to them all.
type Responder struct {
	opts      Options
	behaviour behaviour
	count     counters
	ctx       context.Context
	cancel    context.CancelFunc
	serving   sync.WaitGroup
	began     time.Time
	digits    func() []byte // what load streams send: made once, never written to

	mu         sync.Mutex
	closed     bool
	conns      map[*conn]struct{}
	perAddress map[netip.Addr]int
	waiting    list.List // of *conn: no complete first message yet, the oldest first
}

// New makes a Responder. It does nothing until Serve.
func New(o Options) *Responder {
	o = o.withDefaults()
	r := &Responder{
		opts:       o,
		behaviour:  o.Emulate.behaviour(),
		began:      time.Now(),
		conns:      make(map[*conn]struct{}),
		perAddress: make(map[netip.Addr]int),
		digits:     sync.OnceValue(func() []byte { return withTail(nil, wire.MaxSize) }),
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// Listen listens on a TCP address such as ":5001" or "[::1]:0", with multipath TCP
// off: it would add a header to each segment and hide the path's own TCP.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	return lc.Listen(ctx, "tcp", address)
}

// Serve accepts connections until ctx is done or the responder closed, ends those
// it accepted and returns nil. It closes ln in any case. An error is one of the
// listener, or ErrClosed if the responder was closed before.
func (r *Responder) Serve(ctx context.Context, ln net.Listener) error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		ln.Close()
		return ErrClosed
	}
	r.serving.Add(1)
	r.mu.Unlock()
	defer r.serving.Done()

	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(r.ctx, cancel)()
	defer context.AfterFunc(ctx, func() { ln.Close() })()
	defer ln.Close()
	var conns sync.WaitGroup
	defer conns.Wait()
	defer cancel()
	return r.accept(ctx, ln, &conns)
}

// Close ends everything and waits for it. It may be called more than once.
func (r *Responder) Close() error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	r.serving.Wait()
	return nil
}

func (r *Responder) accept(ctx context.Context, ln net.Listener, conns *sync.WaitGroup) error {
	const (
		longest = time.Second
		warn    = 10 * time.Second // apart
	)
	var pause time.Duration
	var warned time.Time
	for {
		nc, err := ln.Accept()
		if err == nil {
			pause = 0
			if c := r.admit(ctx, nc); c != nil {
				conns.Go(c.serve)
			}
			continue
		}
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, net.ErrClosed) || !passing(err) {
			return err
		}
		// Out of descriptors or memory: others may give some back. Those already
		// connected go on.
		r.count.acceptErrors.Add(1)
		pause = min(max(2*pause, 5*time.Millisecond), longest)
		if time.Since(warned) > warn {
			warned = time.Now()
			r.opts.Logger.Warn("accepting a connection failed, trying again", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// admit takes a connection on, or closes it and returns nil.
func (r *Responder) admit(ctx context.Context, nc net.Conn) *conn {
	c := &conn{r: r, nc: nc, ctx: ctx, address: remoteAddress(nc), accepted: r.opts.Clock()}
	r.mu.Lock()
	defer r.mu.Unlock()
	if limit := r.opts.MaxPerAddress; limit > 0 && r.perAddress[c.address] >= limit {
		return r.reject(c, "max_per_address")
	}
	if len(r.conns) >= r.opts.MaxConnections {
		idle := r.dispensable()
		if idle == nil {
			return r.reject(c, "max_connections")
		}
		r.forget(idle)
		r.count.evicted.Add(1)
		idle.evicted.Store(true)
		idle.nc.Close()
	}
	r.count.accepted.Add(1)
	r.conns[c] = struct{}{}
	r.perAddress[c.address]++
	c.place = r.waiting.PushBack(c)
	return c
}

// dispensable is the connection that gives way to a new one: the one that has been
// without a complete first message for longest, or else the one whose client has
// been silent for longest, if that is giveWay at least. It needs r.mu.
func (r *Responder) dispensable() *conn {
	if e := r.waiting.Front(); e != nil {
		return e.Value.(*conn)
	}
	var idlest *conn
	latest := r.uptime() - giveWay
	for c := range r.conns {
		if used := time.Duration(c.used.Load()); used < latest {
			idlest, latest = c, used
		}
	}
	return idlest
}

// uptime is a monotonic clock.
func (r *Responder) uptime() time.Duration { return time.Since(r.began) }

func (r *Responder) reject(c *conn, limit string) *conn {
	r.count.rejected.Add(1)
	c.nc.Close()
	r.opts.Logger.Debug("connection rejected", "client", c.address, "limit", limit)
	return nil
}

// complete is called when c's first message is there: it won't have to give way
// any more. It returns false if it already had to.
func (r *Responder) complete(c *conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.used.CompareAndSwap(0, int64(r.uptime()))
	if c.place != nil {
		r.waiting.Remove(c.place)
		c.place = nil
	}
	_, ok := r.conns[c]
	return ok
}

func (r *Responder) remove(c *conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(c)
}

// forget needs r.mu.
func (r *Responder) forget(c *conn) {
	if c.place != nil {
		r.waiting.Remove(c.place)
		c.place = nil
	}
	if _, ok := r.conns[c]; !ok {
		return
	}
	delete(r.conns, c)
	if r.perAddress[c.address]--; r.perAddress[c.address] == 0 {
		delete(r.perAddress, c.address)
	}
}

func remoteAddress(nc net.Conn) netip.Addr {
	if a, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}
