package collector

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/bounceback-exporter/bounceback_exporter/prober/stats"
)

// observed is what client_golang makes of the same values, as far as it is the
// business of a gauge histogram.
func observed(t testing.TB, values []time.Duration, factor float64, s shape) *dto.Histogram {
	t.Helper()
	h := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "x", Buckets: s.classic,
		NativeHistogramBucketFactor:    factor,
		NativeHistogramZeroThreshold:   s.zeroThreshold,
		NativeHistogramMaxBucketNumber: uint32(s.maxBuckets),
	})
	for _, v := range values {
		h.Observe(float64(v) / 1e9)
	}
	var m dto.Metric
	if err := h.Write(&m); err != nil {
		t.Fatal(err)
	}
	m.Histogram.CreatedTimestamp = nil
	return m.Histogram
}

func ours(values []time.Duration, s shape) *dto.Histogram {
	b := newBuilder(1)
	b.histogram(famRTT, s, values, nil)
	return b.finish()[0].Metric[0].Histogram
}

// TestAgreesWithClientGolang: bucket by bucket, span by span, for the distributions
// and the resolutions that probes have.
func TestAgreesWithClientGolang(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	normal := func(mean, sd float64) func() float64 { return func() float64 { return mean + r.NormFloat64()*sd } }
	logNormal := func(median, sigma float64) func() float64 {
		return func() float64 { return median * math.Exp(r.NormFloat64()*sigma) }
	}
	for name, draw := range map[string]func() float64{ // ns
		"LAN":           logNormal(2e5, .25),
		"WAN":           normal(2e7, 1e6),
		"wide":          func() float64 { return 5e4 * math.Exp(r.Float64()*math.Log(1e4)) },
		"asymmetry":     normal(-2e6, 4e6),
		"LAN asymmetry": normal(0, 5e4),
		"zeros":         func() float64 { return float64(r.IntN(3)-1) * 1e3 },
		"all the same":  func() float64 { return 1e6 },
		"extreme":       func() float64 { return math.Exp(r.Float64()*43) * float64(1-2*r.IntN(2)) },
	} {
		for _, factor := range []float64{1.003, 1.01, 1.02, 1.03, 1.05, 1.1, 1.2, 1.5, 2} {
			for _, n := range []int{1, 2, 1000} {
				values := make([]time.Duration, n)
				for i := range values {
					values[i] = time.Duration(draw())
				}
				s := shape{stats.SchemaForFactor(factor), zeroThreshold, 0, testModule().Histograms.AsymmetryClassicBuckets}
				compare(t, fmt.Sprintf("%s, factor %v, %d values", name, factor, n),
					ours(values, s), observed(t, values, factor, s))
			}
		}
	}
}

// compare allows the sum a few roundings: client_golang adds up floats, we don't.
func compare(t *testing.T, name string, got, want *dto.Histogram) {
	t.Helper()
	scale := math.Max(math.Abs(want.GetSampleSum()), float64(want.GetSampleCount())*1e-3)
	if d := got.GetSampleSum() - want.GetSampleSum(); math.Abs(d) > scale*1e-9 && math.Abs(d) > 1e-3 {
		t.Errorf("%s: sum %v, want %v", name, got.GetSampleSum(), want.GetSampleSum())
	}
	if d := cmp.Diff(want, got, protocmp.Transform(), protocmp.IgnoreFields(&dto.Histogram{}, "sample_sum")); d != "" {
		t.Errorf("%s (-client_golang +ours):\n%s", name, d)
	}
}

// TestAgreesAtEveryBound takes the whole nanoseconds on either side of every bound
// of the finest schema, whose bounds include those of all others: nowhere between
// a nanosecond and an hour does a duration land in another bucket than
// client_golang's. (Its table of bounds is off by up to two units in the last
// place, which matters only where a nanosecond is no more than that.)
func TestAgreesAtEveryBound(t *testing.T) {
	var values []time.Duration
	for octave := -29; octave < 12; octave++ {
		for j := range 256 {
			bound := math.Exp2(float64(octave)+float64(j)/256) * 1e9
			if bound < float64(time.Hour) {
				for d := -2; d <= 2; d++ {
					values = append(values, time.Duration(bound)+time.Duration(d))
				}
			}
		}
	}
	values = slices.DeleteFunc(values, func(d time.Duration) bool { return d < 1 })
	for _, factor := range []float64{1.003, 1.01, 1.02, 1.03, 1.05, 1.1, 1.2, 1.5, 2} {
		s := shape{schema: stats.SchemaForFactor(factor), zeroThreshold: zeroThreshold}
		compare(t, fmt.Sprint("factor ", factor), ours(values, s), observed(t, values, factor, s))
	}
}

// TestCapAgreesWithClientGolang: with a cap both end at the same resolution. (Ours
// may be one halving further: client_golang halves at most once per value, so that
// its last value can leave it a bucket over the cap.)
func TestCapAgreesWithClientGolang(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 24))
	halved := 0
	for range 200 {
		values := make([]time.Duration, 1000)
		for i := range values {
			values[i] = time.Duration(1e6 * math.Exp(r.NormFloat64()*3))
		}
		s := shape{schema: stats.SchemaForFactor(1.01), zeroThreshold: zeroThreshold, maxBuckets: 16 + r.IntN(200)}
		got, want := ours(values, s), observed(t, values, 1.01, s)
		if got.GetSchema() < s.schema {
			halved++
		}
		if got.GetSchema() == want.GetSchema()-1 {
			continue
		}
		compare(t, fmt.Sprint("cap ", s.maxBuckets), got, want)
	}
	if halved < 100 {
		t.Errorf("the cap was reached only %d times", halved)
	}
}

func TestNativeOnly(t *testing.T) {
	r := richResult(10)
	r.Module.Histograms.ClassicBuckets = nil
	for _, mf := range Families(r, Extra{}) {
		for _, m := range mf.Metric {
			if h := m.GetHistogram(); h != nil && len(h.Bucket) > 0 != (mf.GetName() == "probe_bounceback_asymmetry_seconds") {
				t.Errorf("%s has %d classic buckets", mf.GetName(), len(h.Bucket))
			}
		}
	}
}
