package prober

import (
	"context"
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// canceller turns a context's end into a readable descriptor, so that the same
// ppoll that waits for the peer also waits for the cancellation: the answer gives
// way at once, without a signal, a second goroutine or a socket timeout.
type canceller struct {
	fd   int
	ctx  context.Context
	stop func() bool
	ran  chan struct{}
}

func newCanceller(ctx context.Context) (*canceller, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, &localError{"eventfd", err}
	}
	c := &canceller{fd: fd, ctx: ctx, ran: make(chan struct{})}
	c.stop = context.AfterFunc(ctx, func() {
		defer close(c.ran)
		c.wake()
	})
	return c, nil
}

// wake makes what waits for the canceller return errCancelled, now and from now on.
func (c *canceller) wake() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(c.fd, one[:])
}

// close gives the descriptor back, not before the write to it can't happen any
// more: else it would go into whatever got the same number next.
func (c *canceller) close() {
	if !c.stop() {
		<-c.ran
	}
	_ = unix.Close(c.fd)
}
