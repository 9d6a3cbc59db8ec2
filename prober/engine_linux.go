package prober

import (
	"context"
	"io"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// How much one turn moves on one stream. Large units mean few wake-ups: each
// wake-up of the load takes time from the bounces that share its CPUs.
const (
	loadWrite = 128 << 10
	loadTurn  = 1 << 20
	// loadRead is what a receiver waits for before it wakes up (SO_RCVLOWAT).
	loadRead = 256 << 10
)

// engine moves the bytes of all load streams on one goroutine. It reads without
// copying (MSG_TRUNC lets the kernel discard what TCP has received) and writes
// from memory that is never rewritten; it allocates nothing per read or write.
type engine struct {
	cancel  context.CancelFunc
	stopper *canceller
	bounces *canceller // what the bounces wait for beside the peer
	done    chan struct{}
	err     atomic.Pointer[error]
}

func newEngine(ctx context.Context, bounces *canceller) (*engine, error) {
	ctx, cancel := context.WithCancel(ctx)
	stopper, err := newCanceller(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	return &engine{cancel: cancel, stopper: stopper, bounces: bounces}, nil
}

// start lets the streams run until stop, or until the context ends. If one of them
// breaks, all stop, and so do the bounces.
func (e *engine) start(streams []*loadStream) {
	e.done = make(chan struct{})
	go func() {
		defer close(e.done)
		if err := e.run(streams); err != nil {
			e.err.Store(&err)
			e.bounces.wake()
		}
	}()
}

// stop ends reading and writing and waits until nobody uses the streams.
func (e *engine) stop() {
	e.cancel()
	if e.done != nil {
		<-e.done
	}
	e.stopper.close()
}

// broken is what ended a stream before stop; nil if nothing did.
func (e *engine) broken() error {
	if p := e.err.Load(); p != nil {
		return *p
	}
	return nil
}

func (e *engine) run(streams []*loadStream) error {
	data := make([]byte, loadWrite)
	for i := range data {
		data[i] = '0' + byte(i%10)
	}
	fds := make([]unix.PollFd, len(streams)+1)
	for i, s := range streams {
		fds[i].Fd = int32(s.c.fd)
		if s.reads {
			fds[i].Events |= unix.POLLIN
			_ = unix.SetsockoptInt(s.c.fd, unix.SOL_SOCKET, unix.SO_RCVLOWAT, loadRead)
		}
		if s.writes {
			fds[i].Events |= unix.POLLOUT
		}
	}
	stop := &fds[len(streams)]
	*stop = unix.PollFd{Fd: int32(e.stopper.fd), Events: unix.POLLIN}
	for {
		if _, err := unix.Ppoll(fds, nil, nil); err != nil && err != unix.EINTR {
			return err
		}
		if stop.Revents != 0 {
			return nil
		}
		for i := range streams {
			got := fds[i].Revents
			if got&unix.POLLIN != 0 || got != 0 && !streams[i].writes {
				if err := discard(int(fds[i].Fd)); err != nil {
					streams[i].over = true
					return err
				}
			}
			if got&(unix.POLLOUT|unix.POLLERR|unix.POLLHUP) != 0 && streams[i].writes {
				if err := push(int(fds[i].Fd), data); err != nil {
					streams[i].over = true
					return err
				}
			}
		}
	}
}

// discard lets the kernel drop what it has received, up to a turn's worth.
func discard(fd int) error {
	for got := 0; got < loadTurn; {
		n, _, errno := unix.Syscall6(unix.SYS_RECVFROM, uintptr(fd), 0, loadTurn, unix.MSG_TRUNC|unix.MSG_DONTWAIT, 0, 0)
		switch {
		case errno == unix.EAGAIN || errno == unix.EINTR:
			return nil
		case errno != 0:
			return errno
		case n == 0:
			return io.EOF
		}
		got += int(n)
	}
	return nil
}

// push writes until the socket takes no more, up to a turn's worth.
func push(fd int, data []byte) error {
	for sent := 0; sent < loadTurn; {
		n, _, errno := unix.Syscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&data[0])), uintptr(len(data)), unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT, 0, 0)
		switch {
		case errno == unix.EAGAIN || errno == unix.EINTR:
			return nil
		case errno != 0:
			return errno
		}
		sent += int(n)
	}
	return nil
}
