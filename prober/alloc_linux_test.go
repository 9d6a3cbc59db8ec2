package prober

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/internal/iperftest"
)

// Between the first and the last of 10 000 bounces nothing is allocated: what the
// collector and the scheduler do would show up in the figures.
func TestLoopAllocatesNothing(t *testing.T) {
	const bounces = 10_000
	for name, tc := range map[string]struct {
		change func(*config.Module)
		live   *Live
	}{
		"back to back": {func(*config.Module) {}, nil},
		"trip_times":   {func(m *config.Module) { m.TripTimes = true }, nil},
		"period":       {every(200*time.Microsecond, 1), nil},
		"bursts":       {every(time.Millisecond, 5), nil},
		"watched":      {func(m *config.Module) { m.Duration = time.Minute }, &Live{}},
		"1470 bytes":   {func(m *config.Module) { m.Size = 1470 }, nil},
		"no quickack":  {func(m *config.Module) { m.QuickAck = false }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := iperftest.Start(t)
			p := New(Options{})
			m := module(counted(bounces), func(m *config.Module) { m.Timeout = time.Minute }, tc.change)
			job := &Job{Module: m, Addr: s.Addr, Live: tc.live, Start: time.Now()}
			r := &run{p: p, job: job, m: m, res: newResult(t.Context(), job), ctx: t.Context(),
				clk: &stopwatch{base: job.Start}, until: int64(time.Minute)}
			stop, err := newCanceller(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer stop.close()
			r.stop = stop
			c, layout, e := r.handshake()
			if e != nil {
				t.Fatal(e)
			}
			l := r.newLoop(c, layout)
			w := Window{Samples: make([]Sample, 0, samplesFor(m, m.Duration))}
			l.rows.begin(0, r.clk.mono(), 0)

			// The test's own helpers come to rest, and no collection interferes. The
			// runtime may still find that it needs one more thread, some seven objects:
			// then it has it in the next try.
			time.Sleep(20 * time.Millisecond)
			runtime.GC()
			defer debug.SetGCPercent(debug.SetGCPercent(-1))
			least := uint64(bounces)
			for try := 0; try < 3 && least > 2 && err == nil; try++ {
				var before, after runtime.MemStats
				w.Samples = w.Samples[:0]
				runtime.ReadMemStats(&before)
				err = l.run(&w, stretch{count: bounces, keep: true})
				runtime.ReadMemStats(&after)
				least = min(least, after.Mallocs-before.Mallocs)
			}
			r.p.end(c, ending{addr: job.Addr, connected: true})
			idle(t, p, 5*time.Second)
			if err != nil || len(w.Samples) != bounces {
				t.Fatalf("%d bounces, %v", len(w.Samples), err)
			}
			if least > 2 {
				t.Errorf("%d allocations", least)
			}
			// A slow machine takes more than a second for 10 000 bounces, a fast one not.
			if took := time.Duration(w.Samples[bounces-1].Received - w.Start); tc.live != nil && took > 1100*time.Millisecond && len(tc.live.Rows()) == 0 {
				t.Errorf("no row was shown in %v", took)
			}
			s.CheckClean()
		})
	}
}

// Rows appear while the test runs, a second each, and add up to it.
func TestRowsWhileRunning(t *testing.T) {
	t.Parallel()
	s := iperftest.Start(t)
	p := New(Options{})
	live := &Live{}
	if len(live.Rows()) != 0 {
		t.Fatal("rows before the test")
	}
	done := make(chan *Result)
	go func() {
		done <- p.Run(t.Context(), &Job{Module: module(timed(2500*time.Millisecond), every(10*time.Millisecond, 1)), Addr: s.Addr, Live: live})
	}()
	seen := 0
	var r *Result
	for r == nil {
		select {
		case r = <-done:
		case <-time.After(50 * time.Millisecond):
			n := len(live.Rows())
			if n < seen {
				t.Fatalf("%d rows after %d", n, seen)
			}
			seen = n
		}
	}
	checkComplete(t, r)
	if seen < 2 {
		t.Errorf("%d rows seen during a test of 2.5 s", seen)
	}
	w := r.Windows[0]
	if len(w.Rows) != 3 {
		t.Fatalf("%d rows, want 3", len(w.Rows))
	}
	replies, last := 0, w.Start
	var sum time.Duration
	for i, row := range w.Rows {
		if row.End <= last || row.Window != 0 || !row.TCP.RTT.OK {
			t.Errorf("row %d: %+v", i, row)
		}
		if d := time.Duration(row.End - last); i < 2 && d > 1500*time.Millisecond {
			t.Errorf("row %d is of %v", i, d)
		}
		if row.RTTMax > row.RTTSum || row.Replies == 0 {
			t.Errorf("row %d: %+v", i, row)
		}
		replies += row.Replies
		sum += row.RTTSum
		last = row.End
	}
	var all time.Duration
	for i := range w.Samples {
		all += w.Samples[i].RTT()
	}
	if replies != len(w.Samples) || sum != all {
		t.Errorf("rows have %d replies of %v, the window %d of %v", replies, sum, len(w.Samples), all)
	}
	idle(t, p, 5*time.Second)
}

// A test of a second or less has no rows.
func TestNoRowsInShortTests(t *testing.T) {
	t.Parallel()
	s := iperftest.Start(t)
	p := New(Options{})
	live := &Live{}
	r := p.Run(t.Context(), &Job{Module: module(timed(time.Second), every(50*time.Millisecond, 1)), Addr: s.Addr, Live: live})
	checkComplete(t, r)
	if n := len(r.Windows[0].Rows) + len(live.Rows()); n != 0 {
		t.Errorf("%d rows", n)
	}
	idle(t, p, 5*time.Second)
}
