package collector

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/bounceback-exporter/bounceback_exporter/prober"
)

func newSelf(t *testing.T) (*Self, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	return NewSelf(reg, SelfOptions{
		DrainsInFlight:  func() int { return 3 },
		DrainsAbandoned: func() uint64 { return 5 },
	}), reg
}

func selfFlat(t *testing.T, reg prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := flat(families)
	for _, mf := range families {
		if len(mf.Metric) > 0 && mf.Metric[0].Counter != nil {
			for series := range out {
				if strings.HasPrefix(series, mf.GetName()) {
					delete(out, series)
				}
			}
			for _, m := range mf.Metric {
				key := mf.GetName()
				for _, l := range m.Label {
					key += "," + l.GetName() + "=" + l.GetValue()
				}
				out[key] = m.Counter.GetValue()
			}
		}
	}
	return out
}

const (
	probes   = "bounceback_exporter_probes_total"
	failures = "bounceback_exporter_probe_failures_total"
	rejected = "bounceback_exporter_probes_rejected_total"
)

// TestCountersExistFromTheStart: else the first failure is invisible to rate().
func TestCountersExistFromTheStart(t *testing.T) {
	s, reg := newSelf(t)
	s.SetModules([]string{"a", "b"})
	got := selfFlat(t, reg)
	want := []string{probes + ",module=a", probes + ",module=b"}
	for _, cause := range Causes() {
		want = append(want, rejected+",cause="+cause)
	}
	for _, reason := range prober.Reasons() {
		want = append(want, failures+",module=a,reason="+string(reason), failures+",module=b,reason="+string(reason))
	}
	for _, series := range want {
		if v, ok := got[series]; !ok || v != 0 {
			t.Errorf("%s is %v, present %v", series, v, ok)
		}
	}
	for series, v := range map[string]float64{
		"bounceback_exporter_drains_in_flight":                             3,
		"bounceback_exporter_drains_abandoned_total":                       5,
		"bounceback_exporter_probes_in_flight":                             0,
		"bounceback_exporter_probes_waiting":                               0,
		"bounceback_exporter_probe_duration_seconds{module=a}":             0,
		"bounceback_exporter_config_last_reload_successful":                0,
		"bounceback_exporter_config_last_reload_success_timestamp_seconds": 0,
	} {
		if w, ok := got[series]; !ok || w != v {
			t.Errorf("%s is %v (present %v), want %v", series, w, ok, v)
		}
	}
	for _, prefix := range []string{"bounceback_exporter_build_info", "go_goroutines", "process_open_fds"} {
		found := false
		for series := range got {
			found = found || strings.HasPrefix(series, prefix)
		}
		if !found {
			t.Errorf("no %s", prefix)
		}
	}
}

func TestProbesAreCounted(t *testing.T) {
	s, reg := newSelf(t)
	s.SetModules([]string{"a"})
	for range 3 {
		s.ProbeStarted("a")
	}
	s.ProbeDone("a", richResult(3))
	s.ProbeDone("a", failedResult())
	s.Waiting(2)
	s.Waiting(-1)
	s.Rejected(CauseTarget)
	at := time.Unix(1_796_000_000, 500_000_000)
	s.Reloaded(true, at)
	s.Reloaded(false, at.Add(time.Hour))
	got := selfFlat(t, reg)
	for series, want := range map[string]float64{
		probes + ",module=a":                                               2,
		failures + ",module=a,reason=connect_timeout":                      1,
		failures + ",module=a,reason=resolve":                              0,
		rejected + ",cause=target":                                         1,
		"bounceback_exporter_probe_duration_seconds{module=a}":             2,
		"bounceback_exporter_probes_in_flight":                             1,
		"bounceback_exporter_probes_waiting":                               1,
		"bounceback_exporter_config_last_reload_successful":                0,
		"bounceback_exporter_config_last_reload_success_timestamp_seconds": 1_796_000_000.5,
	} {
		if v, ok := got[series]; !ok || v != want {
			t.Errorf("%s is %v (present %v), want %v", series, v, ok, want)
		}
	}
}

// TestReloadMovesModules: what stays keeps its counts, what goes is gone for good,
// even if one of its probes ends later.
func TestReloadMovesModules(t *testing.T) {
	s, reg := newSelf(t)
	s.SetModules([]string{"stays", "goes"})
	s.ProbeStarted("goes")
	s.ProbeStarted("stays")
	s.ProbeDone("stays", failedResult())
	s.SetModules([]string{"stays", "comes"})
	s.ProbeDone("goes", failedResult())
	got := selfFlat(t, reg)
	for series, v := range got {
		if strings.Contains(series, "goes") {
			t.Errorf("%s is still there, at %v", series, v)
		}
	}
	for series, want := range map[string]float64{
		probes + ",module=stays": 1, probes + ",module=comes": 0,
		failures + ",module=stays,reason=connect_timeout": 1, failures + ",module=comes,reason=silent": 0,
		"bounceback_exporter_probes_in_flight": 0,
	} {
		if v, ok := got[series]; !ok || v != want {
			t.Errorf("%s is %v (present %v), want %v", series, v, ok, want)
		}
	}
}

func TestSelfWhileReloading(t *testing.T) {
	s, reg := newSelf(t)
	s.SetModules([]string{"a"})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				s.ProbeStarted("a")
				s.ProbeDone("a", failedResult())
			}
		})
	}
	for i := range 50 {
		s.SetModules([][]string{{"a"}, {"a", "b"}}[i%2])
		if _, err := reg.Gather(); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	if got := selfFlat(t, reg)[probes+",module=a"]; got != 400 {
		t.Errorf("%v probes counted, want 400", got)
	}
}

func TestSelfLint(t *testing.T) {
	s, reg := newSelf(t)
	s.SetModules([]string{"a"})
	problems, err := testutil.GatherAndLint(reg)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestSelfTakesNoNameTwice(t *testing.T) {
	reg := prometheus.NewRegistry()
	NewSelf(reg, SelfOptions{})
	defer func() {
		if recover() == nil {
			t.Error("a second set of the same metrics was accepted")
		}
	}()
	NewSelf(reg, SelfOptions{})
}
