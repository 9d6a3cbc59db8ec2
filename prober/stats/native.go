package stats

import (
	"math"
	"time"
)

// Schemas of native histograms: a bucket is 2^(2^-schema) times as wide as the one
// before.
const (
	MinSchema = -4
	MaxSchema = 8
)

// SchemaForFactor is the coarsest schema whose buckets grow by at most the factor,
// within MinSchema and MaxSchema: 1.1 gives 3 and 1.05 gives 4. A factor of 1 or
// less, or NaN, gives MaxSchema.
func SchemaForFactor(factor float64) int32 {
	if !(factor > 1) {
		return MaxSchema
	}
	floor := math.Floor(math.Log2(math.Log2(factor)))
	return int32(min(max(-floor, MinSchema), MaxSchema))
}

// Span is a run of neighbouring buckets. Offset is the distance from the end of
// the span before, or from bucket 0 for the first one.
type Span struct {
	Offset int32
	Length uint32
}

// Buckets are the populated buckets of one sign. A delta is a bucket's count minus
// that of the bucket before it in the spans; the first one is a count.
type Buckets struct {
	Spans  []Span
	Deltas []int64
}

// Native is a native histogram in the form in which Prometheus transports it:
// bucket i of a schema holds the values in (2^((i-1)/2^schema), 2^(i/2^schema)]
// seconds, a negative one their mirror image.
type Native struct {
	Schema        int32
	ZeroThreshold float64 // seconds
	ZeroCount     uint64  // values within the threshold, ends included
	Positive      Buckets
	Negative      Buckets
	Count         uint64
	Sum           float64 // seconds
}

// BinNative bins values into buckets of the schema. If more than maxBuckets were
// populated, both signs together and the zero bucket not counted, the resolution
// is halved until they fit, at most down to MinSchema; 0 is no limit. The
// threshold of the zero bucket is in seconds.
func BinNative(values []time.Duration, schema int32, zeroThreshold float64, maxBuckets int) Native {
	h := Native{
		Schema:        min(max(schema, MinSchema), MaxSchema),
		ZeroThreshold: zeroThreshold,
		Count:         uint64(len(values)),
		Sum:           total(values).seconds(),
	}
	var x indexer
	x.init(h.Schema)
	threshold := max(longestWithin(zeroThreshold), 0)
	pos, neg := newTallies(values, threshold, &x)
	for _, v := range values {
		switch {
		case v > threshold:
			pos.add(x.index(seconds(v)))
		case v < -threshold:
			neg.add(x.index(-seconds(v)))
		default:
			h.ZeroCount++
		}
	}
	for maxBuckets > 0 && h.Schema > MinSchema && pos.populated()+neg.populated() > maxBuckets {
		pos.halve()
		neg.halve()
		h.Schema--
	}
	h.Positive, h.Negative = pos.buckets(), neg.buckets()
	return h
}

// seconds is d with one rounding, so that 100 us is the float64 nearest to 0.0001,
// which is also what a bucket bound of 0.0001 is.
func seconds(d time.Duration) float64 { return float64(d) / 1e9 }

// tally counts buckets in one array from the lowest to the highest index.
type tally struct {
	lowest int
	counts []int64
}

// newTallies sets aside what the values need: from the bucket of the smallest to
// that of the largest magnitude beyond the zero threshold.
func newTallies(values []time.Duration, threshold time.Duration, x *indexer) (pos, neg tally) {
	var p, n extent
	for _, v := range values {
		switch {
		case v > threshold:
			p.include(v)
		case v < -threshold:
			n.include(v)
		}
	}
	return p.tally(x), n.tally(x)
}

// extent is a range of values of one sign; the zero value is empty.
type extent struct{ low, high time.Duration }

func (e *extent) include(v time.Duration) {
	if e.low == 0 {
		e.low, e.high = v, v
	}
	e.low, e.high = min(e.low, v), max(e.high, v)
}

func (e *extent) tally(x *indexer) tally {
	if e.low == 0 {
		return tally{}
	}
	a, b := x.index(math.Abs(seconds(e.low))), x.index(math.Abs(seconds(e.high)))
	return tally{min(a, b), make([]int64, max(a, b)-min(a, b)+1)}
}

func (t *tally) add(index int) { t.counts[index-t.lowest]++ }

func (t *tally) populated() int {
	n := 0
	for _, c := range t.counts {
		if c > 0 {
			n++
		}
	}
	return n
}

// halve merges pairs of neighbouring buckets, which is exact: bucket i becomes
// part of bucket ceil(i/2).
func (t *tally) halve() {
	if len(t.counts) == 0 {
		return
	}
	lowest := (t.lowest + 1) >> 1
	for i, c := range t.counts {
		// The target is never beyond i, so that nothing is overwritten unread.
		j := (t.lowest+i+1)>>1 - lowest
		t.counts[i] = 0
		t.counts[j] += c
	}
	highest := (t.lowest + len(t.counts)) >> 1
	t.lowest, t.counts = lowest, t.counts[:highest-lowest+1]
}

// maxGap is the longest run of empty buckets that is kept inside a span, because a
// new one would be longer on the wire. It is client_golang's choice.
const maxGap = 2

// buckets writes the tally as spans and deltas.
func (t *tally) buckets() Buckets {
	spans, deltas := t.sizes()
	if spans == 0 {
		return Buckets{}
	}
	b := Buckets{make([]Span, 0, spans), make([]int64, 0, deltas)}
	var last int64
	next := 0 // index right after the last bucket written
	for i, c := range t.counts {
		if c == 0 {
			continue
		}
		index := t.lowest + i
		if gap := index - next; len(b.Spans) == 0 || gap > maxGap {
			b.Spans = append(b.Spans, Span{Offset: int32(gap)})
		} else {
			for range gap {
				b.put(&last, 0)
			}
		}
		b.put(&last, c)
		next = index + 1
	}
	return b
}

// put appends a bucket to the last span.
func (b *Buckets) put(last *int64, count int64) {
	b.Spans[len(b.Spans)-1].Length++
	b.Deltas = append(b.Deltas, count-*last)
	*last = count
}

// sizes counts what buckets will write.
func (t *tally) sizes() (spans, deltas int) {
	gap := 0
	for _, c := range t.counts {
		if c == 0 {
			gap++
			continue
		}
		if spans == 0 || gap > maxGap {
			spans++
		} else {
			deltas += gap
		}
		deltas++
		gap = 0
	}
	return spans, deltas
}
