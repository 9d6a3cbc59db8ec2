package promcompat

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"

	"github.com/bounceback-exporter/bounceback_exporter/prober"
)

// distributions are the native histograms with their truth.
func distributions(m *measured) map[string][]float64 {
	return map[string][]float64{
		`probe_bounceback_rtt_seconds`:                          m.rtt,
		`probe_bounceback_network_rtt_seconds`:                  m.network,
		`probe_bounceback_owd_seconds{direction="to_server"}`:   m.to,
		`probe_bounceback_owd_seconds{direction="from_server"}`: m.from,
		`probe_bounceback_asymmetry_seconds`:                    m.asymmetry,
	}
}

// scraped is a Prometheus that has scraped the scenario, and the time of the last
// scrape.
func scraped(t *testing.T, native bool) (*prom, time.Time, []*prober.Result, measured) {
	t.Helper()
	p := newProm(t, native)
	probes, truth := scenario()
	at := epoch()
	for i, r := range probes {
		at = epoch().Add(time.Duration(i) * interval)
		p.scrape(handler(r), "/probe?target=server.example&module=rtt", at, target()...)
	}
	return p, at, probes, truth
}

// TestIngestedAsGaugeHistogram: the type, the unit and, in the storage, the hint.
func TestIngestedAsGaugeHistogram(t *testing.T) {
	p, at, probes, _ := scraped(t, true)
	var last measured
	last.add(probes[len(probes)-1])
	for expr, values := range distributions(&last) {
		name, _, _ := strings.Cut(expr, "{")
		if p.types[name] != model.MetricTypeGaugeHistogram || p.units[name] != "seconds" {
			t.Errorf("%s is a %s in %q", name, p.types[name], p.units[name])
		}
		h := p.histogram(expr, at)
		if h.CounterResetHint != histogram.GaugeType {
			t.Errorf("%s: hint %v", expr, h.CounterResetHint)
		}
		if h.Count != float64(len(values)) {
			t.Errorf("%s: count %v, want %d", expr, h.Count, len(values))
		}
		if err := h.Validate(); err != nil {
			t.Errorf("%s: %v", expr, err)
		}
		// Served native, the classic buckets stay behind.
		if v := p.clean(name+"_bucket", at); len(v) != 0 {
			t.Errorf("%s: %d classic series", name, len(v))
		}
	}
}

// TestHourIsExact: all probes of an hour add up to the exact count and mean, and to
// quantiles that are in the bucket of the exact ones.
func TestHourIsExact(t *testing.T) {
	p, at, _, truth := scraped(t, true)
	for expr, values := range distributions(&truth) {
		sum := fmt.Sprintf("sum_over_time(%s[1h])", expr)
		if got := p.number("histogram_count("+sum+")", at); got != float64(len(values)) {
			t.Errorf("%s: count %v, want %d", expr, got, len(values))
		}
		mean := 0.0
		for _, v := range values {
			mean += v / float64(len(values))
		}
		if got := p.number("histogram_avg("+sum+")", at); math.Abs(got-mean) > 1e-12 {
			t.Errorf("%s: mean %v, want %v", expr, got, mean)
		}
		slices.Sort(values)
		h := p.histogram(sum, at)
		if h.CounterResetHint != histogram.GaugeType {
			t.Errorf("%s: the sum's hint is %v", expr, h.CounterResetHint)
		}
		for _, q := range []float64{.001, .05, .25, .5, .75, .9, .95, .99, .999} {
			got := p.number(fmt.Sprintf("histogram_quantile(%v, %s)", q, sum), at)
			if exact := quantiles(values, q); !inBucketOf(h, got, exact) {
				t.Errorf("%s: quantile %v is %v, exactly %v", expr, q, got, exact)
			}
		}
	}
}

// quantiles of ascending values are the value at the rank, and where the rank is a
// whole number also the next: PromQL counts from the top from 0.5 on, so that
// either can be meant.
func quantiles(sorted []float64, q float64) []float64 {
	rank := q * float64(len(sorted))
	k := int(math.Ceil(rank-1e-9)) - 1
	if math.Abs(rank-math.Round(rank)) < 1e-9 && k+1 < len(sorted) {
		return sorted[k : k+2]
	}
	return sorted[k : k+1]
}

// inBucketOf tells whether one bucket holds v and one of the exact values, bounds
// included.
func inBucketOf(h *histogram.FloatHistogram, v float64, exact []float64) bool {
	const rounding = 1e-12
	for it := h.AllBucketIterator(); it.Next(); {
		bucket := it.At()
		inside := func(x float64) bool { return bucket.Lower-rounding <= x && x <= bucket.Upper+rounding }
		if inside(v) && slices.ContainsFunc(exact, inside) {
			return true
		}
	}
	return false
}

// TestLatestProbe: without a range one reads the last probe, whatever was before.
func TestLatestProbe(t *testing.T) {
	p, _, probes, _ := scraped(t, true)
	for _, i := range []int{0, 9, 16, 17, 59} {
		at := epoch().Add(time.Duration(i) * interval)
		var one measured
		one.add(probes[i])
		slices.Sort(one.rtt)
		h := p.histogram("probe_bounceback_rtt_seconds", at)
		for _, q := range []float64{.5, .99} {
			got := p.number(fmt.Sprintf("histogram_quantile(%v, probe_bounceback_rtt_seconds)", q), at)
			if exact := quantiles(one.rtt, q); !inBucketOf(h, got, exact) {
				t.Errorf("probe %d: quantile %v is %v, exactly %v", i, q, got, exact)
			}
		}
		lowest := p.number(`probe_bounceback_rtt_min_seconds{load="none"}`, at)
		highest := p.number(`probe_bounceback_rtt_max_seconds{load="none"}`, at)
		if lowest != one.rtt[0] || highest != one.rtt[len(one.rtt)-1] {
			t.Errorf("probe %d: %v to %v, exactly %v to %v", i, lowest, highest, one.rtt[0], one.rtt[len(one.rtt)-1])
		}
		if got, want := p.number(`probe_bounceback_replies`, at), h.Count; got != want {
			t.Errorf("probe %d: %v replies, %v round trips", i, got, want)
		}
	}
}

// TestFailedProbe: a failure has no histogram, so that nothing is NaN.
func TestFailedProbe(t *testing.T) {
	p, _, _, _ := scraped(t, true)
	at := epoch().Add(30 * interval)
	if got := p.number("probe_success", at); got != 0 {
		t.Errorf("probe_success %v", got)
	}
	if got := p.number(`probe_failure_reason == 1`, at); got != 1 {
		t.Errorf("reason %v", got)
	}
	// The one before is what is seen until it is stale, so ask for this minute.
	if v := p.clean("last_over_time(probe_bounceback_rtt_seconds[59s])", at); len(v) != 0 {
		t.Errorf("a failed probe has round trips: %v", v)
	}
	if v := p.clean("last_over_time(probe_bounceback_rtt_seconds[61s])", at); len(v) != 1 {
		t.Errorf("the probe before has %d, want one", len(v))
	}
}

// TestNeverRate: Prometheus itself says that rate() is wrong here.
func TestNeverRate(t *testing.T) {
	p, at, _, _ := scraped(t, true)
	for _, expr := range []string{
		"rate(probe_bounceback_rtt_seconds[1h])",
		"increase(probe_bounceback_asymmetry_seconds[1h])",
	} {
		_, notes := p.query(expr, at)
		if len(notes) == 0 || !strings.Contains(strings.Join(notes, "\n"), "not a counter") {
			t.Errorf("%s: no warning that this is not a counter, but %q", expr, notes)
		}
	}
}

// TestMixedResolutions: where the cap on buckets halves the resolution of some
// probes, the sum is as coarse as the coarsest, and still exact in count and mean.
func TestMixedResolutions(t *testing.T) {
	p := newProm(t, true)
	r := rand.New(rand.NewPCG(33, 34))
	wide := draws{logNormal(time.Millisecond, 2), logNormal(time.Millisecond, 2)}
	var truth measured
	var schemas []int32
	at := epoch()
	for i := range 10 {
		res := probe(r, 1000, wide)
		if i%2 == 1 {
			res.Module.Histograms.MaxBuckets = 20
		}
		truth.add(res)
		at = epoch().Add(time.Duration(i) * interval)
		p.scrape(handler(res), "/probe", at, target()...)
		schemas = append(schemas, p.histogram("probe_bounceback_rtt_seconds", at).Schema)
	}
	if slices.Min(schemas) == slices.Max(schemas) {
		t.Fatalf("the cap never halved a resolution: %v", schemas)
	}
	h := p.histogram("sum_over_time(probe_bounceback_rtt_seconds[1h])", at)
	if h.Schema != slices.Min(schemas) || h.Count != float64(len(truth.rtt)) {
		t.Errorf("schema %d, count %v; want %d, %d", h.Schema, h.Count, slices.Min(schemas), len(truth.rtt))
	}
}
