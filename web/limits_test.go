package web

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/collector"
	"github.com/bounceback-exporter/bounceback_exporter/config"
)

// gate is an admission with its surroundings.
type gate struct {
	*admission
	drains  atomic.Int64
	b2b     atomic.Int64
	waiting atomic.Int64
}

func newGate(l config.Limits, b2b int) *gate {
	g := &gate{}
	g.b2b.Store(int64(b2b))
	g.admission = newAdmission(l, func() int { return int(g.drains.Load()) }, func() int { return int(g.b2b.Load()) },
		func(d int) { g.waiting.Add(int64(d)) })
	return g
}

// counts is how many run and wait now, and at how many servers.
func (g *gate) counts() (running, waiting, servers int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.running, len(g.queue), len(g.byTarget)
}

func addr(n int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(n)}), 5001)
}

func limits(process, target, waiting, drains int) config.Limits {
	return config.Limits{MaxConcurrentProbes: process, MaxPerTarget: target, MaxWaiting: waiting, MaxDrains: drains}
}

// mustEnter admits or fails.
func (g *gate) mustEnter(t *testing.T, a netip.AddrPort, b2b bool) func() {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	release, rej, err := g.enter(ctx, a, b2b)
	if rej != nil || err != nil {
		t.Fatalf("not admitted: %v, %v", rej, err)
	}
	return release
}

func TestAdmissionCauses(t *testing.T) {
	for _, tc := range []struct {
		cause  string
		limits config.Limits
		b2b    int
		drains int
		other  netip.AddrPort // what already runs
		period bool           // of the one that asks
	}{
		{collector.CauseProcess, limits(1, 9, 9, 9), 9, 0, addr(2), false},
		{collector.CauseBackToBack, limits(9, 9, 9, 9), 1, 0, addr(2), false},
		{collector.CauseTarget, limits(9, 1, 9, 9), 9, 0, addr(1), true},
		{collector.CauseDrains, limits(9, 9, 9, 3), 9, 3, netip.AddrPort{}, true},
		{collector.CauseWaiting, limits(1, 9, 0, 9), 9, 0, addr(2), true},
	} {
		t.Run(tc.cause, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGate(tc.limits, tc.b2b)
				if tc.other.IsValid() {
					defer g.mustEnter(t, tc.other, true)()
				}
				g.drains.Store(int64(tc.drains))
				ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
				defer cancel()
				start := time.Now()
				release, rej, err := g.enter(ctx, addr(1), !tc.period)
				if rej == nil || err != nil || release != nil {
					t.Fatalf("got %v, %v; want a rejection", rej, err)
				}
				if rej.cause != tc.cause || rej.retryAfter <= 0 || rej.text == "" {
					t.Errorf("got %+v; want the cause %s", rej, tc.cause)
				}
				want := 700 * time.Millisecond // it waits as long as it may
				if tc.cause == collector.CauseWaiting {
					want = 0 // there is nowhere to wait
				}
				if waited := time.Since(start); waited != want {
					t.Errorf("waited %v; want %v", waited, want)
				}
				if _, n, _ := g.counts(); n != 0 {
					t.Errorf("%d left in the queue", n)
				}
				if n := g.waiting.Load(); n != 0 {
					t.Errorf("%d counted as waiting", n)
				}
				g.drains.Store(0)
				time.Sleep(2 * drainPoll) // lets its timer end
			})
		})
	}
}

func TestAdmissionIsFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(limits(1, 1, 99, 9), 9)
		release := g.mustEnter(t, addr(1), true)
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				defer g.mustEnter(t, addr(i%3), i%2 == 0)()
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
			})
			synctest.Wait()
		}
		release()
		wg.Wait()
		if !slices.IsSorted(order) || len(order) != 20 {
			t.Errorf("order %v", order)
		}
	})
}

// A server whose places are taken must not hold up probes of other servers, and
// its own waiters must not be overtaken by those who come later.
func TestAdmissionPassesOverAFullServerOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(limits(3, 1, 99, 9), 9)
		releaseA := g.mustEnter(t, addr(1), false)
		var got []string
		var mu sync.Mutex
		enter := func(name string, a netip.AddrPort) {
			go func() {
				defer g.mustEnter(t, a, false)()
				mu.Lock()
				got = append(got, name)
				mu.Unlock()
				time.Sleep(time.Second)
			}()
			synctest.Wait()
		}
		enter("first of A", addr(1))
		enter("B", addr(2))
		enter("second of A", addr(1))
		if !slices.Equal(got, []string{"B"}) {
			t.Errorf("running %v; want B alone", got)
		}
		releaseA()
		synctest.Wait()
		enter("third of A", addr(1))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if want := []string{"B", "first of A", "second of A", "third of A"}; !slices.Equal(got, want) {
			t.Errorf("got %v; want %v", got, want)
		}
	})
}

func TestAdmissionCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(limits(1, 1, 9, 9), 9)
		defer g.mustEnter(t, addr(1), false)()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		release, rej, err := g.enter(ctx, addr(2), false)
		if !errors.Is(err, context.Canceled) || rej != nil || release != nil {
			t.Errorf("got %v, %v; want the cancellation", rej, err)
		}
		if running, waiting, _ := g.counts(); running != 1 || waiting != 0 {
			t.Errorf("running %d, waiting %d", running, waiting)
		}
	})
}

// Nobody tells of the end of a connection in the background.
func TestAdmissionAfterDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(limits(9, 9, 9, 2), 9)
		g.drains.Store(2)
		time.AfterFunc(time.Second, func() { g.drains.Store(1) })
		start := time.Now()
		g.mustEnter(t, addr(1), false)()
		if waited := time.Since(start); waited < time.Second || waited > time.Second+2*drainPoll {
			t.Errorf("admitted after %v", waited)
		}

		// The same where the limit on drains only becomes the obstacle later.
		g = newGate(limits(1, 9, 9, 2), 9)
		release := g.mustEnter(t, addr(1), false)
		time.AfterFunc(time.Second, func() { g.drains.Store(2); release() })
		time.AfterFunc(3*time.Second, func() { g.drains.Store(0) })
		start = time.Now()
		g.mustEnter(t, addr(2), false)()
		if waited := time.Since(start); waited < 3*time.Second || waited > 3*time.Second+2*drainPoll {
			t.Errorf("admitted after %v", waited)
		}
	})
}

func TestAdmissionFollowsReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(limits(1, 1, 9, 9), 9)
		release := g.mustEnter(t, addr(1), false)
		admitted := make(chan func())
		for range 2 {
			go func() { admitted <- g.mustEnter(t, addr(1), false) }()
		}
		synctest.Wait()
		g.setLimits(limits(5, 2, 9, 9))
		second := <-admitted
		synctest.Wait()
		if running, waiting, _ := g.counts(); running != 2 || waiting != 1 {
			t.Errorf("running %d, waiting %d; want 2 and 1", running, waiting)
		}
		// Smaller again: what runs, runs on, and nobody follows until there is room.
		g.setLimits(limits(1, 1, 9, 9))
		second()
		second() // a second call gives nothing back twice
		synctest.Wait()
		if running, waiting, _ := g.counts(); running != 1 || waiting != 1 {
			t.Errorf("running %d, waiting %d; want 1 and 1", running, waiting)
		}
		release()
		(<-admitted)()
		if running, _, servers := g.counts(); running != 0 || servers != 0 {
			t.Errorf("%d run at %d servers at the end", running, servers)
		}
	})
}

// The v4-mapped spelling of an address is no second server.
func TestAdmissionKnowsMappedAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(limits(9, 1, 9, 9), 9)
		defer g.mustEnter(t, netip.MustParseAddrPort("192.0.2.1:5001"), false)()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, rej, _ := g.enter(ctx, netip.MustParseAddrPort("[::ffff:192.0.2.1]:5001"), false)
		if rej == nil || rej.cause != collector.CauseTarget {
			t.Errorf("got %+v; want the limit per target", rej)
		}
	})
}

func TestArriveBoundsAllRequests(t *testing.T) {
	g := newGate(limits(2, 9, 3, 9), 9)
	for i := range 5 {
		if rej := g.arrive(); rej != nil {
			t.Fatalf("arrival %d: %+v", i, rej)
		}
	}
	if rej := g.arrive(); rej == nil || rej.cause != collector.CauseWaiting {
		t.Errorf("the sixth got %+v", rej)
	}
	g.leave()
	if rej := g.arrive(); rej != nil {
		t.Errorf("after one left: %+v", rej)
	}
}

// Many probes with random needs: no limit is ever exceeded, every probe gets an
// answer by its deadline, and nothing is left behind.
func TestAdmissionInvariants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limits(7, 3, 20, 4)
		g := newGate(l, 2)
		rnd := rand.New(rand.NewPCG(1, 2))
		var all, b2bs atomic.Int64
		var per [5]atomic.Int64
		var admitted, rejected, cancelled atomic.Int64
		var wg sync.WaitGroup
		for i := range 2000 {
			a, b2b := rnd.IntN(5), rnd.IntN(3) == 0
			wait, hold := time.Duration(rnd.IntN(400))*time.Millisecond, time.Duration(rnd.IntN(100))*time.Millisecond
			leaves := rnd.IntN(10) == 0
			wg.Go(func() {
				start := time.Now()
				ctx, cancel := context.WithDeadline(t.Context(), start.Add(wait))
				defer cancel()
				if leaves {
					time.AfterFunc(wait/2, cancel)
				}
				release, rej, err := g.enter(ctx, addr(a), b2b)
				if time.Since(start) > wait {
					t.Errorf("an answer after %v of %v", time.Since(start), wait)
				}
				switch {
				case err != nil:
					cancelled.Add(1)
					return
				case rej != nil:
					rejected.Add(1)
					return
				}
				admitted.Add(1)
				if n := all.Add(1); n > int64(l.MaxConcurrentProbes) {
					t.Errorf("%d run", n)
				}
				if n := per[a].Add(1); n > int64(l.MaxPerTarget) {
					t.Errorf("%d run at one server", n)
				}
				if b2b {
					if n := b2bs.Add(1); n > 2 {
						t.Errorf("%d run back to back", n)
					}
				}
				time.Sleep(hold)
				all.Add(-1)
				per[a].Add(-1)
				if b2b {
					b2bs.Add(-1)
				}
				release()
			})
			if i%50 == 0 {
				g.drains.Store(int64(rnd.IntN(6)))
			}
			time.Sleep(time.Duration(rnd.IntN(12)) * time.Millisecond)
		}
		g.drains.Store(0)
		wg.Wait()
		t.Logf("%d admitted, %d rejected, %d gone", admitted.Load(), rejected.Load(), cancelled.Load())
		for name, n := range map[string]int64{"admitted": admitted.Load(), "rejected": rejected.Load(), "cancelled": cancelled.Load()} {
			if n < 20 {
				t.Errorf("only %d were %s: the test says little", n, name)
			}
		}
		running, waiting, servers := g.counts()
		if s := fmt.Sprint(running, waiting, servers, g.waiting.Load()); s != "0 0 0 0" {
			t.Errorf("left behind: %s", s)
		}
		time.Sleep(2 * drainPoll)
	})
}
