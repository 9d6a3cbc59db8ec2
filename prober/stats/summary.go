package stats

import (
	"math"
	"math/bits"
	"time"
)

// Summary is what is said of a set of durations in one line.
type Summary struct {
	N        int
	Min, Max time.Duration
	// Mean is rounded to the nearest nanosecond.
	Mean time.Duration
	// StdDev is the standard deviation of a sample (divisor n-1); 0 with fewer
	// than two values.
	StdDev time.Duration
	// Sum stops at the largest or smallest Duration where it would overflow.
	Sum time.Duration
}

// Summarize computes the Summary of the values; of none it is the zero value. The
// integers stay integers until the squares are summed, and those are of the
// distances from the mean: neither the number of values nor a common offset, such
// as two clocks that are years apart, costs precision.
func Summarize(values []time.Duration) Summary {
	n := len(values)
	if n == 0 {
		return Summary{}
	}
	s := Summary{N: n, Min: values[0], Max: values[0]}
	for _, v := range values {
		s.Min, s.Max = min(s.Min, v), max(s.Max, v)
	}
	t := total(values)
	s.Sum, s.Mean = t.saturated(), t.mean()
	if n > 1 {
		s.StdDev = stdDev(values, s.Mean)
	}
	return s
}

// stdDev is the sample standard deviation about the rounded mean. The second sum
// takes out what the rounding left in the first.
func stdDev(values []time.Duration, mean time.Duration) time.Duration {
	var squares, rest float64
	for _, v := range values {
		d := distance(v, mean)
		squares += d * d
		rest += d
	}
	n := float64(len(values))
	variance := (squares - rest*rest/n) / (n - 1)
	return toDuration(math.Sqrt(max(variance, 0)))
}

// distance is v-w in nanoseconds, exact as long as it fits into a float64's 53
// bits, and right to rounding where the subtraction of integers would overflow.
func distance(v, w time.Duration) float64 {
	d := v - w
	if (v >= w) != (d >= 0) {
		return float64(v) - float64(w)
	}
	return float64(d)
}

// toDuration rounds nanoseconds, and stops at the largest Duration.
func toDuration(ns float64) time.Duration {
	if ns >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(math.Round(ns))
}

// exactSum is a sum that cannot overflow: n times quotient plus remainder.
type exactSum struct {
	n                   int64
	quotient, remainder int64
}

// total sums n values as n*quotient + remainder with 0 <= remainder < n. It adds
// them up in 128 bits, each raised by 2^63 so that none is negative.
func total(values []time.Duration) exactSum {
	const raise = 1 << 63
	var high, low, carry uint64
	for _, v := range values {
		low, carry = bits.Add64(low, uint64(v)+raise, 0)
		high += carry
	}
	t := exactSum{n: int64(len(values))}
	if t.n > 0 {
		quotient, remainder := bits.Div64(high, low, uint64(t.n))
		t.quotient, t.remainder = int64(quotient-raise), int64(remainder)
	}
	return t
}

// mean is rounded to the nearest integer, halves away from zero.
func (t exactSum) mean() time.Duration {
	if r := 2 * t.remainder; r > t.n || r == t.n && t.quotient >= 0 {
		return time.Duration(t.quotient + 1)
	}
	return time.Duration(t.quotient)
}

// saturated is the sum, or the Duration next to it where it does not fit.
func (t exactSum) saturated() time.Duration {
	product := t.quotient * t.n
	sum := product + t.remainder
	switch f := t.float(); {
	case f >= math.MaxInt64:
		return math.MaxInt64
	case f <= math.MinInt64:
		return math.MinInt64
	}
	return time.Duration(sum)
}

// float is the sum in nanoseconds.
func (t exactSum) float() float64 {
	f := float64(t.quotient)*float64(t.n) + float64(t.remainder)
	if math.Abs(f) < 1<<62 {
		return float64(t.quotient*t.n + t.remainder) // one rounding only
	}
	return f
}

// seconds is the sum in seconds.
func (t exactSum) seconds() float64 { return t.float() / 1e9 }
