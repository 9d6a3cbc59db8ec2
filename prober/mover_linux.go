package prober

import (
	"io"
	"math"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// sendUnit is what one write offers to the kernel. Four times iperf's unit takes
	// a third off the CPU time of a byte, and costs a bounce that shares the CPU some
	// 70 us where the kernel is not preempted in a system call (bench/README.md).
	sendUnit = 512 << 10
	// readTurn is what is read from one stream before the next has its turn.
	readTurn = 1 << 20

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
	// idleCheck wakes a receiver whose mark was set at a higher rate.
	idleCheck = 100 * time.Millisecond
)

// mover moves the bytes of load streams. It reads without copying (MSG_TRUNC lets
// the kernel discard what TCP has received) and writes from memory that is never
// rewritten; it allocates nothing per read or write.
type mover struct {
	clk     *stopwatch
	streams []*loadStream
	marks   []marks
	fds     []unix.PollFd // the streams', then the stopper's
	data    []byte
	tuned   int64 // monotonic ns
	wait    unix.Timespec
	tcpi    [tcpiRcvRTT + 4]byte // as much of tcp_info as is read here
	tcpiLen uint32
}

// marks are one stream's: the bytes moved each way since the marks were last
// tuned, and the marks.
type marks struct {
	got, sent             int
	receive, send, window int
	rate                  float64 // received, bytes per second, smoothed
}

func newMover(streams []*loadStream, stopper *canceller) *mover {
	m := &mover{streams: streams, marks: make([]marks, len(streams)), fds: make([]unix.PollFd, len(streams)+1)}
	for i, s := range streams {
		m.clk = s.c.clk
		m.fds[i].Fd = int32(s.c.fd)
		if s.reads {
			m.fds[i].Events |= unix.POLLIN
		}
		if s.writes {
			m.fds[i].Events |= unix.POLLOUT
		}
	}
	m.fds[len(streams)] = unix.PollFd{Fd: int32(stopper.fd), Events: unix.POLLIN}
	m.data = make([]byte, sendUnit)
	for i := range m.data {
		m.data[i] = '0' + byte(i%10)
	}
	return m
}

// run moves bytes until the stopper says so, which is no error, or a stream ends.
func (m *mover) run() error {
	defer m.rest()
	m.tuned = m.clk.mono()
	for {
		m.wait = unix.NsecToTimespec(int64(idleCheck)) // the kernel may write what was left into it
		if _, err := unix.Ppoll(m.fds, &m.wait, nil); err != nil {
			if err == unix.EINTR {
				continue
			}
			return err
		}
		if m.fds[len(m.streams)].Revents != 0 {
			return nil
		}
		for i, s := range m.streams {
			if err := m.move(i, s); err != nil {
				s.over = true
				return err
			}
		}
		if now := m.clk.mono(); now-m.tuned >= int64(retune) {
			m.tune(time.Duration(now - m.tuned))
			m.tuned = now
		}
	}
}

func (m *mover) move(i int, s *loadStream) error {
	got := m.fds[i].Revents
	if got&unix.POLLIN != 0 || got != 0 && !s.writes {
		n, err := discard(int(m.fds[i].Fd))
		m.marks[i].got += n
		if err != nil {
			return err
		}
	}
	if got&(unix.POLLOUT|unix.POLLERR|unix.POLLHUP) != 0 && s.writes {
		n, err := push(int(m.fds[i].Fd), m.data)
		m.marks[i].sent += n
		return err
	}
	return nil
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

// discard lets the kernel drop what it has received, up to a turn's worth, and
// tells how much that was.
func discard(fd int) (int, error) {
	got := 0
	for got < readTurn {
		n, _, errno := unix.Syscall6(unix.SYS_RECVFROM, uintptr(fd), 0, readTurn, unix.MSG_TRUNC|unix.MSG_DONTWAIT, 0, 0)
		switch {
		case errno == unix.EAGAIN || errno == unix.EINTR:
			return got, nil
		case errno != 0:
			return got, errno
		case n == 0:
			return got, io.EOF
		}
		got += int(n)
	}
	return got, nil
}

// push offers data to a socket until it takes no more, or all of it, and tells how
// much it took.
func push(fd int, data []byte) (int, error) {
	sent := 0
	for sent < len(data) {
		n, _, errno := unix.Syscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&data[sent])), uintptr(len(data)-sent), unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT, 0, 0)
		switch {
		case errno == unix.EAGAIN || errno == unix.EINTR:
			return sent, nil
		case errno != 0:
			return sent, errno
		}
		sent += int(n)
	}
	return sent, nil
}
