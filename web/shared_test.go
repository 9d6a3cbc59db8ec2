package web

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/collector"
	"github.com/bounceback-exporter/bounceback_exporter/prober"
)

// loadLab runs fake load tests through a loads.
type loadLab struct {
	*loads
	took time.Duration
	// began and ended count tests on the wire.
	began, ended atomic.Int32
	// make is the outcome of the nth test, counted from 1; nil: a success.
	make func(ctx context.Context, n int32) outcome
}

func newLoadLab(took time.Duration) *loadLab { return &loadLab{loads: newLoads(time.Now), took: took} }

// started is an outcome whose load ran.
func started(began time.Time, err *prober.Error) outcome {
	return outcome{began: began, result: &prober.Result{
		Module: testModule("load"), Load: &prober.Load{Started: true}, Err: err}}
}

func (l *loadLab) run(ctx context.Context) outcome {
	n, began := l.began.Add(1), time.Now()
	defer l.ended.Add(1)
	if l.make != nil {
		return l.make(ctx, n)
	}
	select {
	case <-time.After(l.took):
		return started(began, nil)
	case <-ctx.Done():
		return started(began, &prober.Error{Reason: prober.ReasonCancelled, Cause: ctx.Err()})
	}
}

// answer is what one request got.
type answer struct {
	outcome
	age  time.Duration
	err  error
	took time.Duration
}

func (l *loadLab) ask(t *testing.T, timeout, interval time.Duration, key string) answer {
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	return l.askCtx(ctx, interval, key)
}

func (l *loadLab) askCtx(ctx context.Context, interval time.Duration, key string) answer {
	start := time.Now()
	o, age, err := l.do(ctx, loadKey{key, addr(1)}, interval, l.run)
	return answer{o, age, err, time.Since(start)}
}

const fiveMinutes = 5 * time.Minute

// Prometheus offsets the scrapes of a pair on purpose: 2.8 s apart they meet the
// test of the first one while it runs, and then its result.
func TestLoadHAPairSharesOneTest(t *testing.T) {
	for _, took := range []time.Duration{4 * time.Second, time.Second} {
		t.Run(took.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLoadLab(took)
				var first, second answer
				var wg sync.WaitGroup
				wg.Go(func() { first = l.ask(t, 9500*time.Millisecond, fiveMinutes, "m") })
				time.Sleep(2800 * time.Millisecond)
				wg.Go(func() { second = l.ask(t, 9500*time.Millisecond, fiveMinutes, "m") })
				wg.Wait()
				if n := l.began.Load(); n != 1 {
					t.Errorf("%d tests on the wire", n)
				}
				if first.result == nil || second.result != first.result {
					t.Fatalf("results %p and %p", first.result, second.result)
				}
				wantAge := max(2800*time.Millisecond-took, 0) // joined: as fresh as the first one's
				if first.age != 0 || second.age != wantAge {
					t.Errorf("ages %v and %v; want 0 and %v", first.age, second.age, wantAge)
				}
			})
		})
	}
}

// Scrapes arrive up to a millisecond early. Whatever asks every min_interval minus
// 1 ms alternates between fresh and repeated, and never gets a 503.
func TestLoadAlternatesFreshAndRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoadLab(3 * time.Second)
		tick := time.NewTicker(fiveMinutes - time.Millisecond)
		defer tick.Stop()
		for i := range 20 {
			a := l.ask(t, 9500*time.Millisecond, fiveMinutes, "m")
			if a.rejected != nil || a.err != nil || a.result == nil {
				t.Fatalf("request %d: %+v", i, a)
			}
			fresh := i%2 == 0
			if fresh != (a.age == 0) {
				t.Errorf("request %d: age %v", i, a.age)
			}
			if want := fiveMinutes - time.Millisecond - 3*time.Second; !fresh && a.age != want {
				t.Errorf("request %d: age %v; want %v, counted from the end of the test", i, a.age, want)
			}
			<-tick.C
		}
		if n := l.began.Load(); n != 10 {
			t.Errorf("%d tests for 20 requests; want 10", n)
		}
	})
}

func TestLoadWaitersAnswerByTheirOwnDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoadLab(6 * time.Second)
		var long, short answer
		var wg sync.WaitGroup
		wg.Go(func() { long = l.ask(t, 10*time.Second, fiveMinutes, "m") })
		time.Sleep(time.Second)
		wg.Go(func() { short = l.ask(t, 2*time.Second, fiveMinutes, "m") })
		wg.Wait()
		if short.rejected == nil || short.rejected.cause != collector.CauseLoad || short.took != 2*time.Second {
			t.Errorf("the short one got %+v", short)
		}
		if short.rejected.retryAfter <= 0 || short.rejected.retryAfter > 10*time.Second {
			t.Errorf("to retry after %v", short.rejected.retryAfter)
		}
		if long.result == nil || long.age != 0 || long.took != 6*time.Second || !long.result.Success() {
			t.Errorf("the long one got %+v", long)
		}
	})
}

func TestLoadIsCancelledWithItsLastWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoadLab(8 * time.Second)
		ask := func(leaveAfter time.Duration, got *answer) func() {
			return func() {
				ctx, cancel := context.WithTimeout(t.Context(), 9500*time.Millisecond)
				defer cancel()
				time.AfterFunc(leaveAfter, cancel)
				*got = l.askCtx(ctx, fiveMinutes, "m")
			}
		}
		var a, b answer
		var wg sync.WaitGroup
		wg.Go(ask(time.Second, &a))
		time.Sleep(time.Millisecond)
		wg.Go(ask(3*time.Second, &b))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !errors.Is(a.err, context.Canceled) || a.took != time.Second {
			t.Errorf("the first got %+v", a)
		}
		if l.ended.Load() != 0 {
			t.Fatal("the run ended with its first waiter, though another waits")
		}
		wg.Wait()
		synctest.Wait()
		if !errors.Is(b.err, context.Canceled) || l.ended.Load() != 1 {
			t.Errorf("the second got %+v; runs ended: %d", b, l.ended.Load())
		}

		// The server had its load: the failure is the result now.
		c := l.ask(t, 9500*time.Millisecond, fiveMinutes, "m")
		if c.result == nil || c.result.Err == nil || c.result.Err.Reason != prober.ReasonCancelled || c.age <= 0 {
			t.Errorf("afterwards %+v", c)
		}
		if n := l.began.Load(); n != 1 {
			t.Errorf("%d tests on the wire", n)
		}
	})
}

func TestLoadKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoadLab(time.Second)
		a := l.ask(t, 9*time.Second, fiveMinutes, "content 1")
		b := l.ask(t, 9*time.Second, fiveMinutes, "content 2")
		ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
		defer cancel()
		o, _, err := l.do(ctx, loadKey{"content 1", addr(2)}, fiveMinutes, l.run)
		if err != nil || a.result == b.result || o.result == a.result || l.began.Load() != 3 {
			t.Errorf("%d tests for three keys", l.began.Load())
		}

		l.keep(func(hash string) bool { return hash == "content 2" })
		if len(l.entries) != 1 || l.byEnd.Len() != 1 || l.byUse.Len() != 1 {
			t.Errorf("after a reload: %d entries, %d in the list, %d results", len(l.entries), l.byEnd.Len(), l.byUse.Len())
		}
		if again := l.ask(t, 9*time.Second, fiveMinutes, "content 2"); again.result != b.result {
			t.Error("a reload that left the module alone dropped its result")
		}
		if again := l.ask(t, 9*time.Second, fiveMinutes, "content 1"); again.age != 0 {
			t.Error("a reload that changed the module kept its result")
		}
	})
}

// What is remembered is bounded, in number and in bytes; an entry that lost its
// result still keeps its interval, and then, only then, there is a 503.
func TestLoadMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoadLab(0)
		big := &prober.Result{Load: &prober.Load{Started: true}, Windows: []prober.Window{{Samples: make([]prober.Sample, 100000)}}}
		small := &prober.Result{Load: &prober.Load{Started: true}}
		ask := func(n int, res *prober.Result) answer {
			ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
			defer cancel()
			a4 := netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
			o, age, err := l.do(ctx, loadKey{"m", netip.AddrPortFrom(a4, 5001)}, time.Hour, func(context.Context) outcome {
				return outcome{result: res, began: time.Now()}
			})
			return answer{outcome: o, age: age, err: err}
		}
		for n := range 20 {
			ask(n, big)
			if l.bytes > maxLoadResultBytes {
				t.Fatalf("%d bytes after %d", l.bytes, n+1)
			}
		}
		if a := ask(19, small); a.result != big || a.age <= 0 {
			t.Error("the newest result is lost")
		}
		a := ask(0, small)
		if a.rejected == nil || a.rejected.cause != collector.CauseLoad || a.rejected.retryAfter > time.Hour {
			t.Errorf("the oldest: %+v; want a rejection until its interval is over", a.rejected)
		}

		for n := range maxLoadEntries + 100 {
			ask(1000+n, small)
		}
		if len(l.entries) > maxLoadEntries || l.byEnd.Len() != len(l.entries) || l.byUse.Len() > maxLoadResults {
			t.Errorf("%d entries, %d in the list, %d results", len(l.entries), l.byEnd.Len(), l.byUse.Len())
		}
		sum, results := 0, 0
		for _, e := range l.entries {
			if e.result != nil {
				sum, results = sum+e.bytes, results+1
			}
		}
		if sum != l.bytes || results != l.byUse.Len() {
			t.Errorf("counted %d bytes and %d results, there are %d and %d", l.bytes, l.byUse.Len(), sum, results)
		}

		time.Sleep(2 * time.Hour)
		ask(1, small)
		if len(l.entries) != 1 {
			t.Errorf("%d entries outlived their interval", len(l.entries))
		}
	})
}

// A stop waits for tests that were called off, but not for ever.
func TestLoadIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoadLab(0)
		l.idle(t.Context()) // nothing runs
		l.make = func(ctx context.Context, _ int32) outcome {
			<-ctx.Done()
			time.Sleep(time.Second)
			return started(time.Now(), &prober.Error{Reason: prober.ReasonCancelled})
		}
		ctx, leave := context.WithTimeout(t.Context(), 9*time.Second)
		time.AfterFunc(time.Second, leave)
		_ = l.askCtx(ctx, fiveMinutes, "m")
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if l.idle(short); l.ended.Load() != 0 {
			t.Error("the test has ended already: this shows nothing")
		}
		if l.idle(t.Context()); len(l.running) != 0 || l.ended.Load() != 1 {
			t.Errorf("%d still run", len(l.running))
		}
	})
}
