package stats

import (
	"math"
	"math/bits"
	"slices"
	"time"
)

// Quantile is the q-quantile of ascending values: the smallest of them that at
// least the share q of all values does not exceed (the nearest rank, ceil(q*n)).
// It is always one of the values, never between two, and it lies in the bucket in
// which PromQL's histogram_quantile looks for it; only where q*n is a whole number
// may that take the next value's instead, since from q = 0.5 on it counts from the
// top. q below 0 counts as 0, which gives the minimum, and above 1 as 1, the
// maximum. Of no values, or for a q that is NaN, it is 0.
func Quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 || math.IsNaN(q) {
		return 0
	}
	return sorted[rank(len(sorted), q)]
}

// QuantileOf is Quantile of values in any order, which it changes. For one quantile
// it is several times faster than sorting.
func QuantileOf(values []time.Duration, q float64) time.Duration {
	if len(values) == 0 || math.IsNaN(q) {
		return 0
	}
	k := rank(len(values), q)
	selectRank(values, k)
	return values[k]
}

// rank is the index of a quantile among n ordered values.
func rank(n int, q float64) int {
	// 0.07*100 is a little over 7 in floating point; what is within rounding of a
	// rank is that rank.
	r := math.Ceil(min(max(q, 0), 1)*float64(n) - 1e-9)
	return min(max(int(r), 1), n) - 1
}

// selectRank puts the value with index k of the ascending order there, none greater
// before it and none less behind it. Should the pivots be bad, and a peer's timing
// may make them so, it sorts what is left.
func selectRank(v []time.Duration, k int) {
	low, high := 0, len(v)-1
	for tries := 2 * bits.Len(uint(len(v))); low < high; tries-- {
		if tries == 0 {
			slices.Sort(v[low : high+1])
			return
		}
		a, b, c := v[low], v[low+(high-low)/2], v[high]
		pivot := max(min(a, b), min(max(a, b), c))
		i, j := low, high
		for i <= j {
			for v[i] < pivot {
				i++
			}
			for v[j] > pivot {
				j--
			}
			if i <= j {
				v[i], v[j] = v[j], v[i]
				i++
				j--
			}
		}
		// Now v[low..j] <= pivot <= v[i..high], and what is between them is the pivot.
		switch {
		case k <= j:
			high = j
		case k >= i:
			low = i
		default:
			return
		}
	}
}
