package prober

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/internal/iperftest"
	"github.com/bounceback-exporter/bounceback_exporter/internal/netlab"
	"github.com/bounceback-exporter/bounceback_exporter/prober/fakeserver"
	"github.com/bounceback-exporter/bounceback_exporter/prober/wire"
)

// parts changes how long baseline, warm-up and window are.
func parts(baseline, warmup, duration time.Duration) func(*config.Module) {
	return func(m *config.Module) { m.Congest.Baseline, m.Congest.Warmup, m.Duration = baseline, warmup, duration }
}

// honest takes a load as iperf does, at a gentle pace, for d at most.
func honest(direction string, d time.Duration) func(*net.TCPConn, int) {
	return func(c *net.TCPConn, _ int) {
		if direction == "up" {
			ackOf(c)
		}
		flow(c, direction != "up", d)
		swallow(c)
	}
}

func lengthOf(w Window) time.Duration { return time.Duration(w.End - w.Start) }

// What a probe with a load measured is two windows, with the warm-up between them
// in neither; all requests are accounted for.
func TestLoadWindows(t *testing.T) {
	tests := make(map[string]func(*testing.T))
	for _, dir := range []string{"up", "down", "both"} {
		tests[dir] = func(t *testing.T) {
			const baseline, warmup, duration = 300 * ms, 400 * ms, 600 * ms
			s := startLoadPeer(t, honest(dir, 3*time.Second))
			p := New(Options{})
			r := p.Run(t.Context(), &Job{Module: module(loaded(dir, 1, 0), parts(baseline, warmup, duration)), Addr: s.addr})
			checkLoad(t, r, 1)
			idle(t, p, 10*time.Second)
			if t.Failed() {
				return
			}
			idle, load := r.Windows[0], r.Windows[1]
			if lengthOf(idle) < baseline || lengthOf(load) < duration || load.Start-idle.End < int64(warmup) {
				t.Errorf("baseline %v, then %v, loaded %v", lengthOf(idle), time.Duration(load.Start-idle.End), lengthOf(load))
			}
			// On a schedule of 10 ms; a busy machine skips ticks, but counts them.
			for i, d := range []time.Duration{baseline, duration} {
				w := r.Windows[i]
				if n, ticks := w.Requests+w.SkippedTicks, int(d/(10*ms)); n < ticks-2 || n > ticks+2 {
					t.Errorf("window %d: %d requests and %d skipped ticks, of %d", i, w.Requests, w.SkippedTicks, ticks)
				}
			}
			// The peer saw the first bounce, the windows' and the warm-up's.
			got := s.bounces.WaitEnded(t, 1, 3*time.Second)[0].Requests
			if warm := got - 1 - idle.Requests - load.Requests; warm < 2 || warm > 42 {
				t.Errorf("%d requests on the wire, %d and %d in the windows: %d left for the warm-up of 40 ticks", got, idle.Requests, load.Requests, warm)
			}
			if h := <-s.headers; h.Duration < warmup+duration || h.Duration > warmup+duration+loadSlack+lateness || h.TripTimes {
				t.Errorf("asked of the server: %+v", h)
			}
		}
	}
	sideBySide(t, tests)
}

// A count limits the bounces of each window and of no other part, and shortens
// none; the seconds without bounces have their rows all the same.
func TestLoadCount(t *testing.T) {
	s := startLoadPeer(t, honest("both", 5*time.Second))
	p := New(Options{})
	r := p.Run(t.Context(), &Job{Addr: s.addr, Module: module(loaded("both", 1, 0), parts(300*ms, 200*ms, 2500*ms), func(m *config.Module) {
		m.Count, m.Period = 7, 0
	})})
	checkLoad(t, r, 1)
	idle(t, p, 10*time.Second)
	if t.Failed() {
		return
	}
	for i, least := range []time.Duration{300 * ms, 2500 * ms} {
		if w := r.Windows[i]; len(w.Samples) != 7 || lengthOf(w) < least || lengthOf(w) > least+lateness {
			t.Errorf("window %d: %d bounces, want 7, in %v of %v", i, len(w.Samples), lengthOf(w), least)
		}
	}
	if r.Load.Duration < 2500*ms {
		t.Errorf("the load was measured for %v", r.Load.Duration)
	}
	rows := r.Windows[1].Rows
	if len(rows) != 3 {
		t.Fatalf("%d rows in 2.5 s", len(rows))
	}
	for i, row := range rows {
		if (row.Replies > 0) != (i == 0) || row.LoadUp <= 0 || row.LoadDown <= 0 {
			t.Errorf("row %d: %+v", i, row)
		}
	}
}

// Where the deadline leaves less time than the test asks for, all its parts
// shrink alike; where it leaves less than half, no load is begun.
func TestLoadShrinks(t *testing.T) {
	const baseline, warmup, duration = 800 * ms, 400 * ms, 2 * time.Second
	m := module(loaded("down", 1, 0), parts(baseline, warmup, duration))
	// slow is a first bounce that takes so much of the time.
	try := func(t *testing.T, timeout, slow time.Duration) (*Result, *loadPeer) {
		s := startLoadPeerOf(t, fakeserver.Script{Version: wire.V2_1_9, Delay: func(n int) time.Duration {
			if n == 1 {
				return slow
			}
			return 0
		}}, honest("down", 5*time.Second))
		p := New(Options{})
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		r := p.Run(ctx, &Job{Module: m, Addr: s.addr})
		if r.Elapsed > timeout+lateness {
			t.Errorf("answered after %v of %v", r.Elapsed, timeout)
		}
		idle(t, p, 10*time.Second)
		return r, s
	}
	sideBySide(t, map[string]func(*testing.T){
		"to seven tenths": func(t *testing.T) {
			r, _ := try(t, 2240*ms, 0)
			checkLoad(t, r, 1)
			if t.Failed() {
				return
			}
			idle, load := r.Windows[0], r.Windows[1]
			for what, share := range map[string]float64{
				"baseline": lengthOf(idle).Seconds() / baseline.Seconds(),
				"warm-up":  time.Duration(load.Start-idle.End).Seconds() / warmup.Seconds(),
				"window":   lengthOf(load).Seconds() / duration.Seconds(),
			} {
				if share < 0.6 || share > 0.8 {
					t.Errorf("the %s was shrunk to %.2f, want 0.7", what, share)
				}
			}
		},
		"too short": func(t *testing.T) {
			r, s := try(t, 1500*ms, 0)
			want(t, r, ReasonTimeoutTooShort)
			if n := len(s.bounces.Journal()); n != 0 || len(s.headers) != 0 {
				t.Errorf("%d bounce connections, %d loads", n, len(s.headers))
			}
		},
		"too short after the handshake": func(t *testing.T) {
			r, s := try(t, 2*time.Second, 700*ms)
			want(t, r, ReasonTimeout)
			if len(s.headers) != 0 || r.Load != nil {
				t.Error("a load was begun")
			}
		},
	})
}

// Under load a round trip takes many times what the first one took. A test that
// ends right before its deadline leaves room for it.
func TestLoadEndsBeforeItsDeadline(t *testing.T) {
	tests := make(map[string]func(*testing.T))
	for _, warmup := range []time.Duration{0, 500 * ms} {
		tests["warm-up "+warmup.String()] = func(t *testing.T) {
			l := netlab.Link{Delay: ms, Rate: 5e6, Queue: 100} // 240 ms of queue
			p := slowPath(t, l)
			bestOf(t, 3, func() []string {
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				pr := New(Options{})
				r := p.runFrom(ctx, pr, p.server.Addr, module(loaded("up", 1, 0), parts(300*ms, warmup, 4*time.Second)))
				idle(t, pr, 10*time.Second)
				if !r.Success() {
					return []string{r.Err.Error()}
				}
				w := r.Windows[len(r.Windows)-1]
				t.Logf("worst of %d round trips %v", len(w.Samples), sorted(w.Samples, (*Sample).RTT)[len(w.Samples)-1])
				return nil
			})
		}
	}
	sideBySide(t, tests)
}

// While a load runs nothing is allocated for a bounce, a read or a write: a test
// with a second more of all that allocates no more.
func TestLoadAllocatesNothing(t *testing.T) {
	p := New(Options{})
	allocated := func(d time.Duration) (mallocs, bounces uint64) {
		s := iperftest.Start(t)
		defer s.Stop()
		m := module(loaded("both", 2, d), func(m *config.Module) { m.Period = ms })
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := p.Run(t.Context(), &Job{Module: m, Addr: s.Addr})
		runtime.ReadMemStats(&after)
		checkLoad(t, r, 1e6)
		idle(t, p, 10*time.Second)
		if t.Failed() {
			t.FailNow()
		}
		return after.Mallocs - before.Mallocs, uint64(r.Windows[1].Requests)
	}
	allocated(700 * ms) // what is allocated once
	bestOf(t, 3, func() []string {
		short, fewer := allocated(700 * ms)
		long, more := allocated(1700 * ms)
		t.Logf("%d allocations with %d bounces, %d with %d", short, fewer, long, more)
		// Rows, a timer or two of the runtime's.
		if more < fewer+50 || long > short+40 {
			return []string{fmt.Sprintf("%d allocations with %d bounces, %d with %d", short, fewer, long, more)}
		}
		return nil
	})
}

// A slow stream is offered little, a fast or a long one what it needs.
func TestWindowOffered(t *testing.T) {
	for _, c := range []struct {
		rate float64
		rtt  time.Duration
		want int
	}{
		{0, ms, 64 << 10},
		{125e3, 20 * ms, 64 << 10},    // 1 Mbit/s: half a second of it
		{1.25e6, 80 * ms, 312_500},    // 10 Mbit/s
		{12.5e6, 10 * ms, 3_125_000},  // 100 Mbit/s
		{1.25e6, 600 * ms, 1_875_000}, // 10 Mbit/s over a satellite
		{5e9, ms, 1_250_000_000},
		{1e12, ms, 1<<31 - 1},
	} {
		if got := windowFor(c.rate, c.rtt); got != c.want {
			t.Errorf("%.0f bytes per second, round trip %v: %d, want %d", c.rate, c.rtt, got, c.want)
		}
	}
}
