package web

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/bounceback-exporter/bounceback_exporter/prober"
)

// prometheusAccept is what a Prometheus server with native histograms asks for.
const prometheusAccept = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6," +
	"application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"

func TestProbeAsText(t *testing.T) {
	l := newLab(testConfig(testModule("rtt")), nil)
	w := l.get("/probe?target=192.0.2.1")
	if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain; version=0.0.4") {
		t.Fatalf("%d %s", w.Code, w.Header().Get("Content-Type"))
	}
	body := w.Body.String()
	for series, want := range map[string]string{
		"probe_success": "1",
		`probe_bounceback_rtt_seconds_count{load="none"}`: "3",
		"probe_bounceback_result_age_seconds":             "0",
		"probe_timeout_seconds":                           "10",
		"probe_ip_protocol":                               "4",
	} {
		if got := seriesOf(body, series); got != want {
			t.Errorf("%s is %q; want %q", series, got, want)
		}
	}
	for _, text := range []string{"# HELP probe_success ", "# TYPE probe_bounceback_rtt_seconds histogram"} {
		if !strings.Contains(body, text) {
			t.Errorf("no %q", text)
		}
	}
	for _, secret := range []string{"192.0.2.1", "target="} {
		if strings.Contains(body, secret) {
			t.Errorf("%q is in the metrics", secret)
		}
	}
}

// A scraper that asks for protobuf gets gauge histograms with native buckets; one
// that asks for OpenMetrics first still does not get it.
func TestProbeAsProtobuf(t *testing.T) {
	l := newLab(testConfig(testModule("rtt")), nil)
	w := l.get("/probe?target=192.0.2.1", "Accept", prometheusAccept)
	if ct := w.Header().Get("Content-Type"); !strings.Contains(ct, "application/vnd.google.protobuf") {
		t.Fatalf("Content-Type %s", ct)
	}
	in := bufio.NewReader(w.Body)
	for {
		var f dto.MetricFamily
		if err := protodelim.UnmarshalFrom(in, &f); errors.Is(err, io.EOF) {
			t.Fatal("no family probe_bounceback_rtt_seconds")
		} else if err != nil {
			t.Fatal(err)
		}
		if f.GetName() != "probe_bounceback_rtt_seconds" {
			continue
		}
		h := f.GetMetric()[0].GetHistogram()
		if f.GetType() != dto.MetricType_GAUGE_HISTOGRAM || h.GetSampleCount() != 3 || len(h.GetPositiveSpan()) == 0 {
			t.Errorf("got %v", &f)
		}
		break
	}
	w = l.get("/probe?target=192.0.2.1", "Accept", "application/openmetrics-text;version=1.0.0")
	if ct := w.Header().Get("Content-Type"); strings.Contains(ct, "openmetrics") {
		t.Errorf("Content-Type %s: gauge histograms come out misnamed in it", ct)
	}
}

func TestProbeRefusals(t *testing.T) {
	l := newLab(testConfig(testModule("rtt"), testModule("owd")), nil)
	for _, tc := range []struct {
		path   string
		header []string
		want   string
	}{
		{"/probe", nil, `"target" is missing`},
		{"/probe?target=a", nil, "the modules are: owd, rtt"},
		{"/probe?target=a&module=rtt&timeout=5", nil, `unknown parameter "timeout"`},
		{"/probe?target=a&module=rtt", []string{scrapeTimeoutHeader, "0"}, scrapeTimeoutHeader},
		{"/probe?target=a&module=rtt", []string{scrapeTimeoutHeader, "10", scrapeTimeoutHeader, "10"}, "2 times"},
		{"/probe?target=0x7f.1&module=rtt", nil, `"target"`},
	} {
		w := l.get(tc.path, tc.header...)
		if w.Code != 400 || !strings.Contains(w.Body.String(), tc.want) {
			t.Errorf("%s %v: %d %s; want 400 with %q", tc.path, tc.header, w.Code, w.Body, tc.want)
		}
	}
	if l.runner.runs.Load() != 0 {
		t.Error("something was probed")
	}
}

func TestProbeDeadline(t *testing.T) {
	m := testModule("rtt")
	m.Timeout = 4 * time.Second
	for header, want := range map[string]time.Duration{"": 4 * time.Second, "3": 2500 * time.Millisecond, "0.4": 200 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			l := newLab(testConfig(m), nil)
			l.runner.run = untilDone
			var headers []string
			if header != "" {
				headers = []string{scrapeTimeoutHeader, header}
			}
			start := time.Now()
			w := l.get("/probe?target=192.0.2.1", headers...)
			if took := time.Since(start); took != want {
				t.Errorf("header %q: answered after %v; want %v", header, took, want)
			}
			body := w.Body.String()
			if w.Code != 200 || seriesOf(body, "probe_success") != "0" ||
				seriesOf(body, `probe_failure_reason{reason="silent"}`) != "1" {
				t.Errorf("header %q: %d %s", header, w.Code, body)
			}
			if got := seriesOf(body, "probe_timeout_seconds"); got != strconv.FormatFloat(want.Seconds(), 'g', -1, 64) {
				t.Errorf("header %q: probe_timeout_seconds %s", header, got)
			}
		})
	}
}

func TestProbeResolveFailure(t *testing.T) {
	l := newLab(testConfig(testModule("rtt")), nil)
	w := l.get("/probe?target=no.such.host")
	if w.Code != 200 || seriesOf(w.Body.String(), `probe_failure_reason{reason="resolve"}`) != "1" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for series, want := range map[string]string{
		`bounceback_exporter_probes_total{module="rtt"}`:                          "1",
		`bounceback_exporter_probe_failures_total{module="rtt",reason="resolve"}`: "1",
		"bounceback_exporter_probes_in_flight":                                    "0",
	} {
		if got := l.metric(series); got != want {
			t.Errorf("%s is %q; want %q", series, got, want)
		}
	}
}

// A panic is one failed probe, and the log has what is needed to find the bug.
func TestProbePanic(t *testing.T) {
	l := newLab(testConfig(testModule("rtt")), nil)
	l.runner.run = func(context.Context, *prober.Job) *prober.Result { panic("a bug") }
	w := l.get("/probe?target=192.0.2.1")
	if w.Code != 200 || seriesOf(w.Body.String(), `probe_failure_reason{reason="internal"}`) != "1" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if log := l.log.String(); !strings.Contains(log, "a bug") || !strings.Contains(log, "probe_test.go") {
		t.Errorf("log: %s", log)
	}
	l.runner.run = nil
	if w := l.get("/probe?target=192.0.2.1"); seriesOf(w.Body.String(), "probe_success") != "1" {
		t.Error("the next probe fails too")
	}
	if got := l.metric("bounceback_exporter_probes_in_flight"); got != "0" {
		t.Errorf("%s in flight", got)
	}
}

// The client goes away: the probe ends at once, and is told apart from failures
// of the target.
func TestProbeClientGone(t *testing.T) {
	l := newLab(testConfig(testModule("rtt"), loadModule("load", time.Minute)), nil)
	began, ended := make(chan struct{}, 1), make(chan error, 1)
	l.runner.run = func(ctx context.Context, job *prober.Job) *prober.Result {
		began <- struct{}{}
		res := untilDone(ctx, job)
		ended <- ctx.Err()
		return res
	}
	url := l.serve(t)
	for _, module := range []string{"rtt", "load"} {
		ctx, cancel := context.WithCancel(t.Context())
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, url+"/probe?target=192.0.2.1&module="+module, nil)
		go func() {
			<-began
			cancel()
		}()
		if res, err := http.DefaultClient.Do(req); err == nil {
			res.Body.Close()
			t.Error("an answer came")
		}
		select {
		case err := <-ended:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: the probe ended by %v", module, err)
			}
		case <-time.After(5 * time.Second):
			t.Fatalf("%s: the probe goes on", module)
		}
	}
	waitFor(t, "the history", func() bool {
		return len(l.history.find(filter{Outcome: Failed}, 9)) == 2
	})
}

// waitFor waits for something that happens after an answer.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func TestProbeRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testModule("rtt")
		m.Timeout = 3 * time.Second
		cfg := testConfig(m)
		cfg.Limits.MaxPerTarget = 1
		l := newLab(cfg, nil)
		l.runner.run = func(ctx context.Context, job *prober.Job) *prober.Result {
			time.Sleep(time.Minute) // a prober that overstays
			return bounced(job)
		}
		go l.get("/probe?target=192.0.2.1")
		synctest.Wait()
		start := time.Now()
		w := l.get("/probe?target=192.0.2.1")
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("answered after %v", took)
		}
		if w.Code != 503 || !strings.Contains(w.Body.String(), "(target)") || !strings.Contains(w.Body.String(), "max_per_target") {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if s, err := strconv.Atoi(w.Header().Get("Retry-After")); err != nil || s < 1 {
			t.Errorf("Retry-After %q", w.Header().Get("Retry-After"))
		}
		if got := l.metric(`bounceback_exporter_probes_rejected_total{cause="target"}`); got != "1" {
			t.Errorf("counted %q times", got)
		}
		if got := l.metric("bounceback_exporter_probes_in_flight"); got != "1" {
			t.Errorf("in flight: %q", got)
		}
		// A rejection is no probe of the module.
		if got := l.metric(`bounceback_exporter_probes_total{module="rtt"}`); got != "0" {
			t.Errorf("probes: %q", got)
		}
		time.Sleep(time.Minute)
	})
}

// The time in the queue is told, and part of the deadline.
func TestProbeWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig(testModule("rtt"))
		cfg.Limits.MaxConcurrentProbes = 1
		l := newLab(cfg, nil)
		l.runner.run = func(ctx context.Context, job *prober.Job) *prober.Result {
			time.Sleep(2 * time.Second)
			if deadline, _ := ctx.Deadline(); !deadline.Equal(job.Start.Add(10 * time.Second)) {
				t.Errorf("deadline %v after the start", deadline.Sub(job.Start))
			}
			return bounced(job)
		}
		go l.get("/probe?target=192.0.2.1")
		synctest.Wait()
		w := l.get("/probe?target=192.0.2.2&debug=true")
		body := w.Body.String()
		if got := seriesOf(body, `probe_bounceback_phase_duration_seconds{phase="wait"}`); got != "2" {
			t.Errorf("phase wait is %q", got)
		}
		if got := seriesOf(body, "probe_duration_seconds"); got != "4" {
			t.Errorf("probe_duration_seconds is %q", got)
		}
		if !strings.Contains(body, "waited 2s for a place among the limits") {
			t.Errorf("the log is silent about it: %s", body)
		}
	})
}

func TestProbeDebug(t *testing.T) {
	m := testModule("rtt")
	m.Size, m.TripTimes = 1470, true
	l := newLab(testConfig(m), nil)
	w := l.get("/probe?target=192.0.2.1&debug=true", "Accept", prometheusAccept)
	body := w.Body.String()
	if ct := w.Header().Get("Content-Type"); ct != "text/plain; charset=utf-8" {
		t.Errorf("Content-Type %s", ct)
	}
	for _, want := range []string{
		"bounced three times",                            // the log, though the process logs at info
		"size: 1470", "trip_times: true", "timeout: 10s", // the module
		"Bounceback to 192.0.2.1:5001: success", // the result
		"\nprobe_success 1\n", "# TYPE probe_bounceback_rtt_seconds histogram",
		"History: /history/1\n",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in %s", want, body)
		}
	}
	if strings.Contains(l.log.String(), "bounced") {
		t.Error("the process logs what a target did, though nobody asked")
	}
}

// What a peer wrote must not act on the terminal of whoever reads it.
func TestDebugHasNoControlCharacters(t *testing.T) {
	l := newLab(testConfig(testModule("rtt")), nil)
	l.runner.run = func(_ context.Context, job *prober.Job) *prober.Result {
		r := bounced(job)
		r.Log = append(r.Log, prober.LogLine{Message: "peer said \x1b[2J\x00\u009b31m\nprobe_success 1"})
		r.Err = &prober.Error{Phase: prober.PhaseBounce, Reason: prober.ReasonBadReply, Cause: errors.New("got \x1b[31m")}
		return r
	}
	body := l.get("/probe?target=192.0.2.1&debug=true").Body.Bytes()
	if i := bytes.IndexAny(body, "\x1b\x00\u009b"); i >= 0 {
		t.Errorf("a control character at %d", i)
	}
	if !bytes.Contains(body, []byte("peer said \uFFFD[2J")) {
		t.Error("the line is lost")
	}
}

func TestProbeLogLevel(t *testing.T) {
	l := newLab(testConfig(testModule("rtt")), func(o *Options) { o.ProbeLogLevel = slog.LevelWarn })
	l.get("/probe?target=192.0.2.1:7")
	l.get("/probe?target=no.such.host")
	l.get("/probe?tarjet=a")
	log := l.log.String()
	for _, want := range []string{"level=WARN", "bounced three times", "target=192.0.2.1:7", "outcome=success", "module=rtt",
		"reason=resolve", "tarjet"} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q in %s", want, log)
		}
	}
}

// Requests are bounded in all, also while they resolve.
func TestProbeArrivals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig(testModule("rtt"))
		cfg.Limits = limits(1, 9, 1, 9)
		l := newLab(cfg, nil)
		l.runner.run = untilDone
		codes := make(chan int, 5)
		for i := range 5 {
			go func() { codes <- l.get(fmt.Sprintf("/probe?target=192.0.2.%d", i)).Code }()
		}
		time.Sleep(time.Minute)
		count := map[int]int{}
		for range 5 {
			count[<-codes]++
		}
		// One runs until its deadline; of the others one waits as long, and may then
		// have a place or not. The rest are turned away at once.
		if count[200] < 1 || count[503] < 3 {
			t.Errorf("got %v", count)
		}
		if got := l.metric(`bounceback_exporter_probes_rejected_total{cause="waiting"}`); got != "3" {
			t.Errorf("turned away: %q", got)
		}
	})
}

func FuzzProbe(f *testing.F) {
	for _, q := range []string{"target=192.0.2.1", "target=[::1]:5&module=rtt&debug=true", "target=no.such.host&debug=true", "target=a&target=b",
		"%", "target=%1b%5b2J&debug=true", "target=fe80::1%25%3Cb%3E&debug=1", "module=%00&target=a"} {
		f.Add(q, "10")
	}
	l := newLab(testConfig(testModule("rtt")), nil)
	f.Fuzz(func(t *testing.T, query, timeout string) {
		r := httptest.NewRequest(http.MethodGet, "/probe", nil)
		r.URL.RawQuery = query
		r.Header[scrapeTimeoutHeader] = []string{timeout}
		w := l.do(r)
		if w.Code != 200 && w.Code != 400 {
			t.Errorf("%q: %d", query, w.Code)
		}
		if i := bytes.IndexFunc(w.Body.Bytes(), func(r rune) bool { return r < ' ' && r != '\n' || r == 0x7f }); i >= 0 {
			t.Errorf("%q: a control character at %d of %q", query, i, w.Body)
		}
		if w := l.get("/history"); w.Code != 200 {
			t.Errorf("%q: the history answers %d", query, w.Code)
		}
	})
}
