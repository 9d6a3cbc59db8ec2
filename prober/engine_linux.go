package prober

import (
	"context"
	"sync/atomic"
)

// engine moves the bytes of all load streams on one goroutine, which has a thread
// of its own.
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
	goOnOwnThread(func() {
		defer close(e.done)
		stepBack()
		if err := newMover(streams, e.stopper).run(); err != nil {
			e.err.Store(&err)
			e.bounces.wake()
		}
	})
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
