package prober

import (
	"context"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/internal/iperftest"
)

func withLoad(direction string, streams int) func(*config.Module) {
	return func(m *config.Module) {
		m.Duration, m.Count, m.Period = time.Second, config.MaxCount, 10*time.Millisecond
		m.Congest = &config.Congest{Direction: direction, Streams: streams, Baseline: 200 * time.Millisecond, Warmup: 200 * time.Millisecond}
	}
}

func TestLoadRealServer(t *testing.T) {
	for _, dir := range []string{"up", "down", "both"} {
		for _, n := range []int{1, 4} {
			t.Run(dir, func(t *testing.T) {
				s := iperftest.Start(t)
				p := New(Options{})
				r := p.Run(context.Background(), &Job{Module: module(withLoad(dir, n)), Addr: s.Addr})
				for _, l := range r.Log {
					t.Log(l)
				}
				if !r.Success() {
					t.Fatal(r.Err)
				}
				t.Logf("%+v", *r.Load)
				for _, w := range r.Windows {
					t.Log(w.Load, w.Requests, len(w.Samples), w.SkippedTicks, w.ScheduleLateness)
				}
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				defer cancel()
				if err := p.Wait(ctx); err != nil {
					t.Error(err)
				}
				if p.DrainsAbandoned() != 0 {
					t.Error("abandoned drains:", p.DrainsAbandoned())
				}
				s.CheckClean()
				t.Log(s.Log())
			})
		}
	}
}
