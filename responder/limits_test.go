package responder

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/prober/wire"
)

// honest is a client that wants n answers.
func honest(t testing.TB, to netip.AddrPort, n int) {
	t.Helper()
	c := dial(t, to)
	for range n {
		write(t, c, message(t, wire.Message{}))
		readReply(t, c, wire.LayoutC, 100)
	}
	end(t, c)
	c.Close()
}

// At the limit the longest silent one gives way; when all are at work the new one is
// closed at once; and all that without harm to those at work.
func TestMaxConnections(t *testing.T) {
	r, addr := start(t, Options{MaxConnections: 3})
	first, second := dial(t, addr), dial(t, addr)
	waitFor(t, func() bool { return r.Stats().Waiting == 2 })
	working := dial(t, addr)
	bounce := func(c net.Conn) {
		t.Helper()
		write(t, c, message(t, wire.Message{}))
		readReply(t, c, wire.LayoutC, 100)
	}
	bounce(working)
	honest(t, addr, 1)
	wantEOF(t, first)
	waitFor(t, func() bool { return r.Stats().Active == 2 })
	bounce(second) // came in time: it is at work now
	third := dial(t, addr)
	bounce(third)
	late := dial(t, addr)
	wantEOF(t, late)
	for _, c := range []net.Conn{working, second, third} {
		bounce(c)
	}
	if s := r.Stats(); s.Evicted != 1 || s.Rejected != 1 || s.Active != 3 || s.Waiting != 0 {
		t.Errorf("%+v", s)
	}
}

// A client that was silent between messages for long enough gives way as well, the
// longest silent first; a load does not.
func TestIdleGivesWay(t *testing.T) {
	r := New(Options{MaxConnections: 3})
	r.began = time.Now().Add(-time.Hour)
	for name, ages := range map[string][]time.Duration{
		"none":    {0, giveWay - time.Second, giveWay - time.Second},
		"second":  {0, giveWay + time.Second, giveWay + time.Millisecond},
		"third":   {giveWay / 2, giveWay + time.Second, 2 * giveWay},
		"loading": {giveWay / 2, 0, -1},
	} {
		clear(r.conns)
		var all []*conn
		for _, age := range ages {
			c := &conn{r: r}
			c.used.Store(int64(r.uptime() - age))
			if age < 0 {
				c.used.Store(busy)
			}
			r.conns[c] = struct{}{}
			all = append(all, c)
		}
		want := map[string]*conn{"second": all[1], "third": all[2]}[name]
		if got := r.dispensable(); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	clear(r.conns)
}

func TestMaxPerAddress(t *testing.T) {
	r, addr := start(t, Options{MaxPerAddress: 2})
	dial(t, addr)
	dial(t, addr)
	waitFor(t, func() bool { return r.Stats().Active == 2 })
	wantEOF(t, dial(t, addr))
	// Another address has its own share.
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	c, err := d.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	write(t, c, message(t, wire.Message{}))
	readReply(t, c, wire.LayoutC, 100)
	if s := r.Stats(); s.Rejected != 1 || s.Accepted != 3 {
		t.Errorf("%+v", s)
	}
}

// What is not complete in time ends with a FIN and is counted; a client that keeps
// sending bytes, but no message, does not gain by it.
func TestTimeouts(t *testing.T) {
	const limit = 200 * time.Millisecond
	request := message(t, wire.Message{})
	for name, tc := range map[string]struct {
		o     Options
		whole int // messages sent before
		part  int // bytes of the next
	}{
		"silent":      {Options{FirstMessageTimeout: limit}, 0, 0},
		"three bytes": {Options{FirstMessageTimeout: limit}, 0, 3},
		"most of it":  {Options{FirstMessageTimeout: limit}, 0, 90},
		"idle":        {Options{IdleTimeout: limit}, 3, 0},
		"idle inside": {Options{IdleTimeout: limit}, 3, 90},
	} {
		r, addr := start(t, tc.o)
		c := dial(t, addr)
		for range tc.whole {
			write(t, c, request)
			readReply(t, c, wire.LayoutC, 100)
		}
		go func() {
			for i := range tc.part {
				if _, err := c.Write(request[i : i+1]); err != nil {
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
		}()
		begin := time.Now()
		wantEOF(t, c)
		if d := time.Since(begin); d < limit-20*time.Millisecond {
			t.Errorf("%s: ended after %s, the limit is %s", name, d, limit)
		}
		c.Close()
		if s := settled(t, r); s.TimedOut != 1 || s.Bounces != uint64(tc.whole) {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// A client that takes no replies ends too.
func TestNeverReads(t *testing.T) {
	r, addr := start(t, Options{IdleTimeout: 200 * time.Millisecond})
	c := dial(t, addr)
	request := message(t, wire.Message{Size: wire.MaxSize})
	c.SetWriteDeadline(time.Now().Add(5 * time.Second))
	for range 1000 {
		if _, err := c.Write(request); err != nil {
			break
		}
	}
	waitFor(t, func() bool { return r.Stats().TimedOut == 1 })
}

// Slow clients hold up nobody: while one sends a byte at a time and one holds, others
// are answered.
func TestSlowClients(t *testing.T) {
	_, addr := start(t, Options{})
	holding := dial(t, addr)
	write(t, holding, message(t, wire.Message{Hold: 20_000_000}))
	slow := dial(t, addr)
	for _, b := range message(t, wire.Message{})[:20] {
		write(t, slow, []byte{b})
		honest(t, addr, 1)
	}
	write(t, slow, message(t, wire.Message{})[20:])
	readReply(t, slow, wire.LayoutC, 100)
}

// flaky is a listener that fails before it accepts.
type flaky struct {
	net.Listener
	mu   sync.Mutex
	errs []error
}

func (f *flaky) Accept() (net.Conn, error) {
	f.mu.Lock()
	if len(f.errs) > 0 {
		err := f.errs[0]
		f.errs = f.errs[1:]
		f.mu.Unlock()
		return nil, err
	}
	f.mu.Unlock()
	return f.Listener.Accept()
}

// A want of descriptors passes; another failure of the listener ends Serve with it.
func TestListenerFailures(t *testing.T) {
	ln, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := New(Options{})
	defer r.Close()
	done := make(chan error, 1)
	fl := &flaky{Listener: ln, errs: []error{syscall.EMFILE, &net.OpError{Op: "accept", Err: syscall.ECONNABORTED}}}
	go func() { done <- r.Serve(context.Background(), fl) }()
	honest(t, ln.Addr().(*net.TCPAddr).AddrPort(), 1)
	if s := r.Stats(); s.AcceptErrors != 2 {
		t.Errorf("%+v", s)
	}
	ln.Close()
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve on a closed listener: %v", err)
	}
	broken := errors.New("broken")
	if err := r.Serve(context.Background(), &flaky{Listener: ln, errs: []error{broken}}); err != broken {
		t.Errorf("Serve: %v", err)
	}
}

// Serve ends with its context or with the responder, several listeners share one
// responder, and after Close there is no Serve.
func TestServeLife(t *testing.T) {
	r := New(Options{})
	serve := func(ctx context.Context) (netip.AddrPort, chan error) {
		ln, err := Listen(t.Context(), "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- r.Serve(ctx, ln) }()
		return ln.Addr().(*net.TCPAddr).AddrPort(), done
	}
	ctx, cancel := context.WithCancel(context.Background())
	one, oneDone := serve(ctx)
	two, twoDone := serve(context.Background())
	a, b := dial(t, one), dial(t, two)
	for _, c := range []net.Conn{a, b} {
		write(t, c, message(t, wire.Message{}))
		readReply(t, c, wire.LayoutC, 100)
	}
	cancel()
	if err := <-oneDone; err != nil {
		t.Errorf("Serve: %v", err)
	}
	wantEOF(t, a)
	write(t, b, message(t, wire.Message{}))
	readReply(t, b, wire.LayoutC, 100)
	if s := r.Stats(); s.Tests != 2 || s.Active != 1 {
		t.Errorf("%+v", s)
	}
	r.Close()
	r.Close()
	if err := <-twoDone; err != nil {
		t.Errorf("Serve: %v", err)
	}
	wantEOF(t, b)
	ln, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Serve(context.Background(), ln); !errors.Is(err, ErrClosed) {
		t.Errorf("Serve after Close: %v", err)
	}
	if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener was left open: %v", err)
	}
}
