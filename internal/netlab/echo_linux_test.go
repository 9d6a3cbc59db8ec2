package netlab

import (
	"encoding/binary"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/internal/netlab/linkd"
	"golang.org/x/sys/unix"
)

// trip is one packet's journey out and back, stamped by both sides on one clock.
type trip struct {
	sent      time.Duration // since the first packet's schedule began
	lost      bool          // never came back
	out, back time.Duration
}

// echo is a raw UDP echo: A sends n packets of the given IP length (48 to 1500), one
// every gap, B returns each at once, and both sides stamp right before each send and
// right after each receive. All three loops are threads of their own with blocking
// sockets and real-time priority, so that it measures the link and not our
// scheduler. at holds what else is to be done right before a packet is sent.
type echo struct {
	n, ipLength int
	gap         time.Duration
	at          map[int]func()

	epoch  time.Time
	stamps []stamps
	stop   atomic.Bool
}

type stamps struct{ sent, there, turned, back time.Duration }

const (
	headers    = 28                     // IPv4 and UDP
	stragglers = 500 * time.Millisecond // to wait for after the last packet
)

func (e *echo) run(t *testing.T, l *Lab) []trip {
	t.Helper()
	a, b := udpSocket(t, l.A), udpSocket(t, l.B)
	defer unix.Close(a)
	defer unix.Close(b)
	defer beRealtime(t)()
	e.epoch, e.stamps = time.Now(), make([]stamps, e.n)
	var readers, sender sync.WaitGroup
	readers.Go(func() { e.receive(t, b, e.turn) })
	readers.Go(func() { e.receive(t, a, e.note) })
	sender.Go(func() { e.send(t, a, &unix.SockaddrInet4{Addr: l.B.Addr4.As4(), Port: portOf(t, b)}) })
	sender.Wait()
	time.Sleep(stragglers)
	e.stop.Store(true)
	readers.Wait()
	trips := make([]trip, e.n)
	for i, p := range e.stamps {
		trips[i] = trip{sent: p.sent, lost: p.back == 0, out: p.there - p.sent, back: p.back - p.turned}
	}
	return trips
}

func (e *echo) send(t *testing.T, fd int, to unix.Sockaddr) {
	runtime.LockOSThread()
	buf := make([]byte, e.ipLength-headers)
	for i := range e.n {
		sleepUntil(e.epoch, time.Duration(i)*e.gap)
		if f := e.at[i]; f != nil {
			f()
		}
		binary.BigEndian.PutUint32(buf, uint32(i))
		e.stamps[i].sent = time.Since(e.epoch)
		if err := unix.Sendto(fd, buf, 0, to); err != nil {
			t.Errorf("send: %v", err)
		}
	}
}

// sleepUntil sleeps in the kernel, not in the Go runtime, whatever signals say.
func sleepUntil(start time.Time, due time.Duration) {
	for left := due - time.Since(start); left > 0; left = due - time.Since(start) {
		ts := unix.NsecToTimespec(int64(left))
		_ = unix.Nanosleep(&ts, nil)
	}
}

// receive calls got for each packet until stop.
func (e *echo) receive(t *testing.T, fd int, got func(t *testing.T, fd int, b []byte, from unix.Sockaddr, now time.Duration)) {
	runtime.LockOSThread()
	buf := make([]byte, 2048)
	for !e.stop.Load() {
		n, from, err := unix.Recvfrom(fd, buf, 0)
		now := time.Since(e.epoch)
		switch {
		case err == unix.EINTR || err == unix.EAGAIN: // SO_RCVTIMEO
		case err != nil:
			t.Errorf("receive: %v", err)
			return
		default:
			got(t, fd, buf[:n], from, now)
		}
	}
}

func (e *echo) turn(t *testing.T, fd int, b []byte, from unix.Sockaddr, now time.Duration) {
	binary.BigEndian.PutUint64(b[4:], uint64(now))
	binary.BigEndian.PutUint64(b[12:], uint64(time.Since(e.epoch)))
	if err := unix.Sendto(fd, b, 0, from); err != nil {
		t.Errorf("echo: %v", err)
	}
}

func (e *echo) note(_ *testing.T, _ int, b []byte, _ unix.Sockaddr, now time.Duration) {
	p := &e.stamps[binary.BigEndian.Uint32(b)]
	p.there = time.Duration(binary.BigEndian.Uint64(b[4:]))
	p.turned = time.Duration(binary.BigEndian.Uint64(b[12:]))
	p.back = now
}

// udpSocket opens a blocking UDP socket with a large buffer in h's namespace.
func udpSocket(t *testing.T, h *Host) int {
	t.Helper()
	fd := -1
	err := h.Do(func() (err error) {
		if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20); err != nil {
			return err
		}
		tv := unix.NsecToTimeval(int64(20 * time.Millisecond))
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrInet4{Addr: h.Addr4.As4()})
	})
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

// beRealtime puts this whole process at the link's priority, until the returned
// function is called.
func beRealtime(t *testing.T) (undo func()) {
	t.Helper()
	if err := linkd.SetRealtime(os.Getpid(), true); err != nil {
		t.Logf("no real-time priority: %v", err)
	}
	return func() { _ = linkd.SetRealtime(os.Getpid(), false) }
}

func portOf(t *testing.T, fd int) int {
	t.Helper()
	sa, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return sa.(*unix.SockaddrInet4).Port
}
