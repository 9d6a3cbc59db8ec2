package web

import (
	"context"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/prober"
)

// loadModule is a module with a load.
func loadModule(name string, interval time.Duration) *config.Module {
	m := testModule(name)
	m.Congest = &config.Congest{Direction: "both", Streams: 1, Baseline: time.Second, MinInterval: interval}
	return m
}

func TestProbeRepeatsALoadResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(testConfig(loadModule("load", 5*time.Minute)), nil)
		l.runner.run = func(_ context.Context, job *prober.Job) *prober.Result {
			time.Sleep(3 * time.Second)
			return bounced(job)
		}
		l.runner.hosts["server"] = "192.0.2.1"
		first := l.get("/probe?target=192.0.2.1").Body.String()
		time.Sleep(time.Minute)
		second := l.get("/probe?target=server", scrapeTimeoutHeader, "5").Body.String() // the same address by its name
		for series, want := range map[string][2]string{
			"probe_bounceback_result_age_seconds":             {"0", "60"},
			"probe_duration_seconds":                          {"3", "1e-09"},
			"probe_timeout_seconds":                           {"10", "4.5"},
			"probe_success":                                   {"1", "1"},
			`probe_bounceback_rtt_seconds_count{load="none"}`: {"3", "3"},
		} {
			if got := [2]string{seriesOf(first, series), seriesOf(second, series)}; got != want {
				t.Errorf("%s is %q; want %q", series, got, want)
			}
		}
		if n := l.runner.runs.Load(); n != 1 {
			t.Errorf("%d tests", n)
		}
		if got := l.metric(`bounceback_exporter_probes_total{module="load"}`); got != "1" {
			t.Errorf("%s probes counted", got)
		}
		debug := l.get("/probe?target=server&debug=true").Body.String()
		if !strings.Contains(debug, "measured by another request; its test ended 1m0s ago") {
			t.Errorf("debug says nothing about it: %s", debug[:300])
		}
		if e := l.history.find(filter{}, 1)[0]; e.Age != time.Minute {
			t.Errorf("age %v in the history", e.Age)
		}

		// A reload that forbids the address takes its result away too.
		cfg := testConfig(loadModule("load", 5*time.Minute))
		cfg.AllowedTargets.Networks = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
		l.source.next = func() (*config.Config, error) { return cfg, nil }
		if err := l.Reload(); err != nil {
			t.Fatal(err)
		}
		denied := l.get("/probe?target=server").Body.String()
		if seriesOf(denied, `probe_failure_reason{reason="target_denied"}`) != "1" {
			t.Errorf("got %s", denied)
		}
	})
}

// A plain probe that meets a load at its server waits for the load's end.
func TestProbeWaitsForALoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rtt := testModule("rtt")
		rtt.Timeout = 2 * time.Second
		patient := testModule("patient")
		l := newLab(testConfig(loadModule("load", 5*time.Minute), rtt, patient), nil)
		l.runner.run = func(_ context.Context, job *prober.Job) *prober.Result {
			if job.Module.Congest != nil {
				time.Sleep(6 * time.Second)
			}
			return bounced(job)
		}
		go l.get("/probe?target=192.0.2.1&module=load")
		synctest.Wait()
		if w := l.get("/probe?target=192.0.2.2&module=rtt"); w.Code != 200 {
			t.Errorf("another server: %d %s", w.Code, w.Body)
		}
		if w := l.get("/probe?target=192.0.2.1&module=rtt"); w.Code != 503 || !strings.Contains(w.Body.String(), "(load)") {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		start := time.Now()
		w := l.get("/probe?target=192.0.2.1&module=patient")
		if took := time.Since(start); w.Code != 200 || took != 4*time.Second {
			t.Errorf("%d after %v", w.Code, took)
		}
		if got := l.metric(`bounceback_exporter_probes_rejected_total{cause="load"}`); got != "1" {
			t.Errorf("counted %q", got)
		}
	})
}

func TestProbePanicUnderLoad(t *testing.T) {
	l := newLab(testConfig(loadModule("load", time.Minute)), nil)
	l.runner.run = func(context.Context, *prober.Job) *prober.Result { panic("a bug") }
	w := l.get("/probe?target=192.0.2.1")
	if w.Code != 200 || seriesOf(w.Body.String(), `probe_failure_reason{reason="internal"}`) != "1" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// Probes that wait for a load at their server take no place meanwhile: those of
// other servers run.
func TestProbesThatWaitForALoadTakeNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		load := loadModule("load", 5*time.Minute)
		load.Period = 20 * time.Millisecond
		cfg := testConfig(load, testModule("rtt")) // rtt is back to back
		l := newLab(cfg, nil)
		l.admission.backToBack = func() int { return 2 }
		var at, most atomic.Int32
		l.runner.run = func(_ context.Context, job *prober.Job) *prober.Result {
			if job.Module.Congest != nil {
				time.Sleep(6 * time.Second)
				return bounced(job)
			}
			most.Store(max(most.Load(), at.Add(1)))
			defer at.Add(-1)
			time.Sleep(time.Second)
			return bounced(job)
		}
		go l.get("/probe?target=192.0.2.1&module=load")
		synctest.Wait()
		codes := make(chan int, 5)
		for range 5 {
			go func() { codes <- l.get("/probe?target=192.0.2.1&module=rtt").Code }()
		}
		time.Sleep(100 * time.Millisecond)
		if got := l.metric("bounceback_exporter_probes_waiting"); got != "5" {
			t.Errorf("%s wait", got)
		}
		start := time.Now()
		w := l.get("/probe?target=192.0.2.2&module=rtt")
		if took := time.Since(start); w.Code != 200 || took != time.Second {
			t.Errorf("another server: %d after %v", w.Code, took)
		}
		for range 5 {
			if code := <-codes; code != 200 {
				t.Errorf("one that waited got %d", code)
			}
		}
		if most.Load() != 2 {
			t.Errorf("%d ran at once; the limit is 2", most.Load())
		}
		if got := l.metric("bounceback_exporter_probes_waiting"); got != "0" {
			t.Errorf("%s wait at the end", got)
		}
	})
}
