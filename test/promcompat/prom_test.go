package promcompat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/teststorage"
)

// prom is a Prometheus in this process: its parser, its storage and its PromQL
// engine, but no scrape loop, so that a test says what time it is.
type prom struct {
	t       *testing.T
	storage *teststorage.TestStorage
	engine  *promql.Engine
	native  bool // scrape_native_histograms
	types   map[string]model.MetricType
	units   map[string]string
}

func newProm(t *testing.T, native bool) *prom {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 10_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute,
		EnableAtModifier: true, EnableNegativeOffset: true,
		NoStepSubqueryIntervalFn: func(int64) int64 { return time.Minute.Milliseconds() },
		Parser:                   parser.NewParser(parser.Options{}),
	})
	t.Cleanup(func() { _ = engine.Close() })
	return &prom{
		t: t, storage: teststorage.New(t), engine: engine, native: native,
		types: map[string]model.MetricType{}, units: map[string]string{},
	}
}

// accept is the header that a Prometheus sends with that setting.
func (p *prom) accept() string {
	protocols := config.DefaultScrapeProtocols
	if p.native {
		protocols = config.DefaultProtoFirstScrapeProtocols
	}
	var out []string
	weight := len(config.ScrapeProtocolsHeaders) + 1
	for _, protocol := range protocols {
		v := config.ScrapeProtocolsHeaders[protocol]
		if protocol == config.PrometheusText1_0_0 || protocol == config.OpenMetricsText1_0_0 {
			v += ";escaping=allow-utf-8"
		}
		out = append(out, fmt.Sprintf("%s;q=0.%d", v, weight))
		weight--
	}
	return strings.Join(append(out, fmt.Sprintf("*/*;q=0.%d", weight)), ",")
}

// scrape asks the handler and stores the answer at the given time under the labels
// that relabelling gives a target.
func (p *prom) scrape(h http.Handler, url string, at time.Time, target ...string) {
	p.t.Helper()
	req := httptest.NewRequest("GET", url, nil)
	req.Header.Set("Accept", p.accept())
	req.Header.Set("X-Prometheus-Scrape-Timeout-Seconds", "10")
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, req)
	if rec.Code != http.StatusOK {
		p.t.Fatalf("status %d: %s", rec.Code, rec.Body)
	}
	p.ingest(rec.Body.Bytes(), rec.Header().Get("Content-Type"), at, labels.FromStrings(target...))
}

func (p *prom) ingest(body []byte, contentType string, at time.Time, target labels.Labels) {
	p.t.Helper()
	parsed, err := textparse.New(body, contentType, labels.NewSymbolTable(),
		textparse.ParserOptions{IgnoreNativeHistograms: !p.native})
	if err != nil {
		p.t.Fatal(err)
	}
	app := p.storage.Appender(context.Background())
	for {
		entry, err := parsed.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			p.t.Fatal(err)
		}
		switch entry {
		case textparse.EntryType:
			name, typ := parsed.Type()
			p.types[string(name)] = typ
		case textparse.EntryUnit:
			name, unit := parsed.Unit()
			p.units[string(name)] = string(unit)
		case textparse.EntrySeries:
			_, ts, v := parsed.Series()
			p.noTimestamp(ts, parsed.StartTimestamp(), parsed)
			if _, err := app.Append(0, p.series(parsed, target), at.UnixMilli(), v); err != nil {
				p.t.Fatal(err)
			}
		case textparse.EntryHistogram:
			_, ts, h, fh := parsed.Histogram()
			p.noTimestamp(ts, parsed.StartTimestamp(), parsed)
			if _, err := app.AppendHistogram(0, p.series(parsed, target), at.UnixMilli(), h, fh); err != nil {
				p.t.Fatal(err)
			}
		}
	}
	if err := app.Commit(); err != nil {
		p.t.Fatal(err)
	}
}

// noTimestamp: a scrape's time is the server's, and a gauge has no start. The
// exporter's own counters do have one.
func (p *prom) noTimestamp(ts *int64, start int64, parsed textparse.Parser) {
	p.t.Helper()
	if start != 0 {
		var series labels.Labels
		parsed.Labels(&series)
		if !strings.HasPrefix(series.Get("__name__"), "probe_") {
			start = 0
		}
	}
	if ts != nil || start != 0 {
		p.t.Fatalf("a sample with a timestamp (%v) or a start (%d)", ts, start)
	}
}

func (p *prom) series(parsed textparse.Parser, target labels.Labels) labels.Labels {
	var l labels.Labels
	parsed.Labels(&l)
	b := labels.NewBuilder(l)
	target.Range(func(t labels.Label) {
		if l.Has(t.Name) {
			p.t.Fatalf("%s has a label %s of its own, which relabelling sets", l, t.Name)
		}
		b.Set(t.Name, t.Value)
	})
	return b.Labels()
}

// query evaluates an instant query and returns its vector and its annotations.
func (p *prom) query(expr string, at time.Time) (promql.Vector, []string) {
	p.t.Helper()
	q, err := p.engine.NewInstantQuery(context.Background(), p.storage, nil, expr, at)
	if err != nil {
		p.t.Fatalf("%s: %v", expr, err)
	}
	defer q.Close()
	res := q.Exec(context.Background())
	if res.Err != nil {
		p.t.Fatalf("%s: %v", expr, res.Err)
	}
	warnings, infos := res.Warnings.AsStrings(expr, 0, 0)
	v, err := res.Vector()
	if err != nil {
		p.t.Fatalf("%s: %v", expr, err)
	}
	// The engine takes its memory back when the query is closed.
	out := make(promql.Vector, len(v))
	for i, s := range v {
		out[i] = s
		if s.H != nil {
			out[i].H = s.H.Copy()
		}
	}
	return out, append(warnings, infos...)
}

// clean is a query that must not come with a warning.
func (p *prom) clean(expr string, at time.Time) promql.Vector {
	p.t.Helper()
	v, notes := p.query(expr, at)
	for _, n := range notes {
		p.t.Errorf("%s: %s", expr, n)
	}
	return v
}

// number is the only value of a query that must not come with a warning.
func (p *prom) number(expr string, at time.Time) float64 {
	p.t.Helper()
	v := p.clean(expr, at)
	if len(v) != 1 || v[0].H != nil {
		p.t.Fatalf("%s is not one number: %v", expr, v)
	}
	return v[0].F
}

// histogram is the only value of a query, likewise.
func (p *prom) histogram(expr string, at time.Time) *histogram.FloatHistogram {
	p.t.Helper()
	v := p.clean(expr, at)
	if len(v) != 1 || v[0].H == nil {
		p.t.Fatalf("%s is not one histogram: %v", expr, v)
	}
	return v[0].H
}
