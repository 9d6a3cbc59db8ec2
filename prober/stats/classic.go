package stats

import (
	"slices"
	"time"
)

// BinClassic counts, for each of the ascending bounds in seconds, the values that
// do not exceed it: the cumulative buckets of a classic histogram, without +Inf.
func BinClassic(values []time.Duration, bounds []float64) []uint64 {
	counts := make([]uint64, len(bounds))
	for _, v := range values {
		// The first bound that is not below the value; a bound is included.
		if i, _ := slices.BinarySearch(bounds, seconds(v)); i < len(counts) {
			counts[i]++
		}
	}
	for i := 1; i < len(counts); i++ {
		counts[i] += counts[i-1]
	}
	return counts
}
