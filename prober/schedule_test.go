package prober

import (
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/prober/fakeserver"
)

// delayed is a peer that is late with some replies; reply 1 is the first bounce.
func delayed(delays map[int]time.Duration) fakeserver.Script {
	return fakeserver.Script{Delay: func(n int) time.Duration { return delays[n] }}
}

// A tick that passes while a reply is outstanding is left out and counted, and
// the next bounce keeps to the schedule it had.
func TestScheduleSkipsMissedTicks(t *testing.T) {
	const period, ticks = 20 * time.Millisecond, 20
	for name, tc := range map[string]struct {
		late    int           // which reply
		by      time.Duration // how much
		skipped int           // at least
	}{
		"none":               {0, 0, 0},
		"in the middle":      {6, 110 * time.Millisecond, 5},
		"less than a period": {6, 12 * time.Millisecond, 0},
		"to beyond the end":  {16, 250 * time.Millisecond, 5},
		"the first bounce":   {1, 110 * time.Millisecond, 0}, // set-up: the schedule begins after it
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fakeserver.Start(t, delayed(map[int]time.Duration{tc.late: tc.by}))
			p := New(Options{})
			r := p.Run(t.Context(), &Job{Module: module(timed(ticks*period), every(period, 1)), Addr: s.Addr()})
			checkComplete(t, r)
			idle(t, p, 5*time.Second)
			if t.Failed() {
				return
			}
			w := r.Windows[0]
			// The window's end is fixed a moment before its first tick.
			if n := w.Requests + w.SkippedTicks; n != ticks && n != ticks-1 {
				t.Errorf("%d requests and %d skipped ticks, of %d", w.Requests, w.SkippedTicks, ticks)
			}
			if w.SkippedTicks < tc.skipped {
				t.Errorf("%d skipped ticks, at least %d could not be kept", w.SkippedTicks, tc.skipped)
			}
			worst := time.Duration(0)
			for i := range w.Samples {
				at := time.Duration(w.Samples[i].Sent - w.Start)
				if at < time.Duration(i)*period {
					t.Errorf("bounce %d began after %v, before its tick", i, at)
				}
				worst = max(worst, at%period)
			}
			if !w.ScheduleLateness.OK {
				t.Fatal("no lateness")
			}
			if late := w.ScheduleLateness.V; late < period && late != worst {
				t.Errorf("worst lateness %v, seen %v", late, worst)
			}
		})
	}
}

// A burst that is slow as a whole pushes the next one to a later tick, not off
// the schedule.
func TestScheduleOfBursts(t *testing.T) {
	t.Parallel()
	const period, burst = 20 * time.Millisecond, 4
	s := fakeserver.Start(t, fakeserver.Script{Delay: func(n int) time.Duration {
		if n > 1 {
			return 8 * time.Millisecond // four of them take more than a period
		}
		return 0
	}})
	p := New(Options{})
	r := p.Run(t.Context(), &Job{Module: module(counted(5*burst), every(period, burst)), Addr: s.Addr()})
	checkComplete(t, r)
	idle(t, p, 5*time.Second)
	w := r.Windows[0]
	if len(w.Samples) != 5*burst {
		t.Fatalf("%d bounces", len(w.Samples))
	}
	if w.SkippedTicks < 4 {
		t.Errorf("%d skipped ticks, each of the 4 later bursts needs one", w.SkippedTicks)
	}
	for i := burst; i < len(w.Samples); i += burst {
		at := time.Duration(w.Samples[i].Sent - w.Start)
		if min := time.Duration(i/burst) * 2 * period; at < min {
			t.Errorf("burst %d began after %v, its tick was at %v", i/burst, at, min)
		}
	}
}
