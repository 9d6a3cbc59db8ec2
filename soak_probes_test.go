package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/internal/race"
	"github.com/bounceback-exporter/bounceback_exporter/prober"
	"github.com/bounceback-exporter/bounceback_exporter/responder"
)

// footprint is what a process keeps while nothing goes on.
type footprint struct {
	heap, goroutines, descriptors int64
}

// footprintNow collects garbage and looks.
func footprintNow(t *testing.T) footprint {
	t.Helper()
	// Twice: what a sync.Pool holds survives one collection.
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("needs /proc/self/fd: ", err)
	}
	return footprint{int64(m.HeapAlloc), int64(runtime.NumGoroutine()), int64(len(entries))}
}

func (f footprint) String() string {
	return fmt.Sprintf("%d KiB of heap, %d goroutines, %d descriptors", f.heap>>10, f.goroutines, f.descriptors)
}

// checkWithin fails the test if any part of later is more than a tenth above f.
func (f footprint) checkWithin(t *testing.T, later footprint) {
	t.Helper()
	for what, v := range map[string][2]int64{
		"heap": {f.heap, later.heap}, "goroutines": {f.goroutines, later.goroutines}, "descriptors": {f.descriptors, later.descriptors},
	} {
		if v[1] > v[0]+v[0]/10 {
			t.Errorf("%s grew from %d to %d", what, v[0], v[1])
		}
	}
}

// crowdOfResponders listens on the first addresses of 127.0.1.0/24 and returns them.
func crowdOfResponders(t testing.TB, n int) (*responder.Responder, []string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has all of 127.0.0.0/8 on loopback")
	}
	r := responder.New(responder.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		serving.Wait()
	})
	var targets []string
	for i := range n {
		ln, err := responder.Listen(ctx, net.JoinHostPort(fmt.Sprintf("127.0.1.%d", i+1), "0"))
		if err != nil {
			t.Fatal(err)
		}
		targets = append(targets, ln.Addr().String())
		serving.Go(func() {
			if err := r.Serve(ctx, ln); err != nil {
				t.Error(err)
			}
		})
	}
	return r, targets
}

// eachOf does f for the numbers from from to to, a few at a time.
func eachOf(from, to int, f func(i int)) {
	var next atomic.Int64
	next.Store(int64(from))
	var workers sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= to {
					return
				}
				f(i)
			}
		})
	}
	workers.Wait()
}

// 50 000 probes of 250 servers: what is kept after them is what was kept after
// 5000. Each one in a hundred is given up by its client, each one in a hundred has a
// deadline that is too early. (With the race detector there are fewer.)
func TestSoakFiftyThousandProbes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	r, targets := crowdOfResponders(t, 250)
	w := newWhole(t, "modules: {rtt: {count: 2, timeout: 20s}}", prober.Options{})
	var succeeded atomic.Int64
	probe := func(i int) {
		target := targets[i%len(targets)]
		switch i % 100 {
		case 0:
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i%7)*100*time.Microsecond)
			defer cancel()
			w.getContext(ctx, "/probe?target="+target)
		case 1:
			w.get("/probe?target="+target, "X-Prometheus-Scrape-Timeout-Seconds", "0.0005")
		default:
			if code, body := w.get("/probe?target=" + target); code == 200 && series(body, "probe_success") == "1" {
				succeeded.Add(1)
			}
		}
	}
	rest := func() footprint {
		t.Helper()
		w.quiet(t)
		eventually(t, "the responder to come to rest", func() bool { return r.Stats().Active == 0 })
		return footprintNow(t)
	}
	some, all := 5000, 50000
	if race.Enabled {
		some, all = 1000, 8000
	}
	began := time.Now()
	eachOf(0, some, probe)
	before := rest()
	eachOf(some, all, probe)
	after := rest()
	t.Logf("after %d probes %v; after %d %v; in %v", some, before, all, after, time.Since(began).Round(time.Millisecond))
	before.checkWithin(t, after)
	if n := succeeded.Load(); n < int64(all*97/100) {
		t.Errorf("%d of %d probes succeeded", n, all)
	}
	if s := r.Stats(); s.Resets != 0 {
		t.Errorf("%d connections were reset", s.Resets)
	}
	runtime.KeepAlive(w)
}
