package web

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/internal/race"
	"github.com/bounceback-exporter/bounceback_exporter/prober"
)

// heap is what is in use after a collection, in bytes.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// 120 000 different targets, good and bad, plain and with a load: what is
// remembered of them stays within its bounds. Nothing is rendered here, for what is
// written is not remembered.
func TestManyTargets(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	if race.Enabled {
		t.Skip("takes a minute with the race detector; CI runs this without it too")
	}
	cfg := testConfig(testModule("rtt"), loadModule("load", time.Hour))
	l := newLab(cfg, nil)
	probe := func(from, to int) {
		for i := from; i < to; i++ {
			p := params{module: cfg.Modules["rtt"], target: prober.Target{Port: 5001}}
			switch i % 4 {
			case 0, 1:
				p.module = cfg.Modules["load"]
				fallthrough
			case 2:
				p.target.Host = fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)
			default:
				p.target.Host = fmt.Sprintf("no-such-host-%d.example", i)
			}
			p.targetText = p.target.String()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			a := &answered{params: &p, start: time.Now(), timeout: time.Minute}
			l.measure(ctx, a, cfg)
			cancel()
			l.record(a)
		}
	}
	// By then all that is remembered is full, and the maps have their final size.
	const enough, all = 70_000, 120_000
	probe(0, enough)
	before := heap()
	probe(enough, all)
	if after := heap(); after > before+before/10 {
		t.Errorf("%d bytes after %d targets, %d after %d", before, enough, after, all)
	}
	if n := len(l.loads.entries); n != maxLoadEntries {
		t.Errorf("%d loads remembered; want %d", n, maxLoadEntries)
	}
	runtime.KeepAlive(l)
}
