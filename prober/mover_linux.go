package prober

import (
	"io"
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
