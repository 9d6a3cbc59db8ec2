package prober

import (
	"math"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// A wake-up should be worth the bytes of worthwhile: a receiver sleeps until that
	// many are there (SO_RCVLOWAT), at most readMost, and a sender until that many may
	// be queued unsent (TCP_NOTSENT_LOWAT), notSentLowat to sendUnit. Both depend on
	// the rate. A mark that a slow path takes long to reach would fill the window and
	// so stop the load, and a long queue would delay its end.
	worthwhile = 2 * time.Millisecond
	readMost   = 512 << 10
	// A receiver offers room for what its stream brings in offered, or in so many round
	// trips, whichever is longer (TCP_WINDOW_CLAMP): a sender that doubles its rate
	// needs no more. The kernel by itself offers several times as much, and all that
	// still comes when the load is called off.
	offered      = 250 * time.Millisecond
	offeredTrips = 2.5
	offeredLeast = 64 << 10
	// retune is the time over which that rate is taken.
	retune = 20 * time.Millisecond
)

// marks are one stream's: the bytes moved each way since the marks were last
// tuned, and the marks.
type marks struct {
	got, sent             int
	receive, send, window int
	rate                  float64 // received, bytes per second, smoothed
}

// tune sets the marks anew by what was moved within d.
func (m *mover) tune(d time.Duration) {
	for i, s := range m.streams {
		k := &m.marks[i]
		if s.reads {
			s.c.setMark(&k.receive, markFor(k.got, d, 1, readMost), unix.SOL_SOCKET, unix.SO_RCVLOWAT)
			k.rate += (float64(k.got)/d.Seconds() - k.rate) / 8
			if rtt := m.receiveRTT(s.c.fd); rtt > 0 {
				s.c.setMark(&k.window, windowFor(k.rate, rtt), unix.IPPROTO_TCP, unix.TCP_WINDOW_CLAMP)
			}
		}
		if s.writes {
			s.c.setMark(&k.send, markFor(k.sent, d, notSentLowat, sendUnit), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT)
		}
		k.got, k.sent = 0, 0
	}
}

// rest leaves the streams as they are to be while nobody reads them. Every byte is
// readable: who reads them to their end is to hear of the last few. And there is
// room for what was offered, not for all that the kernel would keep unread, so that
// the peer stops when it has sent that.
func (m *mover) rest() {
	most := -1
	for i, s := range m.streams {
		if !s.reads {
			continue
		}
		k := &m.marks[i]
		s.c.setMark(&k.receive, 1, unix.SOL_SOCKET, unix.SO_RCVLOWAT)
		if most < 0 {
			most = mostReceiveBuffer()
		}
		// A buffer cut below what was offered would drop what is under way.
		if k.window > 0 && k.window <= most {
			_ = unix.SetsockoptInt(s.c.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, k.window)
			// Not for good: the kernel may need a little more, or would drop the last few
			// segments of what was offered, which the peer then sends again and again.
			_ = unix.SetsockoptInt(s.c.fd, unix.SOL_SOCKET, unix.SO_BUF_LOCK, 0)
		}
	}
}

// mostReceiveBuffer is the most that SO_RCVBUF gives here (net.core.rmem_max,
// which not every namespace shows); 0 if that can't be told.
func mostReceiveBuffer() int {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer func() { _ = unix.Close(fd) }()
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, math.MaxInt32/2)
	n, _ := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	return n / 2 // it tells of twice as much, its own needs included
}

// markFor is what is worth a wake-up where n bytes were moved within d.
func markFor(n int, d time.Duration, least, most int) int {
	return int(min(max(float64(n)*worthwhile.Seconds()/d.Seconds(), float64(least)), float64(most)))
}

// windowFor is what to offer to a stream that brings so many bytes per second.
func windowFor(rate float64, rtt time.Duration) int {
	span := max(offered.Seconds(), offeredTrips*rtt.Seconds())
	return int(min(max(rate*span, offeredLeast), math.MaxInt32))
}

// receiveRTT is the kernel's estimate of the round trip by what a stream brings; 0
// where it has none yet.
func (m *mover) receiveRTT(fd int) time.Duration {
	m.tcpiLen = uint32(len(m.tcpi))
	_, _, errno := unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.IPPROTO_TCP, unix.TCP_INFO,
		uintptr(unsafe.Pointer(&m.tcpi)), uintptr(unsafe.Pointer(&m.tcpiLen)), 0)
	if errno != 0 {
		return 0
	}
	return micros(m.tcpi[:m.tcpiLen], tcpiRcvRTT).V
}

// setMark sets an option to want, unless it is much the same already: a call for
// every small change would cost more than it saves.
func (c *conn) setMark(now *int, want, level, option int) {
	if want <= *now+*now/4 && want >= *now-*now/4 {
		return
	}
	*now = want
	_ = unix.SetsockoptInt(c.fd, level, option, want)
}
