package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/internal/iperftest"
	"github.com/bounceback-exporter/bounceback_exporter/prober/fakeserver"
)

// guestModules are for ends of all kinds. No test is longer than it has to be: all
// of them have to fit into one of a stock client's.
const guestModules = `
allowed_targets: {networks: [127.0.0.0/8]}
limits: {max_per_target: 6}
modules:
  quick: {count: 3, timeout: 10s}
  ticks: {period: 10ms, duration: 400ms, timeout: 10s}
  endless: {count: 100000, timeout: 10s}
  held: {hold: 150ms, count: 50, timeout: 10s}
  big: {size: 131072, count: 2, timeout: 10s}
  load: {period: 10ms, duration: 500ms, timeout: 10s, congest: {baseline: 200ms, warmup: 100ms, min_interval: 0}}
`

// guest is the exporter as a guest of a server that somebody else uses too.
type guest struct {
	t      *testing.T
	server *iperftest.Server
	relay  *fakeserver.Relay // forwards a MiB a second to the server
	config string
	p      *process

	mu     sync.Mutex
	probes int
	ended  map[string]int // module and outcome
}

// start starts a new process, to which all servers are unknown.
func (g *guest) start() { g.p = startExporter(g.t, "--config.file="+g.config, "--timeout-offset=0") }

// ask does a probe. timeout is the scraper's in seconds, "" for none; if gone is not
// 0, the client hangs up after that time.
func (g *guest) ask(target, module, timeout string, gone time.Duration) string {
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	if gone > 0 {
		defer time.AfterFunc(gone, leave).Stop()
	}
	return g.askUntil(ctx, target, module, timeout)
}

// askUntil is ask for a client that hangs up when ctx ends. It tells the outcome.
func (g *guest) askUntil(ctx context.Context, target, module, timeout string) string {
	outcome := func() string {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.p.url+"/probe?target="+target+"&module="+module, nil)
		if err != nil {
			return err.Error()
		}
		if timeout != "" {
			req.Header.Set("X-Prometheus-Scrape-Timeout-Seconds", timeout)
		}
		// A connection of its own, so that its end is that of the client.
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		res, err := client.Do(req)
		if errors.Is(err, context.Canceled) {
			return "gone"
		}
		if err != nil {
			return err.Error()
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		switch {
		case errors.Is(err, context.Canceled):
			return "gone"
		case err != nil:
			return err.Error()
		case res.StatusCode == http.StatusServiceUnavailable:
			return "refused"
		case res.StatusCode != http.StatusOK:
			return res.Status
		case series(string(body), "probe_success") == "1":
			return "done"
		}
		return failureReason(string(body))
	}()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.probes++
	g.ended[module+" "+outcome]++
	return outcome
}

// rest waits until nothing goes on at any server, and then as long as a 2.1.8 needs.
// To the exporter the relay is another server, so that only the test can keep what
// goes through it apart from the rest.
func (g *guest) rest() {
	eventually(g.t, "the exporter to come to rest", func() bool {
		_, metrics := g.p.get(g.t, "/metrics")
		return series(metrics, "bounceback_exporter_drains_in_flight") == "0" &&
			series(metrics, "bounceback_exporter_probes_in_flight") == "0"
	})
	time.Sleep(200 * time.Millisecond)
}

// counted adds what the exporter has counted, before it is stopped.
func (g *guest) counted() {
	_, metrics := g.p.get(g.t, "/metrics")
	for _, module := range []string{"quick", "ticks", "endless", "held", "big", "load"} {
		n := 0
		_, _ = fmt.Sscan(series(metrics, `bounceback_exporter_probe_failures_total{module="`+module+`",reason="cancelled"}`), &n)
		g.ended[module+" cancelled"] += n
	}
}
