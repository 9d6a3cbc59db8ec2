package stats

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestSummarize(t *testing.T) {
	const year = 365 * 24 * time.Hour
	tests := map[string]struct {
		values []time.Duration
		want   Summary
	}{
		"none": {nil, Summary{}},
		"one":  {[]time.Duration{-7}, Summary{N: 1, Min: -7, Max: -7, Mean: -7, Sum: -7}},
		// iperf 2.1.8 printed 3=0.851/0.407/1.731/0.762 ms for such a run.
		"sample deviation": {
			[]time.Duration{1731 * time.Microsecond, 407 * time.Microsecond, 415 * time.Microsecond},
			Summary{3, 407 * time.Microsecond, 1731 * time.Microsecond, 851 * time.Microsecond,
				762113 * time.Nanosecond, 2553 * time.Microsecond}},
		"rounds to nearest":       {[]time.Duration{1, 2, 2}, Summary{3, 1, 2, 2, 1, 5}},
		"half away from zero":     {[]time.Duration{-1, -2}, Summary{2, -2, -1, -2, 1, -3}},
		"both signs":              {[]time.Duration{-10, 10}, Summary{2, -10, 10, 0, 14, 0}},
		"clocks 50 years apart":   {[]time.Duration{50*year + 1, 50*year + 3}, Summary{2, 50*year + 1, 50*year + 3, 50*year + 2, 1, 100*year + 4}},
		"a sum that is too large": {[]time.Duration{math.MaxInt64, math.MaxInt64}, Summary{2, math.MaxInt64, math.MaxInt64, math.MaxInt64, 0, math.MaxInt64}},
		"a sum that is too small": {[]time.Duration{math.MinInt64, math.MinInt64, math.MinInt64}, Summary{3, math.MinInt64, math.MinInt64, math.MinInt64, 0, math.MinInt64}},
		"a distance that is too large": {[]time.Duration{math.MinInt64, math.MaxInt64},
			Summary{2, math.MinInt64, math.MaxInt64, -1, math.MaxInt64, -1}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Summarize(tt.values); got != tt.want {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

// TestSummarizeAgainstBigNumbers compares with arithmetic that does not round, for
// as many values as a window can hold, near zero and far from it.
func TestSummarizeAgainstBigNumbers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, offset := range []time.Duration{0, time.Second, -40 * 365 * 24 * time.Hour} {
		for _, spread := range []float64{50, 1e6, 1e9} {
			values := make([]time.Duration, 100000)
			for i := range values {
				values[i] = offset + time.Duration(r.NormFloat64()*spread)
			}
			got := Summarize(values)
			mean, sd := bigStatistics(values)
			if got.Mean != mean {
				t.Errorf("offset %v, spread %g: mean %d, want %d", offset, spread, got.Mean, mean)
			}
			if d := got.StdDev - sd; d < -1 || d > 1 {
				t.Errorf("offset %v, spread %g: deviation %d, want %d", offset, spread, got.StdDev, sd)
			}
			if got.Min != slices.Min(values) || got.Max != slices.Max(values) || got.N != len(values) {
				t.Errorf("offset %v, spread %g: %+v", offset, spread, got)
			}
		}
	}
}

func bigStatistics(values []time.Duration) (mean, sd time.Duration) {
	n := big.NewRat(int64(len(values)), 1)
	sum := new(big.Int)
	squares := new(big.Int)
	for _, v := range values {
		b := big.NewInt(int64(v))
		sum.Add(sum, b)
		squares.Add(squares, new(big.Int).Mul(b, b))
	}
	m := new(big.Rat).Quo(new(big.Rat).SetInt(sum), n)
	variance := new(big.Rat).SetInt(squares)
	variance.Sub(variance, new(big.Rat).Mul(new(big.Rat).SetInt(sum), m))
	variance.Quo(variance, new(big.Rat).Sub(n, big.NewRat(1, 1)))
	f, _ := variance.Float64()
	return time.Duration(roundRat(m)), time.Duration(math.Round(math.Sqrt(f)))
}

// roundRat rounds halves away from zero.
func roundRat(r *big.Rat) int64 {
	half := big.NewRat(int64(r.Sign()), 2)
	s := new(big.Rat).Add(r, half)
	return new(big.Int).Quo(s.Num(), s.Denom()).Int64()
}

func FuzzSummarize(f *testing.F) {
	f.Add(int64(1), int64(-5), int64(math.MaxInt64), uint8(3))
	f.Add(int64(math.MinInt64), int64(math.MaxInt64), int64(0), uint8(200))
	f.Fuzz(func(t *testing.T, a, b, c int64, repeat uint8) {
		var values []time.Duration
		for range int(repeat) + 1 {
			values = append(values, time.Duration(a), time.Duration(b), time.Duration(c))
		}
		s := Summarize(values)
		mean, _ := bigStatistics(values)
		if s.Mean != mean {
			t.Errorf("mean %d, want %d", s.Mean, mean)
		}
		if s.Mean < s.Min || s.Mean > s.Max || s.StdDev < 0 {
			t.Errorf("impossible %+v", s)
		}
		sum := new(big.Int)
		for _, v := range values {
			sum.Add(sum, big.NewInt(int64(v)))
		}
		if sum.IsInt64() && sum.Int64() != int64(s.Sum) {
			// Within the rounding of a float64 of the bounds the sum may stop early.
			if s.Sum != math.MaxInt64 && s.Sum != math.MinInt64 {
				t.Errorf("sum %d, want %d", s.Sum, sum)
			}
		}
	})
}

func TestQuantile(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	tests := []struct {
		sorted []time.Duration
		q      float64
		want   time.Duration
	}{
		{nil, 0.5, 0},
		{hundred, math.NaN(), 0},
		{hundred, 0, 1},
		{hundred, -1, 1},
		{hundred, 1, 100},
		{hundred, 7, 100},
		{hundred, 0.07, 7}, // 7.000000000000001 in floating point
		{hundred, 0.29, 29},
		{hundred, 0.57, 57},
		{hundred, 0.071, 8},
		{hundred, 0.5, 50},
		{hundred, 0.99, 99},
		{hundred, 0.991, 100},
		{hundred[:1], 0.99, 1},
		{hundred[:2], 0.5, 1},
		{hundred[:2], 0.51, 2},
		{hundred[:3], 0.5, 2},
	}
	for _, tt := range tests {
		if got := Quantile(tt.sorted, tt.q); got != tt.want {
			t.Errorf("Quantile of %d values at %v = %d, want %d", len(tt.sorted), tt.q, got, tt.want)
		}
		if got := QuantileOf(slices.Clone(tt.sorted), tt.q); got != tt.want {
			t.Errorf("QuantileOf %d values at %v = %d, want %d", len(tt.sorted), tt.q, got, tt.want)
		}
	}
}

// TestQuantileIsNearestRank checks the definition itself: at least the share q is
// not above the value, and less than q is below it.
func TestQuantileIsNearestRank(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		values := make([]time.Duration, 1+r.IntN(300))
		for i := range values {
			values[i] = time.Duration(r.IntN(50))
		}
		slices.Sort(values)
		thousandths := r.IntN(1001)
		shuffled := slices.Clone(values)
		r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		v := Quantile(values, float64(thousandths)/1000)
		notAbove, below := 0, 0
		for _, w := range values {
			if w <= v {
				notAbove++
			}
			if w < v {
				below++
			}
		}
		if notAbove*1000 < thousandths*len(values) || below > 0 && below*1000 >= thousandths*len(values) {
			t.Fatalf("quantile %d/1000 of %v is %d", thousandths, values, v)
		}
		if w := QuantileOf(shuffled, float64(thousandths)/1000); w != v {
			t.Fatalf("quantile %d/1000 of %v is %d if sorted, %d if not", thousandths, values, v, w)
		}
		slices.Sort(shuffled)
		if !slices.Equal(shuffled, values) {
			t.Fatalf("values were lost: %v, before %v", shuffled, values)
		}
	}
}

func FuzzQuantileOf(f *testing.F) {
	f.Add([]byte{3, 1, 2, 2, 9}, 0.5)
	f.Add([]byte{0, 0, 0, 0}, 0.99)
	f.Fuzz(func(t *testing.T, raw []byte, q float64) {
		values := make([]time.Duration, len(raw))
		for i, b := range raw {
			values[i] = time.Duration(b)
		}
		got := QuantileOf(values, q)
		slices.Sort(values)
		if want := Quantile(values, q); got != want {
			t.Errorf("%v at %v: %d, want %d", values, q, got, want)
		}
	})
}

// TestBadPivots: an order that defeats the choice of pivots costs a sort, and not
// the square of the number of values.
func TestBadPivots(t *testing.T) {
	const n = 100000
	values := make([]time.Duration, n)
	// Pairs of the largest at both ends and in the middle, again and again.
	for i := range values {
		values[i] = time.Duration(min(i, n-i))
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	for _, q := range []float64{0, 0.5, 0.99, 1} {
		if got, want := QuantileOf(slices.Clone(values), q), Quantile(sorted, q); got != want {
			t.Errorf("quantile %v is %d, want %d", q, got, want)
		}
	}
}
