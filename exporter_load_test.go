package main

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/internal/iperftest"
)

const loadModules = `
allowed_targets: {networks: [127.0.0.0/8]}
modules:
  load:
    period: 20ms
    duration: 3s
    timeout: 20s
    congest: {direction: both, baseline: 200ms, warmup: 200ms, min_interval: 1m}
  plain: {period: 20ms, duration: 200ms, timeout: 20s}
`

// scrape is one answer and how long it took.
type scrape struct {
	code int
	body string
	err  error
	took time.Duration
}

func (p *process) scrape(path string, header ...string) scrape {
	began := time.Now()
	code, body, err := tryGet(p.url+path, header...)
	return scrape{code, body, err, time.Since(began)}
}

// A pair of servers scrapes 2.8 s apart: one load on the wire, both get its
// result. One with less time answers by its own deadline, a plain probe waits for
// the end of the load, and whoever comes later gets the result with its age.
func TestExporterSharesLoads(t *testing.T) {
	r, target := startResponder(t, "127.0.0.1")
	p := startExporter(t, "--config.file="+writeConfig(t, loadModules))
	var first, second, short, plain scrape
	var wg sync.WaitGroup
	wg.Go(func() { first = p.scrape("/probe?module=load&target=" + target) })
	eventually(t, "the load", func() bool { return r.Stats().Loads > 0 })
	wg.Go(func() {
		short = p.scrape("/probe?module=load&target="+target, "X-Prometheus-Scrape-Timeout-Seconds", "1")
	})
	wg.Go(func() { plain = p.scrape("/probe?module=plain&target=" + target) })
	time.Sleep(2800*time.Millisecond - 400*time.Millisecond) // the baseline is over already
	wg.Go(func() { second = p.scrape("/probe?module=load&target=" + target) })
	wg.Wait()

	for name, s := range map[string]scrape{"first": first, "second": second} {
		if s.err != nil || series(s.body, "probe_success") != "1" || series(s.body, "probe_bounceback_result_age_seconds") != "0" {
			t.Errorf("the %s got %d, %v: %s", name, s.code, s.err, s.body)
		}
		for _, load := range []string{"none", "both"} {
			if series(s.body, `probe_bounceback_replies{load="`+load+`"}`) == "" {
				t.Errorf("the %s has no window of load %s", name, load)
			}
		}
	}
	if short.code != http.StatusServiceUnavailable || !strings.Contains(short.body, "(load)") || short.took > 2*time.Second {
		t.Errorf("the short one got %d after %v: %s", short.code, short.took, short.body)
	}
	if plain.code != 200 || series(plain.body, "probe_success") != "1" {
		t.Errorf("the plain one got %d: %s", plain.code, plain.body)
	}
	if plain.took < 2*time.Second {
		t.Errorf("the plain one took %v: it ran during the load", plain.took)
	}
	later := p.scrape("/probe?module=load&target=" + target)
	if age := series(later.body, "probe_bounceback_result_age_seconds"); age == "0" || age == "" || later.took > 2*time.Second {
		t.Errorf("the later one took %v, age %q", later.took, age)
	}
	if s := r.Stats(); s.Loads != 1 || s.Resets != 0 {
		t.Errorf("%d loads on the wire, %d resets", s.Loads, s.Resets)
	}
	_, metrics := p.get(t, "/metrics")
	for name, want := range map[string]string{
		`bounceback_exporter_probes_total{module="load"}`:            "1",
		`bounceback_exporter_probes_rejected_total{cause="load"}`:    "1",
		`bounceback_exporter_probes_rejected_total{cause="process"}`: "0",
	} {
		if got := series(metrics, name); got != want {
			t.Errorf("%s is %s; want %s", name, got, want)
		}
	}
}

// A client that goes away in mid-load: the load ends at once, and its outcome is
// what the next one gets, for the server had it.
func TestExporterCancelsLoads(t *testing.T) {
	r, target := startResponder(t, "127.0.0.1")
	p := startExporter(t, "--config.file="+writeConfig(t, loadModules))
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/probe?module=load&target="+target, nil)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if res, err := http.DefaultClient.Do(req); err == nil {
			res.Body.Close()
		}
	}()
	eventually(t, "the load", func() bool { return r.Stats().LoadReceived > 0 })
	time.Sleep(300 * time.Millisecond)
	leave()
	<-done
	time.Sleep(time.Second)
	before := r.Stats()
	time.Sleep(500 * time.Millisecond)
	if after := r.Stats(); after.LoadReceived != before.LoadReceived || after.LoadSent != before.LoadSent {
		t.Errorf("a second later it still flows: %d and %d bytes in half a second",
			after.LoadReceived-before.LoadReceived, after.LoadSent-before.LoadSent)
	}
	next := p.scrape("/probe?module=load&target=" + target)
	if series(next.body, `probe_failure_reason{reason="cancelled"}`) != "1" || series(next.body, "probe_bounceback_result_age_seconds") == "0" {
		t.Errorf("the next one got %d: %s", next.code, next.body)
	}
	p.signal(t, syscall.SIGTERM)
	if code := p.exit(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	eventually(t, "the connections to end", func() bool { return r.Stats().Active == 0 })
	if s := r.Stats(); s.Resets != 0 {
		t.Errorf("%d resets", s.Resets)
	}
}

// A stop in mid-load, on a real server: the scrape gets its answer, and the
// server's log has no error.
func TestExporterStopsDuringALoad(t *testing.T) {
	s := iperftest.Start(t)
	p := startExporter(t, "--config.file="+writeConfig(t, loadModules))
	var got scrape
	var wg sync.WaitGroup
	wg.Go(func() { got = p.scrape("/probe?module=load&target=" + s.Addr.String()) })
	time.Sleep(1500 * time.Millisecond)
	p.signal(t, syscall.SIGTERM)
	wg.Wait()
	if got.err != nil || series(got.body, "probe_success") != "1" || got.took < 3*time.Second {
		t.Errorf("got %d, %v after %v: %s", got.code, got.err, got.took, got.body)
	}
	if code := p.exit(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	s.CheckClean()
}
