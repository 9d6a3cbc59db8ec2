package stats

import (
	"math"
	"time"
)

// BinClassic counts, for each of the ascending bounds in seconds, the values that
// do not exceed it: the cumulative buckets of a classic histogram, without +Inf.
func BinClassic(values []time.Duration, bounds []float64) []uint64 {
	counts := make([]uint64, len(bounds)+1)
	if len(bounds) == 0 {
		return counts[:0]
	}
	var room [128]time.Duration // enough for what a configuration may have
	limits := room[:0]
	for _, bound := range bounds {
		limits = append(limits, longestWithin(bound))
	}
	for _, v := range values {
		// The number of limits that are below the value, without a branch that a
		// processor could mispredict.
		i, n := 0, len(limits)
		for n > 1 {
			half := n / 2
			if limits[i+half-1] < v {
				i += half
			}
			n -= half
		}
		if limits[i] < v {
			i++
		}
		counts[i]++
	}
	for i := 1; i < len(counts); i++ {
		counts[i] += counts[i-1]
	}
	return counts[:len(bounds)]
}

// longestWithin is the longest duration that does not exceed a bound in seconds,
// both as a histogram compares them: as float64.
func longestWithin(bound float64) time.Duration {
	switch ns := bound * 1e9; {
	case ns >= math.MaxInt64:
		return math.MaxInt64
	case ns <= math.MinInt64:
		return math.MinInt64
	}
	d := time.Duration(math.Round(bound * 1e9))
	for seconds(d) > bound {
		d--
	}
	for seconds(d+1) <= bound {
		d++
	}
	return d
}
