package promcompat

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// TestClassicHour: a server without native histograms adds up the same hour from
// the classic buckets, as gauges.
func TestClassicHour(t *testing.T) {
	p, at, _, truth := scraped(t, false)
	histograms := testModule().Histograms
	for expr, values := range distributions(&truth) {
		name, selector := split(expr)
		bounds := histograms.ClassicBuckets
		if name == "probe_bounceback_asymmetry_seconds" {
			bounds = histograms.AsymmetryClassicBuckets
		}
		count := fmt.Sprintf(`sum_over_time(%s_bucket{le="+Inf"%s}[1h])`, name, selector)
		if got := p.number(count, at); got != float64(len(values)) {
			t.Errorf("%s: count %v, want %d", expr, got, len(values))
		}
		slices.Sort(values)
		for _, q := range []float64{.05, .5, .95, .99} {
			got := p.number(fmt.Sprintf(
				`histogram_quantile(%v, sum by (instance, module, load, direction, le) (sum_over_time(%s_bucket{le!=""%s}[1h])))`,
				q, name, selector), at)
			exact := quantiles(values, q)
			bin := func(v float64) int { i, _ := slices.BinarySearch(bounds, v); return i }
			if !slices.ContainsFunc(exact, func(v float64) bool { return bin(v) == bin(got) }) {
				t.Errorf("%s: quantile %v is %v, exactly %v: not in one bucket", expr, q, got, exact)
			}
		}
		if v := p.clean(name, at); len(v) != 0 {
			t.Errorf("%s: %d native series, though native histograms are off", name, len(v))
		}
	}
}

// split takes a selector apart: the name, and the matchers as more of them.
func split(expr string) (name, more string) {
	for i, c := range expr {
		if c == '{' {
			return expr[:i], "," + expr[i+1:len(expr)-1]
		}
	}
	return expr, ""
}

// TestClassicLatest: the last probe alone, and the share above a bound.
func TestClassicLatest(t *testing.T) {
	p, at, probes, _ := scraped(t, false)
	var one measured
	one.add(probes[len(probes)-1])
	slow := 0.0
	for _, v := range one.rtt {
		if v > 0.02 {
			slow++
		}
	}
	got := p.number(`1 - probe_bounceback_rtt_seconds_bucket{le="0.02"} / ignoring(le) probe_bounceback_rtt_seconds_bucket{le="+Inf"}`, at)
	if want := slow / float64(len(one.rtt)); math.Abs(got-want) > 1e-12 || want == 0 {
		t.Errorf("share above 20 ms is %v, want %v", got, want)
	}
}
