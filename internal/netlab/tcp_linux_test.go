package netlab

import (
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// serve accepts connections on h and hands each to f on a goroutine of its own,
// until the test ends, which waits for all of them.
func serve(t *testing.T, h *Host, addr netip.Addr, f func(net.Conn)) netip.AddrPort {
	t.Helper()
	ln, err := h.Listen("tcp", netip.AddrPortFrom(addr, 0))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			f(c)
			c.Close()
		}
	}()
	t.Cleanup(func() { ln.Close(); <-ended })
	return ln.Addr().(*net.TCPAddr).AddrPort()
}

func TestBothFamilies(t *testing.T) {
	Require(t)
	const delay = 20 * time.Millisecond
	l := New(t, Config{AtoB: Link{Delay: delay}})
	for _, addr := range []netip.Addr{l.B.Addr4, l.B.Addr6} {
		if !addr.IsValid() {
			t.Log("this kernel has no IPv6")
			continue
		}
		server := serve(t, l.B, addr, func(c net.Conn) { _, _ = io.Copy(c, c) })
		start := time.Now()
		c, err := l.A.Dial("tcp", server)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < delay {
			t.Errorf("connecting to %v took %v", addr, took)
		}
		if _, err := c.Write([]byte("ping")); err != nil {
			t.Error(err)
		}
		got := make([]byte, 4)
		if _, err := io.ReadFull(c, got); err != nil || string(got) != "ping" {
			t.Errorf("echo of %v: %q, %v", addr, got, err)
		}
		c.Close()
	}
}

func TestDropFirstSYN(t *testing.T) {
	Require(t)
	l := New(t, Config{})
	server := serve(t, l.B, l.B.Addr4, func(net.Conn) {})
	l.Link(AtoB).Drop(FirstSYN())
	start := time.Now()
	for range 2 { // for the second one the rule is spent
		c, err := l.A.Dial("tcp", server)
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	// The retransmission comes after a second (RFC 6298), the next would after two more.
	if took := time.Since(start); took < 900*time.Millisecond || took > 2900*time.Millisecond {
		t.Errorf("two connects took %v, want about 1 s", took)
	}
	if s := l.Link(AtoB).Stats(); s.DroppedRule != 1 || s.Dropped() != 1 {
		t.Errorf("counters are %+v", s)
	}
}

// A bulk transfer fills a 10 Mbit/s link to its payload rate, with packets that are
// packets and not what a network card would cut up, and its queue is as long as the
// limit says.
func TestBulkFillsTheLink(t *testing.T) {
	Require(t)
	const (
		rate, delay, limit = 10e6, 5 * time.Millisecond, 50
		warmup, window     = time.Second, 4 * time.Second
		// Of 1500 bytes, 20 are IP, 20 TCP and 12 TCP's timestamps.
		payload = rate / 8 * 1448 / 1500
	)
	link := Link{Rate: rate, Delay: delay, Queue: limit}
	l := New(t, Config{AtoB: link, BtoA: link})
	for _, h := range []*Host{l.A, l.B} {
		h.Sysctl("net.ipv4.tcp_congestion_control", "reno")
	}
	// Counts packets that are too long, by dropping them.
	l.Link(AtoB).Drop(Rule{Match: Match{Protocol: 6, MinPayload: 1449}, Count: -1})
	defer beRealtime(t)()
	got := make(chan float64, 1)
	server := serve(t, l.B, l.B.Addr4, func(c net.Conn) {
		buf := make([]byte, 1<<16)
		var n int
		start := time.Now().Add(warmup)
		for {
			m, err := c.Read(buf)
			now := time.Now()
			if now.After(start) {
				n += m
			}
			if err != nil || now.Sub(start) > window {
				got <- float64(n) / now.Sub(start).Seconds()
				return
			}
		}
	})
	c, err := l.A.Dial("tcp", server)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var rtt []time.Duration
	chunk := make([]byte, 1<<15)
	for start := time.Now(); time.Since(start) < warmup+window; {
		if _, err := c.Write(chunk); err != nil {
			break // the receiver has seen enough
		}
		if time.Since(start) > warmup {
			rtt = append(rtt, tcpRTT(t, c))
		}
	}
	if bytes := <-got; bytes < payload*0.95 || bytes > payload*1.03 {
		t.Errorf("throughput is %.0f byte/s, want %.0f", bytes, float64(payload))
	}
	s := l.Link(AtoB).Stats()
	if s.DroppedRule != 0 {
		t.Errorf("%d packets carry more than 1448 bytes", s.DroppedRule)
	}
	// Reno fills the queue until it overflows and then halves: between half and all of
	// the path's capacity, 10 packets in flight and 50 waiting, hence 25 to 61 ms.
	if got := percentile(rtt, 50); got < 30*time.Millisecond || got > 75*time.Millisecond {
		t.Errorf("median of TCP's RTT is %v", got)
	}
	if s.MaxWaiting != limit || s.DroppedQueue == 0 {
		t.Errorf("the queue never was full: %+v", s)
	}
	t.Logf("%+v", s)
	t.Logf("RTT p50 %v; link used %v CPU for %d+%d packets", percentile(rtt, 50), l.LinkCPU(), s.InPackets, l.Link(BtoA).Stats().InPackets)
}

func tcpRTT(t *testing.T, c net.Conn) time.Duration {
	t.Helper()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var info *unix.TCPInfo
	var infoErr error
	err = raw.Control(func(fd uintptr) { info, infoErr = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) })
	if err != nil || infoErr != nil {
		t.Fatal(err, infoErr)
	}
	return time.Duration(info.Rtt) * time.Microsecond
}
