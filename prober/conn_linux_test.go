package prober

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// control is a control message as the kernel lays it out on this platform.
func control(level, kind int32, data []byte) []byte {
	b := make([]byte, unix.CmsgSpace(len(data)))
	h := unix.Cmsghdr{Level: level, Type: kind}
	h.SetLen(unix.CmsgLen(len(data)))
	// The header's fields, the length first.
	n := unix.SizeofCmsghdr - 8
	if n == 8 {
		binary.NativeEndian.PutUint64(b, uint64(h.Len))
	} else {
		binary.NativeEndian.PutUint32(b, uint32(h.Len))
	}
	binary.NativeEndian.PutUint32(b[n:], uint32(level))
	binary.NativeEndian.PutUint32(b[n+4:], uint32(kind))
	copy(b[unix.CmsgLen(0):], data)
	return b
}

// stamps is what SO_TIMESTAMPING_NEW gives: three times, of which the first is the
// kernel's own.
func stamps(sec, nsec int64) []byte {
	b := make([]byte, 48)
	binary.NativeEndian.PutUint64(b, uint64(sec))
	binary.NativeEndian.PutUint64(b[8:], uint64(nsec))
	return b
}

func TestReceiveStamp(t *testing.T) {
	const sec, nsec = 1_800_000_000, 123_456_789 // beyond 31 bits of seconds is 2038
	mine := control(unix.SOL_SOCKET, unix.SO_TIMESTAMPING_NEW, stamps(sec, nsec))
	other := control(unix.SOL_SOCKET, unix.SO_RXQ_OVFL, []byte{1, 2, 3, 4})
	late := control(unix.SOL_SOCKET, unix.SO_TIMESTAMPING_NEW, stamps(1<<33, 7))
	for name, tc := range map[string]struct {
		oob  []byte
		want int64
	}{
		"none":          {nil, 0},
		"alone":         {mine, sec*1e9 + nsec},
		"after another": {append(append([]byte(nil), other...), mine...), sec*1e9 + nsec},
		"another only":  {other, 0},
		"after 2038":    {late, 1<<33*1e9 + 7},
		"cut":           {mine[:unix.CmsgLen(8)], 0},
		"too short":     {control(unix.SOL_SOCKET, unix.SO_TIMESTAMPING_NEW, make([]byte, 8)), 0},
		"header only":   {mine[:unix.SizeofCmsghdr-1], 0},
		"length 0":      {make([]byte, 64), 0},
	} {
		if got := receiveStamp(tc.oob); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}

func FuzzReceiveStamp(f *testing.F) {
	f.Add(control(unix.SOL_SOCKET, unix.SO_TIMESTAMPING_NEW, stamps(1, 2)))
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) { receiveStamp(b) })
}

// The kernel's stamp of a real reply lies between its sending and our reading.
func TestKernelStampIsReal(t *testing.T) {
	l := listen(t)
	clk := &stopwatch{base: time.Now()}
	stop, err := newCanceller(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stop.close()
	c, err := startConn(clk, stop, dialOptions{addr: addrOf(l), stamps: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if err := c.awaitConnect(int64(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	stamped := 0
	for range 20 {
		sent := time.Now().UnixNano()
		if _, err := peer.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
		var b [4]byte
		if n, err := c.recv(b[:], 1, clk.mono(), int64(time.Minute)); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		read := time.Now().UnixNano()
		if c.stamp == 0 {
			continue // the first ones may come before the kernel has begun to stamp
		}
		stamped++
		if c.stamp < sent || c.stamp > read {
			t.Errorf("stamp %d, sent at %d, read at %d", c.stamp, sent, read)
		}
	}
	if stamped < 10 {
		t.Errorf("%d of 20 were stamped", stamped)
	}
}

// A wait ends by the peer, by the deadline or by the context, and tells which.
func TestConnWaits(t *testing.T) {
	l := listen(t)
	ctx, cancel := context.WithCancel(t.Context())
	clk := &stopwatch{base: time.Now()}
	stop, err := newCanceller(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer stop.close()
	c, err := startConn(clk, stop, dialOptions{addr: addrOf(l)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if err := c.awaitConnect(int64(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	var b [100]byte
	now := clk.mono()
	if n, err := c.recv(b[:], 1, now, now+int64(5*time.Millisecond)); n != 0 || err != errDeadline {
		t.Errorf("nothing came: %d, %v", n, err)
	}
	if took := clk.mono() - now; took < int64(5*time.Millisecond) {
		t.Errorf("the deadline came %v early", 5*time.Millisecond-time.Duration(took))
	}
	now = clk.mono()
	if err := c.sleepUntil(now+int64(3*time.Millisecond), now, now+int64(time.Second)); err != nil || clk.mono() < now+int64(3*time.Millisecond) {
		t.Errorf("a tick: %v after %v", err, time.Duration(clk.mono()-now))
	}
	if err := c.sleepUntil(now+int64(time.Hour), clk.mono(), clk.mono()+int64(time.Millisecond)); err != errDeadline {
		t.Errorf("a tick beyond the deadline: %v", err)
	}
	if err := c.sleepUntil(now, clk.mono(), now+int64(time.Minute)); err != nil {
		t.Errorf("a tick that has passed: %v", err)
	}
	if _, err := peer.Write([]byte("abc")); err != nil {
		t.Fatal(err)
	}
	if err := c.sleepUntil(clk.mono()+int64(time.Minute), clk.mono(), int64(time.Hour)); err != errUnasked {
		t.Errorf("a peer that talks unasked: %v", err)
	}
	if n, err := c.recv(b[:], 3, clk.mono(), int64(time.Hour)); n != 3 || err != nil {
		t.Errorf("what it said: %d, %v", n, err)
	}
	// Half a message, then nothing: what came is told with the reason.
	if _, err := peer.Write([]byte("ab")); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(20*time.Millisecond, cancel)
	if n, err := c.recv(b[:], 4, clk.mono(), int64(time.Hour)); n != 2 || err != errCancelled {
		t.Errorf("cancelled: %d, %v", n, err)
	}
	if err := c.sleepUntil(clk.mono()+int64(time.Minute), clk.mono(), int64(time.Hour)); err != errCancelled {
		t.Errorf("cancelled for good: %v", err)
	}
}

func TestConnSeesTheEnd(t *testing.T) {
	l := listen(t)
	clk := &stopwatch{base: time.Now()}
	stop, err := newCanceller(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stop.close()
	c, err := startConn(clk, stop, dialOptions{addr: addrOf(l)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if err := c.awaitConnect(int64(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	peer.(*net.TCPConn).CloseWrite()
	if err := c.sleepUntil(clk.mono()+int64(time.Minute), clk.mono(), int64(time.Hour)); err != io.EOF {
		t.Errorf("a FIN between two ticks: %v", err)
	}
	var b [1]byte
	if _, err := c.recv(b[:], 1, clk.mono(), int64(time.Hour)); err != io.EOF {
		t.Errorf("a FIN: %v", err)
	}
	peer.(*net.TCPConn).SetLinger(0)
	peer.Close()
	if _, err := c.recv(b[:], 1, clk.mono(), int64(time.Hour)); err != io.EOF && err != unix.ECONNRESET {
		t.Errorf("an RST after it: %v", err)
	}
	if _, err := c.send(b[:], clk.mono(), int64(time.Hour)); err != unix.EPIPE && err != unix.ECONNRESET {
		t.Errorf("writing to nobody: %v", err)
	}
	c.halfClose()
	c.close()
	c.halfClose() // must not touch a descriptor that is somebody else's by now
	c.close()
}

// A canceller that ends while its context does never writes into a descriptor that
// has been given back: here each number is taken again at once by a pipe, in which
// nothing may appear.
func TestCancellerDescriptor(t *testing.T) {
	for range 2000 {
		ctx, cancel := context.WithCancel(t.Context())
		c, err := newCanceller(ctx)
		if err != nil {
			t.Fatal(err)
		}
		go cancel()
		c.close()
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		fds := []unix.PollFd{{Fd: int32(r.Fd()), Events: unix.POLLIN}}
		if n, err := unix.Poll(fds, 0); n != 0 || err != nil {
			t.Fatalf("something came through a new pipe: %d, %v", n, err)
		}
		r.Close()
		w.Close()
		cancel()
	}
}
