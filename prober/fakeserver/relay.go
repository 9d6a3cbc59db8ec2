package fakeserver

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// RelayOptions say how a relay forwards. The zero value forwards at once.
type RelayOptions struct {
	// UpRate (client to server) and DownRate are in bytes per second; 0: as fast
	// as it goes.
	UpRate, DownRate int
	// PauseUpAfter and PauseDownAfter pause a direction when so many bytes of a
	// connection were forwarded, until Resume; 0: never.
	PauseUpAfter, PauseDownAfter int64
	// SmallBuffers makes the relay's receive buffers small on both sides, so that a
	// sender notices slowness soon (Linux only).
	SmallBuffers bool
}

// Relay forwards TCP connections to a target, slowly if told so. A FIN is passed
// on as a FIN behind the bytes before it, an RST as an RST.
type Relay struct {
	target netip.AddrPort
	opts   RelayOptions
	ln     net.Listener
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	up, down relayDirection
}

type relayDirection struct {
	mu        sync.Mutex
	resume    chan struct{} // not nil while paused
	released  bool          // Resume was called: the automatic pause is over
	forwarded atomic.Int64
}

// StartRelay starts a relay on a free port of the target's loopback address
// family; it ends with the test.
func StartRelay(t testing.TB, target netip.AddrPort, o RelayOptions) *Relay {
	t.Helper()
	address := "127.0.0.1:0"
	if target.Addr().Is6() {
		address = "[::1]:0"
	}
	lc := net.ListenConfig{KeepAlive: -1}
	lc.SetMultipathTCP(false)
	if o.SmallBuffers {
		lc.Control = smallReceiveBuffer
	}
	ln, err := lc.Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatalf("relay: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &Relay{target: target, opts: o, ln: ln, ctx: ctx, cancel: cancel}
	r.wg.Go(r.accept)
	t.Cleanup(r.Close)
	return r
}

// Addr is where the relay listens.
func (r *Relay) Addr() netip.AddrPort { return r.ln.Addr().(*net.TCPAddr).AddrPort() }

// Forwarded is the number of bytes passed on so far, of all connections.
func (r *Relay) Forwarded() (up, down int64) {
	return r.up.forwarded.Load(), r.down.forwarded.Load()
}

// PauseUp and PauseDown stop a direction of all connections.
func (r *Relay) PauseUp()   { r.up.pause() }
func (r *Relay) PauseDown() { r.down.pause() }

// ResumeUp and ResumeDown let a paused direction go on, and end the automatic
// pauses of the options.
func (r *Relay) ResumeUp()   { r.up.goOn() }
func (r *Relay) ResumeDown() { r.down.goOn() }

// Close ends the relay and all its connections, and waits for that.
func (r *Relay) Close() {
	r.cancel()
	r.ln.Close()
	r.wg.Wait()
}

func (r *Relay) accept() {
	for {
		c, err := r.ln.Accept()
		if err != nil {
			return
		}
		client := c.(*net.TCPConn)
		r.wg.Go(func() { r.serve(client) })
	}
}

func (r *Relay) serve(client *net.TCPConn) {
	defer client.Close()
	d := net.Dialer{KeepAlive: -1}
	d.SetMultipathTCP(false)
	if r.opts.SmallBuffers {
		d.Control = smallReceiveBuffer
	}
	c, err := d.DialContext(r.ctx, "tcp", r.target.String())
	if err != nil {
		client.SetLinger(0)
		return
	}
	server := c.(*net.TCPConn)
	defer server.Close()
	stop := context.AfterFunc(r.ctx, func() {
		client.SetDeadline(time.Unix(1, 0))
		server.SetDeadline(time.Unix(1, 0))
	})
	defer stop()
	var both sync.WaitGroup
	both.Go(func() { r.pump(server, client, &r.up, r.opts.UpRate, r.opts.PauseUpAfter) })
	both.Go(func() { r.pump(client, server, &r.down, r.opts.DownRate, r.opts.PauseDownAfter) })
	both.Wait()
}

// pump passes bytes from src to dst until src ends, and then its end.
func (r *Relay) pump(dst, src *net.TCPConn, d *relayDirection, rate int, pauseAfter int64) {
	// A slow direction moves a hundredth of a second's bytes at a time.
	chunk := 64 << 10
	if rate > 0 {
		chunk = max(1, min(chunk, rate/100))
	}
	buf := make([]byte, chunk)
	var total int64
	due := time.Now()
	for {
		d.wait(r.ctx, pauseAfter > 0 && total >= pauseAfter)
		n := len(buf)
		if left := pauseAfter - total; left > 0 && left < int64(n) {
			n = int(left)
		}
		n, err := src.Read(buf[:n])
		if n > 0 {
			if rate > 0 {
				due = due.Add(time.Duration(n) * time.Second / time.Duration(rate))
				if now := time.Now(); due.Before(now) {
					due = now
				}
				r.sleep(time.Until(due))
			}
			// A pause that began during the read holds these bytes back too.
			d.wait(r.ctx, false)
			if _, werr := dst.Write(buf[:n]); werr != nil {
				if errors.Is(werr, syscall.ECONNRESET) || errors.Is(werr, syscall.EPIPE) {
					src.SetLinger(0)
					src.Close()
				}
				return
			}
			total += int64(n)
			d.forwarded.Add(int64(n))
		}
		switch {
		case err == nil:
		case err == io.EOF:
			dst.CloseWrite()
			return
		case r.ctx.Err() != nil:
			return
		default: // an RST, or the other direction has closed this one
			dst.SetLinger(0)
			dst.Close()
			return
		}
	}
}

func (r *Relay) sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-r.ctx.Done():
	case <-time.After(d):
	}
}

func (d *relayDirection) pause() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.resume == nil {
		d.resume = make(chan struct{})
	}
}

func (d *relayDirection) goOn() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.released = true
	if d.resume != nil {
		close(d.resume)
		d.resume = nil
	}
}

// wait returns when the direction may go on. An automatic pause begins here.
func (d *relayDirection) wait(ctx context.Context, automatic bool) {
	d.mu.Lock()
	if automatic && !d.released && d.resume == nil {
		d.resume = make(chan struct{})
	}
	ch := d.resume
	d.mu.Unlock()
	if ch == nil {
		return
	}
	select {
	case <-ctx.Done():
	case <-ch:
	}
}
