package prober

import (
	"context"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestMarkIsWorthAWakeUp(t *testing.T) {
	const least, most = 100, 100000
	for _, c := range []struct {
		n    int
		d    time.Duration
		want int
	}{
		{0, retune, least},                       // silence
		{1250 * 20, 20 * time.Millisecond, 2500}, // 10 Mbit/s: 2 ms of it
		{1 << 30, time.Millisecond, most},
		{1 << 30, 1, most},
		{1250 * 200, 200 * time.Millisecond, 2500}, // the same, seen late
	} {
		if got := markFor(c.n, c.d, least, most); got != c.want {
			t.Errorf("%d bytes within %v: %d, want %d", c.n, c.d, got, c.want)
		}
	}
}

// moverPeer is a connection of ours with a peer of the test behind it.
func moverPeer(t *testing.T) (*conn, net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	stop, err := newCanceller(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop.close)
	clk := &stopwatch{base: time.Now()}
	c, err := startConn(clk, stop, dialOptions{addr: l.Addr().(*net.TCPAddr).AddrPort(), notSentLowat: notSentLowat})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	if err := c.awaitConnect(clk.mono() + int64(10*time.Second)); err != nil {
		t.Fatal(err)
	}
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = peer.Close() })
	return c, peer
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("10 s later still not so: ", what)
		}
	}
}

func option(t *testing.T, c *conn, level, opt int) int {
	t.Helper()
	v, err := unix.GetsockoptInt(c.fd, level, opt)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// A receiver that has been woken every half megabyte still reads a trickle, and its
// mark comes down with the rate.
func TestReceiverFollowsTheRate(t *testing.T) {
	c, peer := moverPeer(t)
	e, err := newEngine(context.Background(), c.stopForTest(t))
	if err != nil {
		t.Fatal(err)
	}
	e.start([]*loadStream{{c: c, reads: true}})
	defer e.stop()
	mark := func() int { return option(t, c, unix.SOL_SOCKET, unix.SO_RCVLOWAT) }

	flood := make(chan struct{})
	flooded := make(chan struct{})
	go func() {
		defer close(flooded)
		b := make([]byte, 1<<20)
		for {
			select {
			case <-flood:
				return
			default:
				if _, err := peer.Write(b); err != nil {
					t.Error(err)
					return
				}
			}
		}
	}()
	// 10 MB/s and more, which every host does, is a mark of 20 kB and more.
	eventually(t, "a fast stream has a high mark", func() bool { return mark() >= 20000 })
	close(flood)
	<-flooded
	eventually(t, "a silent stream has the mark 1", func() bool { return mark() == 1 })
	var before, after TCPInfo
	c.tcpInfo(&before)
	if _, err := peer.Write([]byte("ten bytes!")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the trickle has arrived", func() bool {
		c.tcpInfo(&after)
		return after.BytesReceived.V == before.BytesReceived.V+10
	})
	eventually(t, "the trickle is read", func() bool {
		n, err := unix.IoctlGetInt(c.fd, unix.SIOCINQ)
		return err == nil && n == 0
	})
	if err := e.broken(); err != nil {
		t.Error(err)
	}
}

// A load that was stopped at its fastest leaves no mark behind: what is still to
// come is read in the background, byte by byte if need be.
func TestStoppedReceiverHasNoMark(t *testing.T) {
	c, peer := moverPeer(t)
	e, err := newEngine(context.Background(), c.stopForTest(t))
	if err != nil {
		t.Fatal(err)
	}
	e.start([]*loadStream{{c: c, reads: true}})
	go func() {
		for b := make([]byte, 1<<20); ; {
			if _, err := peer.Write(b); err != nil {
				return // the test has closed it
			}
		}
	}()
	mark := func() int { return option(t, c, unix.SOL_SOCKET, unix.SO_RCVLOWAT) }
	eventually(t, "a fast stream has a high mark", func() bool { return mark() >= 20000 })
	e.stop()
	if got := mark(); got != 1 {
		t.Errorf("mark %d after the stop, want 1", got)
	}
}

// What may be queued unsent grows with the rate, and never falls below what keeps
// a slow path from having a long queue.
func TestSenderFollowsTheRate(t *testing.T) {
	c, peer := moverPeer(t)
	e, err := newEngine(context.Background(), c.stopForTest(t))
	if err != nil {
		t.Fatal(err)
	}
	mark := func() int { return option(t, c, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT) }
	if got := mark(); got != notSentLowat {
		t.Fatalf("the mark before the start is %d, want %d", got, notSentLowat)
	}
	e.start([]*loadStream{{c: c, writes: true}})
	defer e.stop()
	// Nobody reads yet: the window fills and the rate falls to nothing.
	eventually(t, "a stream that is not read stands still", func() bool {
		var a, b TCPInfo
		c.tcpInfo(&a)
		time.Sleep(3 * retune)
		c.tcpInfo(&b)
		return a.BytesAcked == b.BytesAcked && a.BytesAcked.V > 0
	})
	eventually(t, "a stream that stands still has the least mark", func() bool { return mark() == notSentLowat })
	var data int64
	b := make([]byte, 1<<16)
	for data < 32<<20 {
		n, err := peer.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range b[:n] {
			// Writes that are cut short go on where they stopped, but a turn begins anew.
			if c < '0' || c > '9' {
				t.Fatalf("byte %d is %q: a load is digits", data+int64(i), c)
			}
		}
		data += int64(n)
	}
	if got := mark(); got < notSentLowat || got > sendUnit {
		t.Errorf("mark %d, want %d to %d", got, notSentLowat, sendUnit)
	}
}

// stopForTest is a canceller such as the bounces have.
func (c *conn) stopForTest(t *testing.T) *canceller {
	t.Helper()
	stop, err := newCanceller(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop.close)
	return stop
}
