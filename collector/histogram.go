package collector

import (
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/prober/stats"
)

// Zero thresholds of the native histograms, in seconds: powers of two, so that
// they coincide with a bucket's bound. Asymmetry lies around zero, and would fill
// dozens of octaves of ever smaller buckets.
const (
	zeroThreshold          = 1.0 / (1 << 20) // 0.95 us
	asymmetryZeroThreshold = 1.0 / (1 << 17) // 7.6 us
)

// shape is how a distribution is binned.
type shape struct {
	schema        int32
	zeroThreshold float64
	maxBuckets    int
	classic       []float64 // bounds in seconds; empty: native only
}

// delayShape is that of round trips and one-way delays.
func delayShape(h *config.Histograms) shape {
	return shape{stats.SchemaForFactor(h.BucketFactor), zeroThreshold, h.MaxBuckets, h.ClassicBuckets}
}

// asymmetryShape is that of signed values.
func asymmetryShape(h *config.Histograms) shape {
	return shape{stats.SchemaForFactor(h.AsymmetryBucketFactor), asymmetryZeroThreshold,
		h.MaxBuckets, h.AsymmetryClassicBuckets}
}

// histogram adds a distribution, native and classic in one message; none if there
// are no values, since the quantile of an empty histogram is NaN. There is no
// created timestamp: a gauge histogram does not accumulate.
func (b *builder) histogram(f family, s shape, values []time.Duration, labels []*dto.LabelPair) {
	if len(values) == 0 {
		return
	}
	m := b.histograms.next()
	m.native = stats.BinNative(values, s.schema, s.zeroThreshold, s.maxBuckets)
	n, h := &m.native, &m.histogram
	h.SampleCount, h.SampleSum = &n.Count, &n.Sum
	h.Schema, h.ZeroThreshold, h.ZeroCount = &n.Schema, &n.ZeroThreshold, &n.ZeroCount
	h.PositiveSpan, h.PositiveDelta = b.toSpans(n.Positive.Spans), n.Positive.Deltas
	h.NegativeSpan, h.NegativeDelta = b.toSpans(n.Negative.Spans), n.Negative.Deltas
	h.Bucket = b.toBuckets(values, s.classic)
	m.metric.Histogram = h
	m.metric.Label = labels
	b.add(f, &m.metric)
}

// histogramMessage is a metric with the numbers that it points at.
type histogramMessage struct {
	metric    dto.Metric
	histogram dto.Histogram
	native    stats.Native
}

func (b *builder) toSpans(in []stats.Span) []*dto.BucketSpan {
	if len(in) == 0 {
		return nil
	}
	out := b.spans.take(len(in))
	for i := range in {
		m := b.spanMessages.next()
		m.Offset, m.Length = &in[i].Offset, &in[i].Length
		out = append(out, m)
	}
	return out
}

// toBuckets counts in classic buckets. The bounds are the module's, which nobody
// changes.
func (b *builder) toBuckets(values []time.Duration, bounds []float64) []*dto.Bucket {
	if len(bounds) == 0 {
		return nil
	}
	counts := stats.BinClassic(values, bounds)
	out := b.buckets.take(len(bounds))
	for i := range bounds {
		m := b.bucketMessages.next()
		m.UpperBound, m.CumulativeCount = &bounds[i], &counts[i]
		out = append(out, m)
	}
	return out
}
