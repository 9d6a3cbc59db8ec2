package web

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/collector"
	"github.com/bounceback-exporter/bounceback_exporter/config"
)

// rejection is an answer without a result.
type rejection struct {
	cause      string // one of collector.Causes
	retryAfter time.Duration
	text       string // for people: what is full, and what to do
}

const (
	// retrySoon is the Retry-After of a limit: when a place gets free is unknown,
	// and tests are short.
	retrySoon = time.Second
	// drainPoll is how often waiting probes look whether background connections
	// have ended: the prober tells nobody.
	drainPoll = 20 * time.Millisecond
	// backToBackPerCPU times GOMAXPROCS back to back probes may run at once: more
	// of them would measure each other.
	backToBackPerCPU = 4
)

// admission decides which probes run and which wait. Probes that wait for the
// same thing get it in the order in which they came; one whose server is full
// does not hold up those behind it.
type admission struct {
	drains     func() int // connections being ended in the background
	backToBack func() int // how many back to back probes may run
	waiting    func(delta int)

	mu       sync.Mutex
	limits   config.Limits
	inside   int // requests between arrival and answer
	running  int
	b2b      int // of running
	byTarget map[netip.AddrPort]int
	queue    []*waiter
	maxB2B   int // backToBack, read once per look at the queue
	polling  bool
}

// waiter is one probe in the queue.
type waiter struct {
	addr     netip.AddrPort
	b2b      bool
	admitted chan struct{} // closed by whoever admits it
}

func newAdmission(limits config.Limits, drains, backToBack func() int, waiting func(int)) *admission {
	return &admission{
		limits: limits, drains: drains, backToBack: backToBack, waiting: waiting,
		byTarget: map[netip.AddrPort]int{},
	}
}

// setLimits takes the limits of a reloaded configuration. What runs, runs on.
func (a *admission) setLimits(l config.Limits) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.limits = l
	a.admitLocked()
}

// arrive bounds the requests that are anywhere between arrival and answer,
// resolving and sharing included: no more than may run and wait together. Every
// arrival that is not rejected needs a leave.
func (a *admission) arrive() *rejection {
	a.mu.Lock()
	defer a.mu.Unlock()
	if limit := a.limits.MaxConcurrentProbes + a.limits.MaxWaiting; a.inside >= limit {
		return a.tooManyLocked()
	}
	a.inside++
	return nil
}

func (a *admission) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.inside--
}

// enter waits for a place for a probe of addr. The returned function gives the
// place back; it may be called more than once. On failure there is either a
// rejection, or ctx was cancelled and the error says so.
func (a *admission) enter(ctx context.Context, addr netip.AddrPort, b2b bool) (func(), *rejection, error) {
	addr = netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port())
	w := &waiter{addr: addr, b2b: b2b, admitted: make(chan struct{})}

	a.mu.Lock()
	a.admitLocked() // drains may have ended: those who wait come first
	if a.blockedLocked(w) == "" {
		a.takeLocked(w)
		a.mu.Unlock()
		return a.releaser(w), nil, nil
	}
	if len(a.queue) >= a.limits.MaxWaiting {
		defer a.mu.Unlock()
		return nil, a.tooManyLocked(), nil
	}
	a.queue = append(a.queue, w)
	if a.blockedLocked(w) == collector.CauseDrains {
		a.pollLocked()
	}
	a.mu.Unlock()

	a.waiting(1)
	defer a.waiting(-1)
	select {
	case <-w.admitted:
		return a.releaser(w), nil, nil
	case <-ctx.Done():
	}

	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.removeLocked(w) {
		// Admitted at the same moment. Its time is up all the same.
		a.giveLocked(w)
		if errors.Is(ctx.Err(), context.Canceled) {
			return nil, nil, ctx.Err()
		}
		return nil, a.rejectLocked(collector.CauseProcess), nil
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, nil, ctx.Err()
	}
	cause := a.blockedLocked(w)
	if cause == "" {
		cause = collector.CauseProcess
	}
	return nil, a.rejectLocked(cause), nil
}

// blockedLocked says what keeps a probe from running; "" is nothing.
func (a *admission) blockedLocked(w *waiter) string {
	switch {
	case a.running >= a.limits.MaxConcurrentProbes:
		return collector.CauseProcess
	case w.b2b && a.b2b >= a.maxB2B:
		return collector.CauseBackToBack
	case a.byTarget[w.addr] >= a.limits.MaxPerTarget:
		return collector.CauseTarget
	case a.drains() >= a.limits.MaxDrains:
		return collector.CauseDrains
	}
	return ""
}

// admitLocked lets in whoever can run now, in the order of arrival. A waiter
// that is passed over is short of something that the next one does not need.
func (a *admission) admitLocked() {
	a.maxB2B = a.backToBack()
	kept, draining := a.queue[:0], false
	for _, w := range a.queue {
		if cause := a.blockedLocked(w); cause != "" {
			kept = append(kept, w)
			draining = draining || cause == collector.CauseDrains
			continue
		}
		a.takeLocked(w)
		close(w.admitted)
	}
	clear(a.queue[len(kept):])
	a.queue = kept
	if draining {
		a.pollLocked()
	}
}

func (a *admission) takeLocked(w *waiter) {
	a.running++
	if w.b2b {
		a.b2b++
	}
	a.byTarget[w.addr]++
}

func (a *admission) giveLocked(w *waiter) {
	a.running--
	if w.b2b {
		a.b2b--
	}
	if a.byTarget[w.addr]--; a.byTarget[w.addr] == 0 {
		delete(a.byTarget, w.addr)
	}
	a.admitLocked()
}

func (a *admission) releaser(w *waiter) func() {
	return sync.OnceFunc(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.giveLocked(w)
	})
}

func (a *admission) removeLocked(w *waiter) bool {
	for i, q := range a.queue {
		if q == w {
			a.queue = slices.Delete(a.queue, i, i+1)
			return true
		}
	}
	return false
}

// pollLocked looks again after a while: nobody is told of the end of a
// connection in the background.
func (a *admission) pollLocked() {
	if a.polling {
		return
	}
	a.polling = true
	time.AfterFunc(drainPoll, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.polling = false
		a.admitLocked()
	})
}

func (a *admission) tooManyLocked() *rejection {
	return &rejection{collector.CauseWaiting, retrySoon, fmt.Sprintf(
		"%d probes are running and waiting already (limits.max_concurrent_probes %d, limits.max_waiting %d)",
		max(a.inside, a.running+len(a.queue)), a.limits.MaxConcurrentProbes, a.limits.MaxWaiting)}
}

func (a *admission) rejectLocked(cause string) *rejection {
	text := map[string]string{
		collector.CauseProcess: fmt.Sprintf("limits.max_concurrent_probes is %d", a.limits.MaxConcurrentProbes),
		collector.CauseBackToBack: fmt.Sprintf("at most %d probes of modules without a period run at once, "+
			"because they would measure each other; give the module a period", a.maxB2B),
		collector.CauseTarget: fmt.Sprintf("limits.max_per_target is %d", a.limits.MaxPerTarget),
		collector.CauseDrains: fmt.Sprintf("limits.max_drains is %d: that many connections are still being ended in the background",
			a.limits.MaxDrains),
	}[cause]
	return &rejection{cause, retrySoon, "no place to run before the deadline: " + text}
}
