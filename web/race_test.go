package web

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/prober"
)

// Everything at once: 200 probes, plain and with a load, on few servers; reloads
// that change modules and limits; readers of every page; clients that go away. The
// race detector watches; here it counts that each request gets an answer that fits
// and that nothing is left behind.
func TestEverythingAtOnce(t *testing.T) {
	configs := make([]*config.Config, 3)
	for i := range configs {
		load := loadModule("load", 20*time.Millisecond)
		load.Size = 100 + i
		c := testConfig(testModule("rtt"), load)
		c.AllowedTargets.Networks = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
		c.Limits = limits(20+10*i, 4+i, 150+50*i, 50)
		configs[i] = c
	}
	l := newLab(configs[0], nil)
	var reloads atomic.Int32
	l.source.next = func() (*config.Config, error) {
		n := int(reloads.Add(1))
		if n%4 == 3 {
			return nil, config.Errors{{File: "x", Message: "wrong"}}
		}
		return configs[n%3], nil
	}
	l.runner.run = func(ctx context.Context, job *prober.Job) *prober.Result {
		select {
		case <-time.After(time.Duration(rand.IntN(5000)) * time.Microsecond):
			return bounced(job)
		case <-ctx.Done():
			return untilDone(ctx, job)
		}
	}

	stop := make(chan struct{})
	var others sync.WaitGroup
	every := func(d time.Duration, f func()) {
		others.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(d):
					f()
				}
			}
		})
	}
	every(10*time.Millisecond, func() { _ = l.Reload() })
	for _, page := range []string{"/", "/history", "/history/latest", "/metrics", "/config", "/history?outcome=failed"} {
		every(5*time.Millisecond, func() { l.get(page, "Accept", "text/html") })
	}
	every(3*time.Millisecond, func() { l.background.drains.Store(int64(rand.IntN(60))) })

	codes := make([]atomic.Int32, 600)
	var probes sync.WaitGroup
	for i := range 200 {
		probes.Go(func() {
			for j := range 10 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+rand.IntN(400))*time.Millisecond)
				if rand.IntN(3) > 0 {
					ctx = t.Context()
				}
				url := fmt.Sprintf("/probe?target=192.0.2.%d&module=%s&debug=%d", rand.IntN(5), []string{"rtt", "load"}[j%2], i%2)
				w := httptest.NewRecorder()
				l.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, url, nil))
				cancel()
				codes[w.Code].Add(1)
			}
		})
	}
	probes.Wait()
	close(stop)
	others.Wait()

	if got := codes[200].Load() + codes[503].Load(); got != 2000 || codes[200].Load() < 200 {
		t.Errorf("%d answers with 200, %d with 503", codes[200].Load(), codes[503].Load())
	}
	if reloads.Load() < 3 {
		t.Errorf("only %d reloads", reloads.Load())
	}
	waitFor(t, "abandoned loads", func() bool {
		l.loads.mu.Lock()
		defer l.loads.mu.Unlock()
		return len(l.loads.running) == 0
	})
	a := l.admission
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.inside != 0 || a.running != 0 || a.b2b != 0 || len(a.queue) != 0 || len(a.byTarget) != 0 {
		t.Errorf("left behind: inside %d, running %d, b2b %d, waiting %d, targets %v", a.inside, a.running, a.b2b, len(a.queue), a.byTarget)
	}
	for _, gauge := range []string{"bounceback_exporter_probes_in_flight", "bounceback_exporter_probes_waiting"} {
		if got := l.metric(gauge); got != "0" {
			t.Errorf("%s is %s", gauge, got)
		}
	}
}
