package collector

import (
	"math"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/bounceback-exporter/bounceback_exporter/prober"
)

// builder collects the families of one probe. The protobuf messages point at
// everything, down to each number; the builder takes them from a few slices, so
// that rendering a probe is some dozens of allocations rather than a thousand.
type builder struct {
	vocabulary *[numFamilies]desc
	families   [numFamilies]*dto.MetricFamily
	// expected is the number of metrics to set aside for a family at first.
	expected int

	messages   slab[dto.MetricFamily]
	gauges     slab[gaugeMessage]
	histograms slab[histogramMessage]
	members    slab[*dto.Metric]
	pairs      slab[dto.LabelPair]
	labels     slab[*dto.LabelPair]
	strings    slab[string]

	spanMessages   slab[dto.BucketSpan]
	spans          slab[*dto.BucketSpan]
	bucketMessages slab[dto.Bucket]
	buckets        slab[*dto.Bucket]
}

// gaugeMessage is a metric with all that it points at, but its labels.
type gaugeMessage struct {
	metric dto.Metric
	gauge  dto.Gauge
	value  float64
}

func newBuilder(windows int) *builder {
	b := &builder{vocabulary: vocabulary(), expected: max(windows, 1)}
	const perWindow, others = 24, 48
	b.gauges.grow(others + perWindow*windows)
	b.members.grow(others + 2*perWindow*windows)
	b.messages.grow(int(numFamilies))
	b.pairs.grow(32 + 8*windows)
	b.labels.grow(32 + 12*windows)
	b.strings.grow(64 + 16*windows)
	return b
}

// growHistograms makes room for n histograms of their usual size.
func (b *builder) growHistograms(n int) {
	b.histograms.grow(n)
	b.spanMessages.grow(8 * n)
	b.spans.grow(8 * n)
	b.bucketMessages.grow(16 * n)
	b.buckets.grow(16 * n)
}

// finish lists the families that have a metric, ordered by name.
func (b *builder) finish() []*dto.MetricFamily {
	out := b.families[:0]
	for _, f := range b.families {
		if f != nil {
			out = append(out, f)
		}
	}
	return out
}

// gauge adds a number. One that is NaN or infinite was not measured, whatever the
// arithmetic came to: it is left out.
func (b *builder) gauge(f family, v float64, labels []*dto.LabelPair) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return
	}
	m := b.gauges.next()
	m.value = v
	m.gauge.Value = &m.value
	m.metric.Gauge = &m.gauge
	m.metric.Label = labels
	b.add(f, &m.metric)
}

// duration adds a duration in seconds.
func (b *builder) duration(f family, d time.Duration, labels []*dto.LabelPair) {
	b.gauge(f, float64(d)/1e9, labels)
}

// truth adds a 1 or a 0.
func (b *builder) truth(f family, v bool, labels []*dto.LabelPair) {
	if v {
		b.gauge(f, 1, labels)
		return
	}
	b.gauge(f, 0, labels)
}

// optionalDuration adds what was measured.
func (b *builder) optionalDuration(f family, d prober.Optional[time.Duration], labels []*dto.LabelPair) {
	if d.OK {
		b.duration(f, d.V, labels)
	}
}

// optionalNumber adds what was measured.
func optionalNumber[T uint32 | uint64](b *builder, f family, n prober.Optional[T], labels []*dto.LabelPair) {
	if n.OK {
		b.gauge(f, float64(n.V), labels)
	}
}

// add appends a metric to its family, which begins with it.
func (b *builder) add(f family, m *dto.Metric) {
	mf := b.families[f]
	if mf == nil {
		d := &b.vocabulary[f]
		mf = b.messages.next()
		mf.Name, mf.Help, mf.Type = &d.name, &d.help, &d.typ
		if d.unit != noUnit {
			mf.Unit = &d.unit
		}
		mf.Metric = b.members.take(b.expected)
		b.families[f] = mf
	}
	mf.Metric = append(mf.Metric, m)
}

// label makes a set of labels of name and value pairs, the names in alphabetical
// order. A set may be shared by any number of metrics.
func (b *builder) label(pairs ...string) []*dto.LabelPair {
	set := b.labels.take(len(pairs) / 2)
	for i := 0; i < len(pairs); i += 2 {
		p := b.pairs.next()
		p.Name, p.Value = b.strings.next(), b.strings.next()
		*p.Name, *p.Value = pairs[i], pairs[i+1]
		set = append(set, p)
	}
	return set
}

// slab hands out values of one backing slice after the other.
type slab[T any] struct{ free []T }

// grow makes room for n values.
func (s *slab[T]) grow(n int) {
	if cap(s.free)-len(s.free) < n {
		s.free = make([]T, 0, n)
	}
}

// next is a new zero value.
func (s *slab[T]) next() *T {
	if len(s.free) == cap(s.free) {
		s.free = make([]T, 0, 32)
	}
	s.free = s.free[:len(s.free)+1]
	return &s.free[len(s.free)-1]
}

// take is an empty slice with room for n values; to append more is allowed and
// touches nobody else's.
func (s *slab[T]) take(n int) []T {
	if cap(s.free)-len(s.free) < n {
		s.free = make([]T, 0, max(32, n))
	}
	i := len(s.free)
	s.free = s.free[:i+n]
	return s.free[i : i : i+n]
}
