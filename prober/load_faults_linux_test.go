package prober

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/prober/fakeserver"
	"github.com/bounceback-exporter/bounceback_exporter/prober/wire"
)

// loaded is a module with a short load.
func loaded(direction string, streams int, duration time.Duration) func(*config.Module) {
	return func(m *config.Module) {
		m.Duration, m.Count, m.Period, m.Burst = duration, config.MaxCount, 10*time.Millisecond, 1
		m.Congest = &config.Congest{Direction: direction, Streams: streams, Baseline: 200 * time.Millisecond, Warmup: 200 * time.Millisecond}
	}
}

// loadPeer is a server whose bounces work and whose load streams do what the test
// says, after their header was read.
type loadPeer struct {
	addr    netip.AddrPort
	bounces *fakeserver.Server
	headers chan wire.TestRequest
}

// startLoadPeer passes bounce connections on to an honest peer, and load streams,
// with their number from 0, to f, which need not close them.
func startLoadPeer(t *testing.T, f func(c *net.TCPConn, n int)) *loadPeer {
	t.Helper()
	return startLoadPeerOf(t, fakeserver.Script{Version: wire.V2_1_9}, f)
}

// startLoadPeerOf is startLoadPeer with a script for the bounces.
func startLoadPeerOf(t *testing.T, bounces fakeserver.Script, f func(c *net.TCPConn, n int)) *loadPeer {
	t.Helper()
	l := listen(t)
	p := &loadPeer{addrOf(l), fakeserver.Start(t, bounces), make(chan wire.TestRequest, 64)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		var n int
		for {
			c, err := l.AcceptTCP()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			first := make([]byte, 4)
			if _, err := io.ReadFull(c, first); err != nil {
				continue
			}
			if binary.BigEndian.Uint32(first)&wire.FlagExtend == 0 {
				go splice(c, first, p.bounces.Addr())
				continue
			}
			header := append(first, make([]byte, wire.TestHeaderLen-len(first))...)
			if _, err := io.ReadFull(c, header[len(first):]); err != nil {
				continue
			}
			r, err := wire.DecodeTestRequest(header)
			if err != nil {
				t.Errorf("a load's header: %v", err)
				continue
			}
			p.headers <- r
			go f(c, n)
			n++
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return p
}

// splice joins a connection, of which a few bytes have been read, with one to addr.
func splice(c *net.TCPConn, head []byte, addr netip.AddrPort) {
	up, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(addr))
	if err != nil {
		return
	}
	defer up.Close()
	defer c.Close()
	if _, err := up.Write(head); err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(up, c)
		_ = up.CloseWrite()
	}()
	_, _ = io.Copy(c, up)
}

// loadFault is what a peer does to load streams, and what must come of it.
type loadFault struct {
	directions []string
	peer       func(c *net.TCPConn, n int)
	says       string
	started    bool          // the load began before it broke
	after      time.Duration // how long after the baseline the failure is due
}

// ackOf writes the ack of an up load.
func ackOf(c *net.TCPConn) {
	b := make([]byte, wire.AckLen)
	if _, err := (&wire.Ack{Version: wire.V2_1_9}).Put(b); err == nil {
		_, _ = c.Write(b)
	}
}

// flow reads, and sends if it is to, for a while, at a pace that leaves the machine alone. It
// never blocks for good.
func flow(c *net.TCPConn, sends bool, d time.Duration) {
	end := time.Now().Add(d)
	_ = c.SetDeadline(end)
	paced := func(f func([]byte) (int, error)) {
		data := make([]byte, 16<<10)
		for time.Now().Before(end) {
			if _, err := f(data); err != nil {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		paced(c.Read)
	}()
	if sends {
		paced(c.Write)
	}
	<-done
	_ = c.SetDeadline(time.Time{})
}

func resetNow(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}

// swallow reads up to the client's end and then ends too, as iperf does.
func swallow(c *net.TCPConn) {
	_, _ = io.Copy(io.Discard, c)
	_ = c.Close()
}

// sideBySide runs subtests all at once: they wait most of the time.
func sideBySide(t *testing.T, tests map[string]func(t *testing.T)) {
	var all sync.WaitGroup
	for name, f := range tests {
		all.Go(func() { t.Run(name, f) })
	}
	all.Wait()
}

func TestLoadFaults(t *testing.T) {
	tests := make(map[string]func(*testing.T))
	const mid = time.Second
	all, up, sending := []string{"up", "down", "both"}, []string{"up"}, []string{"down", "both"}
	for name, tc := range map[string]loadFault{
		"silent":         {all, func(c *net.TCPConn, _ int) { swallow(c) }, "one connection at a time", false, loadProof},
		"closed at once": {all, func(c *net.TCPConn, _ int) { _ = c.Close() }, "the server closed the connection", false, 0},
		"ended at once":  {all, func(c *net.TCPConn, _ int) { _ = c.CloseWrite() }, "the server closed the connection", false, 0},
		"reset at once":  {all, func(c *net.TCPConn, _ int) { resetNow(c) }, "reset by peer", false, 0},
		"no ack": {up, func(c *net.TCPConn, _ int) {
			_, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			swallow(c)
		}, `"HTTP/1.1", which is no acknowledgement`, false, 0},
		"half an ack": {up, func(c *net.TCPConn, _ int) {
			_, _ = c.Write([]byte{0, 0, 0, 2, 0, 0, 0, 28, 0, 0})
			_ = c.CloseWrite()
		}, "no acknowledgement of a load came: the server closed", false, 0},
		"ends early":  {sending, func(c *net.TCPConn, _ int) { flow(c, true, mid); _ = c.CloseWrite() }, "the server ended it", true, mid},
		"reset later": {all, func(c *net.TCPConn, _ int) { ackOf(c); flow(c, true, mid); resetNow(c) }, "reset by peer", true, mid},
		"the third stream is silent": {all, func(c *net.TCPConn, n int) {
			if n < 2 {
				ackOf(c)
				flow(c, true, 4*time.Second)
			}
			swallow(c)
		}, "one connection at a time", true, loadProof},
		"the third stream breaks": {all, func(c *net.TCPConn, n int) {
			ackOf(c)
			if n == 2 {
				flow(c, true, mid)
				resetNow(c)
				return
			}
			flow(c, true, 4*time.Second)
			swallow(c)
		}, "reset by peer", true, mid},
	} {
		for _, dir := range tc.directions {
			tests[name+" "+dir] = func(t *testing.T) { checkLoadFault(t, dir, tc) }
		}
	}
	sideBySide(t, tests)
}

func checkLoadFault(t *testing.T, dir string, tc loadFault) {
	s := startLoadPeer(t, tc.peer)
	streams := 1
	if strings.Contains(t.Name(), "third") {
		streams = 3
	}
	p := New(Options{Bounds: shortBounds})
	m := module(loaded(dir, streams, 2*time.Second))
	r := p.Run(t.Context(), &Job{Module: m, Addr: s.addr})
	want(t, r, ReasonLoadFailed)
	if t.Failed() {
		return
	}
	if !strings.Contains(r.Err.Error(), tc.says) {
		t.Errorf("%v: not a word of %q", r.Err, tc.says)
	}
	if r.Load == nil || r.Load.Started != tc.started || r.Load.Streams != streams {
		t.Errorf("load %+v, want started %v", r.Load, tc.started)
	}
	if len(r.Windows) == 0 || r.Windows[0].Load != LoadNone || len(r.Windows[0].Samples) == 0 {
		t.Fatalf("the baseline was not kept: %d windows", len(r.Windows))
	}
	if after := r.Elapsed - time.Duration(r.Windows[0].End); after < tc.after-10*time.Millisecond || after > tc.after+lateness {
		t.Errorf("failed %v after the baseline, due after %v", after, tc.after)
	}
	if tc.after == time.Second && (len(r.Windows) != 2 || len(r.Windows[1].Samples) == 0) {
		t.Errorf("the bounces until it broke were not kept: %d windows", len(r.Windows))
	}
	// Our half ends at once; what the peer sends is waited for.
	idle(t, p, 10*time.Second)
}
