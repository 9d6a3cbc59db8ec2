package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestSchemaForFactor(t *testing.T) {
	for factor, want := range map[float64]int32{
		1.003: 8, 1.005: 8, 1.01: 7, 1.02: 6, 1.03: 5, 1.04: 5, 1.05: 4, 1.09: 4, 1.1: 3, 1.2: 2, 1.5: 1, 2: 0,
		3: 0, 4: -1, 16: -2, 65536: -4, 1e300: -4, math.Inf(1): -4,
		1: 8, 0: 8, -3: 8, 1.0000001: 8,
	} {
		if got := SchemaForFactor(factor); got != want {
			t.Errorf("factor %v gives schema %d, want %d", factor, got, want)
		}
	}
	if got := SchemaForFactor(math.NaN()); got != MaxSchema {
		t.Errorf("NaN gives schema %d", got)
	}
}

// counts expands spans and deltas, empty buckets left out.
func counts(t testing.TB, b Buckets) map[int]int64 {
	t.Helper()
	out := map[int]int64{}
	index, d, count := 0, 0, int64(0)
	for i, s := range b.Spans {
		if i > 0 && s.Offset <= maxGap {
			t.Errorf("span %d begins only %d buckets after the one before", i, s.Offset)
		}
		index += int(s.Offset)
		for range s.Length {
			count += b.Deltas[d]
			d++
			if count < 0 {
				t.Fatalf("bucket %d holds %d", index, count)
			}
			if count > 0 {
				out[index] = count
			}
			index++
		}
	}
	if d != len(b.Deltas) {
		t.Fatalf("%d deltas for %d buckets", len(b.Deltas), d)
	}
	return out
}

// TestBinNativeByDefinition holds every bucket against the bounds that the schema
// gives it.
func TestBinNativeByDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	values := make([]time.Duration, 3000)
	for i := range values {
		values[i] = time.Duration(math.Exp(r.Float64()*30)) * time.Duration(1-2*r.IntN(2))
	}
	const zero = 1e-6
	for schema := int32(MinSchema); schema <= MaxSchema; schema++ {
		h := BinNative(values, schema, zero, 0)
		if h.Schema != schema || h.Count != uint64(len(values)) || h.ZeroThreshold != zero {
			t.Fatalf("schema %d: %+v", schema, h)
		}
		var zeros uint64
		for _, v := range values {
			if math.Abs(v.Seconds()) <= zero {
				zeros++
			}
		}
		if h.ZeroCount != zeros {
			t.Errorf("schema %d: %d in the zero bucket, want %d", schema, h.ZeroCount, zeros)
		}
		for sign, buckets := range map[float64]Buckets{1: h.Positive, -1: h.Negative} {
			for index, got := range counts(t, buckets) {
				low := math.Exp2(float64(index-1) * math.Exp2(-float64(schema)))
				high := math.Exp2(float64(index) * math.Exp2(-float64(schema)))
				var want int64
				for _, v := range values {
					if s := v.Seconds() * sign; s > zero && s > low && s <= high {
						want++
					}
				}
				if got != want {
					t.Errorf("schema %d, sign %v, bucket %d holds %d, want %d", schema, sign, index, got, want)
				}
			}
		}
	}
}

func TestBinNativeCap(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	values := make([]time.Duration, 2000)
	for i := range values {
		values[i] = time.Duration(math.Exp(r.Float64()*20)*1e3) * time.Duration(1-2*r.IntN(2))
	}
	populated := func(h Native) int { return len(counts(t, h.Positive)) + len(counts(t, h.Negative)) }
	for _, limit := range []int{16, 40, 100, 256, 1000} {
		h := BinNative(values, MaxSchema, 1e-6, limit)
		if n := populated(h); n > limit {
			t.Errorf("limit %d: %d buckets at schema %d", limit, n, h.Schema)
		}
		if finer := BinNative(values, h.Schema+1, 1e-6, 0); h.Schema < MaxSchema && populated(finer) <= limit {
			t.Errorf("limit %d: schema %d would have fitted", limit, finer.Schema)
		}
		// To halve the resolution is exact: the same as binning coarsely at once.
		direct := BinNative(values, h.Schema, 1e-6, 0)
		for i, pair := range [][2]Buckets{{h.Positive, direct.Positive}, {h.Negative, direct.Negative}} {
			if !slices.Equal(pair[0].Spans, pair[1].Spans) || !slices.Equal(pair[0].Deltas, pair[1].Deltas) {
				t.Errorf("limit %d, side %d: halved %+v, direct %+v", limit, i, pair[0], pair[1])
			}
		}
	}
	// There is nothing coarser than MinSchema, and that is no reason to spin.
	if h := BinNative(values, 0, 0, 1); h.Schema != MinSchema {
		t.Errorf("schema %d, want %d", h.Schema, MinSchema)
	}
}

func TestBinNativeExtremes(t *testing.T) {
	if h := BinNative(nil, 4, 1e-6, 256); h.Count != 0 || h.Sum != 0 || h.Positive.Spans != nil || h.Negative.Spans != nil {
		t.Errorf("of nothing: %+v", h)
	}
	all := []time.Duration{math.MinInt64, -1, 0, 1, math.MaxInt64}
	h := BinNative(all, MaxSchema, 0, 0)
	if p, n := counts(t, h.Positive), counts(t, h.Negative); len(p) != 2 || len(n) != 2 || h.ZeroCount != 1 {
		t.Errorf("positive %v, negative %v, zero %d", p, n, h.ZeroCount)
	}
	// A value that is the threshold is in the zero bucket.
	const eighth = 125 * time.Millisecond
	if h := BinNative([]time.Duration{eighth, -eighth}, 4, 0.125, 0); h.ZeroCount != 2 {
		t.Errorf("zero bucket holds %d, want 2", h.ZeroCount)
	}
}

func TestBinClassic(t *testing.T) {
	bounds := []float64{-0.001, 0, 0.0001, 0.0002, 2}
	values := []time.Duration{
		-time.Second, -time.Millisecond, // a bound is included
		-time.Millisecond + 1, 0,
		1, 100 * time.Microsecond,
		100*time.Microsecond + 1, 200 * time.Microsecond,
		2*time.Second + 1, time.Hour,
	}
	if got, want := BinClassic(values, bounds), []uint64{2, 4, 6, 8, 8}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	// As many values as bounds, at them and next to them, one bound more each time.
	for n := range 40 {
		var bounds []float64
		var values []time.Duration
		for i := range n {
			bounds = append(bounds, float64(i*i)*0.0001-0.01)
			d := time.Duration(math.Round(bounds[i] * 1e9))
			values = append(values, d-1, d, d+1)
		}
		for i, got := range BinClassic(values, bounds) {
			var want uint64
			for _, v := range values {
				if float64(v)/1e9 <= bounds[i] {
					want++
				}
			}
			if got != want {
				t.Errorf("%d bounds: %d values up to %v, want %d", n, got, bounds[i], want)
			}
		}
	}
	for bound, want := range map[float64]uint64{math.Inf(1): 3, 1e300: 3, 0: 2} {
		if got := BinClassic([]time.Duration{math.MinInt64 + 1, 0, math.MaxInt64}, []float64{bound}); got[0] != want {
			t.Errorf("up to %v there are %d, want %d", bound, got[0], want)
		}
	}
	if got := BinClassic(values, nil); len(got) != 0 {
		t.Errorf("no bounds, but %v", got)
	}
}

// FuzzBinNative looks for values that get lost.
func FuzzBinNative(f *testing.F) {
	f.Add(int64(1), int64(-1), int64(1e6), int8(4), uint16(16))
	f.Add(int64(math.MinInt64), int64(math.MaxInt64), int64(0), int8(8), uint16(1))
	f.Fuzz(func(t *testing.T, a, b, c int64, schema int8, limit uint16) {
		values := []time.Duration{time.Duration(a), time.Duration(b), time.Duration(c), time.Duration(a / 3), time.Duration(b / 7)}
		h := BinNative(values, int32(schema), 1.0/(1<<20), int(limit))
		total := int64(h.ZeroCount)
		for _, buckets := range []Buckets{h.Positive, h.Negative} {
			for _, n := range counts(t, buckets) {
				total += n
			}
		}
		if total != 5 || h.Count != 5 {
			t.Errorf("%v: %d values in buckets, count %d", values, total, h.Count)
		}
		if math.IsNaN(h.Sum) || math.IsInf(h.Sum, 0) {
			t.Errorf("sum %v", h.Sum)
		}
	})
}

func BenchmarkBinNative(b *testing.B) {
	r := rand.New(rand.NewPCG(11, 12))
	for name, sigma := range map[string]float64{"LAN": 0.25, "wide": 2} {
		values := make([]time.Duration, 1000)
		for i := range values {
			values[i] = time.Duration(2e5 * math.Exp(r.NormFloat64()*sigma))
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				BinNative(values, 4, 1.0/(1<<20), 256)
			}
		})
		b.Run("classic "+name, func(b *testing.B) {
			bounds := []float64{.0001, .0002, .0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2}
			for b.Loop() {
				BinClassic(values, bounds)
			}
		})
	}
}
