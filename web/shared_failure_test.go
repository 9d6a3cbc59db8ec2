package web

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/collector"
	"github.com/bounceback-exporter/bounceback_exporter/prober"
)

// Whoever comes while a cancelled run ends gets neither its cancellation, nor a
// second load at the same time.
func TestLoadAfterAnAbandonedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoadLab(0)
		var at, most atomic.Int32
		l.make = func(ctx context.Context, n int32) outcome {
			most.Store(max(most.Load(), at.Add(1)))
			defer at.Add(-1)
			if n == 1 {
				<-ctx.Done()
				time.Sleep(time.Second) // it takes its time to end
				return outcome{result: &prober.Result{Err: &prober.Error{Reason: prober.ReasonCancelled}}}
			}
			return started(time.Now(), nil)
		}
		ctx, leave := context.WithTimeout(t.Context(), 9*time.Second)
		time.AfterFunc(2*time.Second, leave)
		_ = l.askCtx(ctx, fiveMinutes, "m")
		a := l.ask(t, 9*time.Second, fiveMinutes, "m")
		if a.result == nil || !a.result.Success() || a.took != time.Second {
			t.Errorf("got %+v", a)
		}
		if most.Load() != 1 || l.began.Load() != 2 {
			t.Errorf("%d tests, %d at once", l.began.Load(), most.Load())
		}
	})
}

// A failure counts as a result if its load started, else the next request tries
// again.
func TestLoadFailures(t *testing.T) {
	for _, loaded := range []bool{true, false} {
		t.Run(fmt.Sprint("started=", loaded), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLoadLab(0)
				l.make = func(context.Context, int32) outcome {
					began := time.Now()
					time.Sleep(time.Second)
					o := started(began, &prober.Error{Reason: prober.ReasonClosedEarly})
					o.result.Load.Started = loaded
					return o
				}
				first := l.ask(t, 9*time.Second, fiveMinutes, "m")
				second := l.ask(t, 9*time.Second, fiveMinutes, "m")
				repeated := second.result == first.result
				if repeated != loaded || (second.age > 0) != loaded {
					t.Errorf("repeated: %v, age %v", repeated, second.age)
				}
			})
		})
	}
}

// The first request's time may be too short for the test; that says nothing to
// one that has more, but joined.
func TestLoadJoinedRunWasTooShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoadLab(0)
		l.make = func(ctx context.Context, n int32) outcome {
			deadline, _ := ctx.Deadline()
			time.Sleep(100 * time.Millisecond)
			if time.Until(deadline) < 3*time.Second {
				return outcome{result: &prober.Result{Err: &prober.Error{Reason: prober.ReasonTimeoutTooShort}}}
			}
			return started(time.Now(), nil)
		}
		var short, long answer
		var wg sync.WaitGroup
		wg.Go(func() { short = l.ask(t, time.Second, fiveMinutes, "m") })
		synctest.Wait()
		wg.Go(func() { long = l.ask(t, 9*time.Second, fiveMinutes, "m") })
		wg.Wait()
		if short.result == nil || short.result.Err.Reason != prober.ReasonTimeoutTooShort {
			t.Errorf("the short one got %+v", short)
		}
		if long.result == nil || !long.result.Success() {
			t.Errorf("the long one got %+v", long)
		}
	})
}

// A failure that speaks of the server is everybody's.
func TestLoadJoinedFailureOfTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoadLab(0)
		l.make = func(context.Context, int32) outcome {
			time.Sleep(time.Second)
			return outcome{result: &prober.Result{Err: &prober.Error{Reason: prober.ReasonConnectRefused}}}
		}
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				if a := l.ask(t, time.Duration(3+i)*time.Second, fiveMinutes, "m"); a.result == nil || a.took != time.Second {
					t.Errorf("got %+v", a)
				}
			})
		}
		wg.Wait()
		if n := l.began.Load(); n != 1 {
			t.Errorf("%d tries", n)
		}
	})
}

// Rejected by a limit: the one that ran it and the one that joined, each within
// its own deadline.
func TestLoadRejectedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoadLab(0)
		l.make = func(ctx context.Context, _ int32) outcome {
			<-ctx.Done()
			return outcome{rejected: &rejection{cause: collector.CauseTarget}}
		}
		var wg sync.WaitGroup
		for i := range 4 {
			timeout := time.Duration(2+i) * time.Second
			wg.Go(func() {
				a := l.ask(t, timeout, fiveMinutes, "m")
				if a.rejected == nil || a.took != timeout {
					t.Errorf("%v: %+v after %v", timeout, a.rejected, a.took)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
	})
}

// The run has the deadline of the request that began it, so that the test is
// planned to fit.
func TestLoadRunHasTheDeadlineOfItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoadLab(0)
		l.make = func(ctx context.Context, _ int32) outcome {
			deadline, ok := ctx.Deadline()
			if want := time.Now().Add(4 * time.Second); !ok || !deadline.Equal(want) {
				t.Errorf("deadline %v, %v; want %v", deadline, ok, want)
			}
			// It answers at its deadline and a moment later, as the prober does.
			<-ctx.Done()
			time.Sleep(10 * time.Millisecond)
			return started(time.Now(), &prober.Error{Reason: prober.ReasonTimeout})
		}
		a := l.ask(t, 4*time.Second, fiveMinutes, "m")
		if a.result == nil || a.result.Err.Reason != prober.ReasonTimeout {
			t.Errorf("got %+v; want the run's own answer", a)
		}
	})
}
