package peers

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// enter runs Enter in the background.
func enter(t *testing.T, tab *Table, ctx context.Context, exclusive bool) <-chan *Lease {
	ch := make(chan *Lease, 1)
	go func() {
		l, err := tab.Enter(ctx, addr(1), exclusive)
		if err != nil {
			l = nil
		}
		ch <- l
	}()
	synctest.Wait()
	return ch
}

// in returns the lease if it was granted already.
func in(ch <-chan *Lease) *Lease {
	synctest.Wait()
	select {
	case l := <-ch:
		return l
	default:
		return nil
	}
}

func TestLeasesSharedAndExclusive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := New(Options{})
		ctx := t.Context()
		a, b := in(enter(t, tab, ctx, false)), in(enter(t, tab, ctx, false))
		if a == nil || b == nil {
			t.Fatal("two plain probes don't get along")
		}
		load := enter(t, tab, ctx, true)
		later := enter(t, tab, ctx, false)
		a.Release()
		if in(load) != nil {
			t.Fatal("a load while a plain probe runs")
		}
		if in(later) != nil {
			t.Fatal("a plain probe overtook a load that waits: loads would never get in")
		}
		b.Release()
		l := in(load)
		if l == nil {
			t.Fatal("the address is free, and the load waits")
		}
		if in(later) != nil {
			t.Fatal("a plain probe while a load runs")
		}
		second := enter(t, tab, ctx, true)
		l.Release()
		p := in(later)
		if p == nil {
			t.Fatal("the load is over, and the plain probe waits")
		}
		if in(second) != nil {
			t.Fatal("a load overtook")
		}
		p.Release()
		l = in(second)
		if l == nil {
			t.Fatal("the second load waits for nothing")
		}
		l.Release()
		if e := tab.m[addr(1)]; e.refs != 0 || e.shared != 0 || e.exclusive {
			t.Errorf("left behind: %+v", e)
		}
	})
}

// A load that keeps its lease for what goes on in the background keeps others out
// until the last Release.
func TestLeaseHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := New(Options{})
		l := in(enter(t, tab, t.Context(), true))
		l.Hold()
		l.Hold()
		next := enter(t, tab, t.Context(), false)
		l.Release()
		l.Release()
		if in(next) != nil {
			t.Fatal("in before the last Release")
		}
		l.Release()
		if in(next) == nil {
			t.Fatal("not in after the last Release")
		}
	})
}

// When a waiting load gives up, the plain probes behind it go on.
func TestLeaseCancelAtHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := New(Options{})
		a := in(enter(t, tab, t.Context(), false))
		ctx, cancel := context.WithCancel(t.Context())
		load := enter(t, tab, ctx, true)
		p := enter(t, tab, t.Context(), false)
		cancel()
		if in(load) != nil || in(p) == nil {
			t.Error("the plain probe still waits behind a load that gave up")
		}
		a.Release()
	})
}

func TestLeaseDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := New(Options{})
		in(enter(t, tab, t.Context(), true))
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errGone)
		defer cancel()
		if _, err := tab.Enter(ctx, addr(1), false); err != errGone {
			t.Errorf("got %v", err)
		}
	})
}

// Many of both kinds, some giving up: an exclusive lease is alone, nothing is lost.
func TestLeasesUnderStress(t *testing.T) {
	tab := New(Options{})
	var shared, exclusive atomic.Int32
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			for j := range 200 {
				load := (i+j)%5 == 0
				ctx, cancel := context.WithCancel(t.Context())
				if j%3 == 0 {
					go cancel()
				}
				l, err := tab.Enter(ctx, addr(1), load)
				if err == nil {
					if load {
						if n := exclusive.Add(1); n != 1 || shared.Load() != 0 {
							t.Errorf("%d loads and %d plain probes at once", n, shared.Load())
						}
						exclusive.Add(-1)
					} else {
						shared.Add(1)
						if n := exclusive.Load(); n != 0 {
							t.Errorf("a plain probe beside %d loads", n)
						}
						shared.Add(-1)
					}
					l.Release()
				}
				cancel()
			}
		})
	}
	all.Wait()
	if e := tab.m[addr(1)]; e.refs != 0 || e.shared != 0 || e.exclusive || len(e.entering) != 0 {
		t.Errorf("left behind: %+v", e)
	}
}
