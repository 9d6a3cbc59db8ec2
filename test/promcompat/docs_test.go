package promcompat

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/bounceback-exporter/bounceback_exporter/collector"
	"github.com/bounceback-exporter/bounceback_exporter/prober"
)

// documented returns the queries of docs/METRICS.md: those in fences that begin
// with promql, by what follows it, apart by an empty line.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	doc, err := os.ReadFile("../../docs/METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	kind, inside, query := "", false, ""
	flush := func() {
		if strings.TrimSpace(query) != "" {
			out[kind] = append(out[kind], query)
		}
		query = ""
	}
	for line := range strings.Lines(string(doc)) {
		info, fence := strings.CutPrefix(strings.TrimRight(line, "\n"), "```")
		switch {
		case fence && inside:
			flush()
			inside = false
		case fence && strings.HasPrefix(info, "promql"):
			kind, inside = strings.TrimSpace(strings.TrimPrefix(info, "promql")), true
		case inside && strings.TrimSpace(line) == "":
			flush()
		case inside:
			query += line
		}
	}
	return out
}

// everything is a Prometheus with an hour of plain probes, of loads that are given
// again, and of failures, so that every query has something to find.
func everything(t *testing.T, native bool) (*prom, time.Time) {
	t.Helper()
	p, at, probes, _ := scraped(t, native)
	for i, r := range probes {
		at = epoch().Add(time.Duration(i) * interval)
		loaded := underLoad(r)
		h := promhttp.HandlerFor(collector.Gatherer(loaded, collector.Extra{ResultAge: time.Duration(i%5) * interval}), promhttp.HandlerOpts{})
		p.scrape(h, "/probe", at, "job", job, "instance", "loaded.example:5001", "module", "load")
		p.scrape(handler(failed()), "/probe", at, "job", job, "instance", "dead.example:5001", "module", module)
	}
	return p, at
}

// underLoad is a result with a second window.
func underLoad(r *prober.Result) *prober.Result {
	out := *r
	loaded := r.Windows[0]
	loaded.Load = prober.LoadBoth
	out.Windows = []prober.Window{r.Windows[0], loaded}
	out.Load = &prober.Load{
		Direction: prober.LoadBoth, Streams: 1, Duration: 2 * time.Second, Started: true,
		BytesToServer: prober.Some[uint64](1e6), BytesFromServer: prober.Some[uint64](2e6),
	}
	return &out
}

func failed() *prober.Result {
	return &prober.Result{
		Module: testModule(), Timeout: time.Second, Elapsed: time.Second,
		Err: &prober.Error{Phase: prober.PhaseConnect, Reason: prober.ReasonConnectTimeout},
	}
}

// TestDocumentedQueries: each finds something and none comes with a warning.
func TestDocumentedQueries(t *testing.T) {
	queries := documented(t)
	for kind, want := range map[string]int{"": 20, "classic": 4, "self": 4, "self classic": 1} {
		if len(queries[kind]) < want {
			t.Errorf("only %d queries of the kind %q in the document", len(queries[kind]), kind)
		}
	}
	for kind, native := range map[string]bool{"": true, "classic": false} {
		p, at := everything(t, native)
		for _, q := range queries[kind] {
			if v := p.clean(q, at); len(v) == 0 {
				t.Errorf("finds nothing: %s", q)
			}
		}
	}
	for kind, native := range map[string]bool{"self": true, "self classic": false} {
		p, at := self(t, native)
		for _, q := range queries[kind] {
			if v := p.clean(q, at); len(v) == 0 {
				t.Errorf("finds nothing: %s", q)
			}
		}
	}
}

// self is a Prometheus that has scraped /metrics of an exporter in trouble.
func self(t *testing.T, native bool) (*prom, time.Time) {
	t.Helper()
	reg := prometheus.NewRegistry()
	s := collector.NewSelf(reg, collector.SelfOptions{})
	s.SetModules([]string{module})
	h := http.Handler(promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	p := newProm(t, native)
	at := epoch()
	for i := range 10 {
		s.ProbeStarted(module)
		s.ProbeDone(module, failed())
		s.Rejected(collector.CauseTarget)
		at = epoch().Add(time.Duration(i) * interval)
		p.scrape(h, "/metrics", at, "job", "bounceback_exporter", "instance", "exporter.example:10501")
	}
	return p, at
}

// TestExampleRules: the rules of the examples run on what the exporter serves
// without an error and without a warning. What they find is the business of their
// own tests.
func TestExampleRules(t *testing.T) {
	files, err := filepath.Glob("../../examples/prometheus/rules/*.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("there are no example rules")
	}
	p, at := everything(t, true)
	for _, file := range files {
		groups, errs := rulefmt.ParseFile(file, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
		for _, err := range errs {
			t.Error(err)
		}
		if groups == nil {
			continue
		}
		for _, g := range groups.Groups {
			for _, r := range g.Rules {
				v := p.clean(r.Expr, at)
				if r.Record == "" {
					continue
				}
				// Later rules build on this one.
				app := p.storage.Appender(context.Background())
				for _, s := range v {
					b := labels.NewBuilder(s.Metric).Set("__name__", r.Record)
					var err error
					if s.H != nil {
						_, err = app.AppendHistogram(0, b.Labels(), at.UnixMilli(), nil, s.H)
					} else {
						_, err = app.Append(0, b.Labels(), at.UnixMilli(), s.F)
					}
					if err != nil {
						t.Error(fmt.Errorf("%s: %w", r.Record, err))
					}
				}
				if err := app.Commit(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}
