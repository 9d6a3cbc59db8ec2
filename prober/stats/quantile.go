package stats

import (
	"math"
	"time"
)

// Quantile is the q-quantile of ascending values: the smallest of them that at
// least the share q of all values does not exceed (the nearest rank, ceil(q*n)).
// It is always one of the values, never between two, and it lies in the very
// bucket in which PromQL's histogram_quantile looks for it. q below 0 counts as 0,
// which gives the minimum, and above 1 as 1, the maximum. Of no values, or for a q
// that is NaN, it is 0.
func Quantile(sorted []time.Duration, q float64) time.Duration {
	n := len(sorted)
	if n == 0 || math.IsNaN(q) {
		return 0
	}
	// 0.07*100 is a little over 7 in floating point; what is within rounding of a
	// rank is that rank.
	r := math.Ceil(min(max(q, 0), 1)*float64(n) - 1e-9)
	return sorted[min(max(int(r), 1), n)-1]
}
