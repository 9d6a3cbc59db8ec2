//go:build !linux

package prober

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"time"
)

// canceller ends waits by moving the connection's deadline into the past.
type canceller struct {
	ctx context.Context
}

func newCanceller(ctx context.Context) (*canceller, error) { return &canceller{ctx}, nil }

func (c *canceller) close() {}

// conn is a net.Conn behind the methods of the Linux one. It measures less: no
// tcp_info, no kernel receive stamps.
type conn struct {
	clk  *stopwatch
	ctx  context.Context
	opts dialOptions

	mu      sync.Mutex // guards nc and the deadline
	nc      *net.TCPConn
	closed  bool
	dialed  chan struct{} // closed when the connect has ended either way
	dialErr error
	cancel  context.CancelFunc

	stamp int64 // always 0 here
}

func startConn(clk *stopwatch, stop *canceller, o dialOptions) (*conn, error) {
	notHere := func(what string) error {
		return &unsupportedError{localError{what, fmt.Errorf("not supported on %s", runtime.GOOS)}}
	}
	switch {
	case o.device != "":
		return nil, notHere("interface")
	case o.congestionControl != "":
		return nil, notHere("congestion_control")
	case o.tos != 0:
		return nil, notHere("dscp")
	case o.notSentLowat != 0:
		return nil, notHere("congest")
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(stop.ctx))
	c := &conn{clk: clk, ctx: stop.ctx, opts: o, dialed: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(c.dialed)
		d := net.Dialer{KeepAlive: -1}
		d.SetMultipathTCP(false)
		if o.source.IsValid() {
			d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(o.source, 0))
		}
		nc, err := d.DialContext(ctx, "tcp", o.addr.String()) // a literal: one address
		c.mu.Lock()
		defer c.mu.Unlock()
		if err != nil {
			c.dialErr = err
			return
		}
		c.nc = nc.(*net.TCPConn)
		if c.closed {
			_ = c.nc.Close()
		}
	}()
	return c, nil
}

func (c *conn) untilTime(until int64) time.Time { return c.clk.base.Add(time.Duration(until)) }

func (c *conn) awaitConnect(until int64) error {
	timer := time.NewTimer(time.Until(c.untilTime(until)))
	defer timer.Stop()
	select {
	case <-c.dialed:
		return c.dialErr
	case <-timer.C:
		return errDeadline
	case <-c.ctx.Done():
		return errCancelled
	}
}

// guarded runs one blocking call under deadline and cancellation.
func (c *conn) guarded(until int64, call func() (int, error)) (int, error) {
	_ = c.nc.SetDeadline(c.untilTime(until))
	stop := context.AfterFunc(c.ctx, func() { _ = c.nc.SetDeadline(time.Unix(1, 0)) })
	n, err := call()
	stop()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		if c.ctx.Err() != nil {
			return n, errCancelled
		}
		return n, errDeadline
	}
	return n, err
}

func (c *conn) send(b []byte, now, until int64) (int, error) {
	return c.guarded(until, func() (int, error) { return c.nc.Write(b) })
}

func (c *conn) recv(b []byte, least int, now, until int64) (int, error) {
	n, err := c.guarded(until, func() (int, error) { return io.ReadAtLeast(c.nc, b, least) })
	if err == io.ErrUnexpectedEOF {
		err = io.EOF
	}
	return n, err
}

func (c *conn) sleepUntil(tick, now, until int64) error {
	timer := time.NewTimer(time.Duration(min(tick, until) - now))
	defer timer.Stop()
	select {
	case <-timer.C:
		if tick > until {
			return errDeadline
		}
		return nil
	case <-c.ctx.Done():
		return errCancelled
	}
}

func (c *conn) quickAck() {}

func (c *conn) tcpInfo(*TCPInfo) bool { return false }

func (c *conn) localAddr() netip.AddrPort {
	a, _ := c.nc.LocalAddr().(*net.TCPAddr)
	if a == nil {
		return netip.AddrPort{}
	}
	return a.AddrPort()
}

func (c *conn) halfClose() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.nc != nil {
		_ = c.nc.CloseWrite()
	}
}

// abandonConnect can't keep the peer's answer away here, so the connect goes on.
func (c *conn) abandonConnect() bool { return false }

func (c *conn) handOver() background { return background{c} }

func (c *conn) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.cancel()
	if c.nc != nil {
		_ = c.nc.Close()
	}
}

// background is the conn itself: its waits cost no thread already.
type background struct{ c *conn }

func (b background) SetDeadline(t time.Time) error {
	select {
	case <-b.c.dialed:
		if b.c.nc != nil {
			return b.c.nc.SetDeadline(t)
		}
	default:
		time.AfterFunc(time.Until(t), b.c.cancel)
	}
	return nil
}

func (b background) Read(p []byte) (int, error)  { return b.c.nc.Read(p) }
func (b background) Write(p []byte) (int, error) { return b.c.nc.Write(p) }
func (b background) close()                      { b.c.close() }

func (b background) awaitConnect() error {
	<-b.c.dialed
	if errors.Is(b.c.dialErr, context.Canceled) {
		return os.ErrDeadlineExceeded
	}
	return b.c.dialErr
}
