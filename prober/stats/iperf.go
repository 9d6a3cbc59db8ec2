package stats

import (
	"cmp"
	"slices"
	"time"
)

// The bins of iperf 2's bounceback histograms: iperf prints them as
// "bin(w=100us)", and keeps 100000 of them.
const (
	IperfBinWidth = 100 * time.Microsecond
	IperfBins     = 100000
)

// IperfBin is a bin that holds at least one value. Number k covers
// [(k-1)*100, k*100) us.
type IperfBin struct {
	Number int
	Count  int
}

// IperfHistogram is what iperf 2 prints as BB8-PDF, OWD-TX and OWD-RX, computed by
// its rules, odd ones included, so that both can be laid side by side.
type IperfHistogram struct {
	Bins []IperfBin // ascending, none empty
	// N is the number of values, Below and Above included.
	N int
	// P5, P95 and P997 are the numbers of the first bins up to which more than 5,
	// 95 and 99.7 percent of all values lie. Where there is none, P5 is 0 and the
	// others are IperfBins.
	P5, P95, P997 int
	// Outliers is the number of values far above the bulk, by iperf's rule.
	Outliers int
	// Below (iperf's obl) and Above (obu) are the values outside of all bins. Bin 1
	// also takes what is less than 100 us below zero, since iperf truncates toward
	// zero.
	Below, Above int
}

// Iperf bins values as iperf 2 does.
func Iperf(values []time.Duration) IperfHistogram {
	h := IperfHistogram{N: len(values)}
	var counts map[int]int
	if len(values) > 0 {
		counts = make(map[int]int)
	}
	for _, v := range values {
		switch i := iperfIndex(v); {
		case i < 0:
			h.Below++
		case i >= IperfBins:
			h.Above++
		default:
			counts[int(i)+1]++
		}
	}
	h.Bins = make([]IperfBin, 0, len(counts))
	for number, count := range counts {
		h.Bins = append(h.Bins, IperfBin{number, count})
	}
	slices.SortFunc(h.Bins, func(a, b IperfBin) int { return cmp.Compare(a.Number, b.Number) })
	h.points()
	h.outliers()
	return h
}

// iperfIndex is the bin's number less one. iperf 2 keeps the value in single
// precision and truncates toward zero. Each step is rounded by itself: the
// conversions keep compilers from fusing them.
func iperfIndex(v time.Duration) int64 {
	s := float32(seconds(v))
	us := float32(s * 1e6)
	return int64(float32(us / 100))
}

// points finds P5, P95 and P997. Shares are compared as integers.
func (h *IperfHistogram) points() {
	h.P5, h.P95, h.P997 = 0, IperfBins, IperfBins
	var found5, found95, found997 bool
	sum := 0
	for _, b := range h.Bins {
		sum += b.Count
		if !found5 && sum*1000 > h.N*50 {
			h.P5, found5 = b.Number, true
		}
		if !found95 && sum*1000 > h.N*950 {
			h.P95, found95 = b.Number, true
		}
		if !found997 && sum*1000 > h.N*997 {
			h.P997, found997 = b.Number, true
		}
	}
}

// outliers counts the values above a fence of three times the distance between the
// last bin below 10 % and the last one below 90 %, counted from the latter. The
// bin that reaches 90 % sets the fence and is never beyond it, and the fence is
// held against a bin's index, which is its number less one. Where the very first
// bin reaches 90 % there is no fence and nothing is an outlier.
func (h *IperfHistogram) outliers() {
	var low, high, fence, sum int
	h.Outliers = 0
	for _, b := range h.Bins {
		sum += b.Count
		switch {
		case sum*10 < h.N:
			low, high = b.Number, b.Number
		case sum*10 < h.N*9:
			high = b.Number
		case fence == 0:
			fence = high + 3*(high-low)
		case b.Number-1 > fence:
			h.Outliers += b.Count
		}
	}
}
