package web

import (
	"container/list"
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/collector"
	"github.com/bounceback-exporter/bounceback_exporter/prober"
)

const (
	// maxLoadEntries is how many loads are remembered by their start, which is
	// what keeps min_interval.
	maxLoadEntries = 10000
	// maxLoadResults and maxLoadResultBytes bound the results kept for being given
	// again. An entry that lost its result still keeps its interval.
	maxLoadResults     = 256
	maxLoadResultBytes = 64 << 20
	// answerGrace is how long a request waits beyond its deadline for a run that
	// has the same deadline: the run answers at the deadline, not before it.
	answerGrace = 100 * time.Millisecond
	// stopGrace is how long one that a stop of the exporter called off waits for it.
	stopGrace = 500 * time.Millisecond
)

// loadKey is a module's content and a server's address.
type loadKey struct {
	module string // config.Module.Hash
	addr   netip.AddrPort
}

// outcome is what came of one run.
type outcome struct {
	result   *prober.Result
	rejected *rejection
	// began is when the test itself began, after all waiting; zero: it did not.
	began time.Time
}

// loadStarted tells whether the outcome has to be remembered: whatever came of
// it, the server had its load.
func (o *outcome) loadStarted() bool {
	return o.result != nil && o.result.Load != nil && o.result.Load.Started
}

// loads gives one load test to all who ask for it: running ones are joined, and
// results are given again until min_interval after the start of their load.
type loads struct {
	now func() time.Time

	mu      sync.Mutex
	running map[loadKey]*loadRun
	entries map[loadKey]*loadEntry
	byEnd   list.List // all entries, the newest first
	byUse   list.List // those that have a result, the most recently used first
	bytes   int       // of these results
}

// loadEntry is a load that really started.
type loadEntry struct {
	key      loadKey
	start    time.Time // when the test began
	end      time.Time // when its result was there: age counts from here
	interval time.Duration
	result   *prober.Result // nil: dropped for space
	bytes    int
	inByEnd  *list.Element
	inByUse  *list.Element
}

// loadRun is a test that somebody is waiting for.
type loadRun struct {
	cancel    context.CancelFunc
	deadline  time.Time
	waiters   int
	abandoned bool          // the last waiter went before the end; fixed once done is closed
	done      chan struct{} // closed after outcome was set
	outcome   outcome
}

// speaksOfAnother tells whether the outcome speaks of the request that ran it
// rather than of the server, so that one with a later deadline may do better:
// nothing was loaded, and it was called off, or the time was too short.
func (r *loadRun) speaksOfAnother(deadline time.Time) bool {
	o := &r.outcome
	switch {
	case o.loadStarted():
		return false
	case r.abandoned:
		return true
	case !deadline.After(r.deadline):
		return false
	}
	return o.rejected != nil || o.result.Err != nil && o.result.Err.Timeout()
}

func newLoads(now func() time.Time) *loads {
	return &loads{now: now, running: map[loadKey]*loadRun{}, entries: map[loadKey]*loadEntry{}}
}

// do gives the outcome of a load test: the last one's within interval of its
// start, that of the running one, or that of run, which then goes on as long as
// anybody waits for it. age is positive if the result is given again. ctx must
// have a deadline; the error is ctx's if it was cancelled.
//
// run gets the deadline of the request that started it, so that the test is
// planned to fit.
func (l *loads) do(ctx context.Context, key loadKey, interval time.Duration,
	run func(context.Context) outcome) (o outcome, age time.Duration, err error) {
	deadline, _ := ctx.Deadline()
	for {
		l.mu.Lock()
		if o, age, ok := l.recallLocked(key); ok {
			l.mu.Unlock()
			return o, age, nil
		}
		r, joined := l.running[key]
		if !joined {
			r = l.startLocked(ctx, deadline, key, interval, run)
		}
		r.waiters++
		l.mu.Unlock()

		finished := await(ctx, r, !r.deadline.After(deadline))
		l.leave(r)
		if !finished && errors.Is(context.Cause(ctx), errStopping) {
			// All who wait are called off together, and with them the run. Its own answer,
			// with what was measured until then, comes at once.
			finished = r.endsWithin(stopGrace)
		}
		switch {
		case !finished && errors.Is(ctx.Err(), context.Canceled):
			return outcome{}, 0, ctx.Err()
		case !finished:
			return outcome{rejected: &rejection{collector.CauseLoad, max(r.deadline.Sub(l.now()), retrySoon),
				"the load test of another request at this address runs beyond this request's deadline; " +
					"its result can be had later"}}, 0, nil
		case joined && ctx.Err() == nil && r.speaksOfAnother(deadline):
			continue
		}
		return r.outcome, 0, nil
	}
}

// await waits for the end of a run or of ctx. With a run that ends at the same
// deadline it waits a moment longer, for the run's own answer.
func await(ctx context.Context, r *loadRun, sameDeadline bool) bool {
	select {
	case <-r.done:
		return true
	case <-ctx.Done():
	}
	if sameDeadline && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return r.endsWithin(answerGrace)
	}
	return r.endsWithin(0)
}

// endsWithin tells whether the run has ended, or does so within d.
func (r *loadRun) endsWithin(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-r.done:
		return true
	case <-t.C:
	}
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// startLocked begins a run that belongs to all who wait for it: it has the
// deadline of its first request, but does not end with that request.
func (l *loads) startLocked(ctx context.Context, deadline time.Time, key loadKey, interval time.Duration,
	run func(context.Context) outcome) *loadRun {
	runCtx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	r := &loadRun{cancel: cancel, deadline: deadline, done: make(chan struct{})}
	l.running[key] = r
	go func() {
		defer cancel()
		o := run(runCtx)
		l.mu.Lock()
		defer l.mu.Unlock()
		r.outcome = o
		delete(l.running, key)
		if o.loadStarted() {
			l.storeLocked(&loadEntry{key: key, start: o.began, end: l.now(), interval: interval, result: o.result})
		}
		close(r.done)
	}()
	return r
}

// leave ends the waiting of one request. The last one ends the run.
func (l *loads) leave(r *loadRun) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.waiters--; r.waiters > 0 {
		return
	}
	select {
	case <-r.done:
	default:
		r.abandoned = true
		r.cancel()
	}
}

// recallLocked looks for a load that started less than its interval ago.
func (l *loads) recallLocked(key loadKey) (outcome, time.Duration, bool) {
	e, ok := l.entries[key]
	if !ok {
		return outcome{}, 0, false
	}
	now := l.now()
	if e.expired(now) {
		l.removeLocked(e)
		return outcome{}, 0, false
	}
	if e.result == nil {
		return outcome{rejected: &rejection{collector.CauseLoad, e.start.Add(e.interval).Sub(now),
			"a load ran at this address less than min_interval ago, and its result is kept no longer"}}, 0, true
	}
	l.byUse.MoveToFront(e.inByUse)
	// Never 0: that means measured by this request.
	return outcome{result: e.result, began: e.start}, max(now.Sub(e.end), 1), true
}

func (e *loadEntry) expired(now time.Time) bool { return now.Sub(e.start) >= e.interval }

func (l *loads) storeLocked(e *loadEntry) {
	if old, ok := l.entries[e.key]; ok {
		l.removeLocked(old)
	}
	e.bytes = resultBytes(e.result)
	e.inByEnd, e.inByUse = l.byEnd.PushFront(e), l.byUse.PushFront(e)
	l.entries[e.key] = e
	l.bytes += e.bytes

	// Intervals differ between modules, so that this does not find all that have
	// expired; the bound below holds all the same.
	for el := l.byEnd.Back(); el != nil && el.Value.(*loadEntry).expired(l.now()); el = l.byEnd.Back() {
		l.removeLocked(el.Value.(*loadEntry))
	}
	for len(l.entries) > maxLoadEntries {
		l.removeLocked(l.byEnd.Back().Value.(*loadEntry))
	}
	for l.byUse.Len() > 1 && (l.byUse.Len() > maxLoadResults || l.bytes > maxLoadResultBytes) {
		l.dropResultLocked(l.byUse.Back().Value.(*loadEntry))
	}
}

func (l *loads) dropResultLocked(e *loadEntry) {
	if e.result == nil {
		return
	}
	l.byUse.Remove(e.inByUse)
	l.bytes -= e.bytes
	e.result, e.inByUse = nil, nil
}

func (l *loads) removeLocked(e *loadEntry) {
	l.dropResultLocked(e)
	l.byEnd.Remove(e.inByEnd)
	delete(l.entries, e.key)
}

// keep forgets what belongs to modules that a reload changed or removed.
func (l *loads) keep(module func(hash string) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, e := range l.entries {
		if !module(key.module) {
			l.removeLocked(e)
		}
	}
}

// idle waits until no test is running any more, or for ctx. A test that was called
// off still has connections to end, and nobody else waits for that.
func (l *loads) idle(ctx context.Context) {
	for {
		l.mu.Lock()
		var r *loadRun
		for _, r = range l.running {
			break
		}
		l.mu.Unlock()
		if r == nil {
			return
		}
		select {
		case <-r.done:
		case <-ctx.Done():
			return
		}
	}
}

// resultBytes estimates the memory of a result: its samples, and a little.
func resultBytes(r *prober.Result) int {
	const sample, row, rest = 80, 256, 8 << 10
	n := rest
	for i := range r.Windows {
		n += cap(r.Windows[i].Samples)*sample + cap(r.Windows[i].Rows)*row
	}
	return n
}
