package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/prober/stats"
)

// Limits of a drawn histogram.
const (
	bodyRows = 14 // of the bulk of the values
	tailRows = 5  // above it, each twice as wide as the one before
	// finest is the smallest step of linear bins, as a part of the values: finer
	// borders would have digits that nobody wants to read.
	finest = 1000
	// farthest from zero that borders are laid; no probe lasts that long.
	farthest = 1000 * time.Hour
)

// bin is one row of a drawn histogram: values v with lower <= v < upper. The
// first may be open below, the last open above.
type bin struct {
	lower, upper         time.Duration
	openBelow, openAbove bool
	gap                  bool // empty bins between the one before and this were left out
	count                int
}

// drawBins lays bins over sorted values, so that the bulk is seen in detail and
// nothing is left out. Between the 1st and the 99th percentile the bins are
// equally wide if the values lie within a factor of ten, else they grow evenly on
// a logarithmic scale; what is above that follows in bins that double, what is
// below in one.
func drawBins(sorted []time.Duration) []bin {
	if len(sorted) == 0 {
		return nil
	}
	clamp := func(v time.Duration) time.Duration { return min(max(v, -farthest), farthest) }
	smallest, largest := clamp(sorted[0]), clamp(sorted[len(sorted)-1])
	low, high := smallest, largest
	if len(sorted) >= 20 { // with fewer, one value is more than a percent
		low, high = clamp(stats.Quantile(sorted, 0.01)), clamp(stats.Quantile(sorted, 0.99))
	}
	var edges []time.Duration
	if low > 0 && high > 10*low {
		edges = logEdges(low, high)
	} else {
		edges = linearEdges(low, high)
	}
	var bins []bin
	if smallest < edges[0] {
		bins = append(bins, bin{lower: smallest, upper: edges[0], openBelow: true})
	}
	for i := 1; i < len(edges); i++ {
		bins = append(bins, bin{lower: edges[i-1], upper: edges[i]})
	}
	body := len(bins)
	bins = append(bins, tailBins(edges, largest)...)
	bins[0].openBelow = bins[0].openBelow || sorted[0] < bins[0].lower
	last := &bins[len(bins)-1]
	last.openAbove = sorted[len(sorted)-1] >= last.upper
	fill(bins, sorted)
	return trimEmpty(condense(bins, body))
}

// linearEdges are borders at round numbers, one step of 1, 2 or 5 apart.
func linearEdges(low, high time.Duration) []time.Duration {
	step := roundStep(high-low, max(high.Abs(), low.Abs())/finest)
	first := floorTo(low, step)
	edges := []time.Duration{first}
	for last := first; last <= high; {
		last += step
		edges = append(edges, last)
	}
	return edges
}

// roundStep is the smallest of 1, 2 and 5 times a power of ten nanoseconds that is
// at least the given one and with which a range fits into the body.
func roundStep(width, least time.Duration) time.Duration {
	for p := time.Duration(1); ; p *= 10 {
		for _, m := range []time.Duration{1, 2, 5} {
			// One row may be lost at each end, where the borders are rounded.
			if step := m * p; step >= least && width/step <= bodyRows-2 {
				return step
			}
		}
	}
}

// floorTo rounds toward minus infinity.
func floorTo(v, step time.Duration) time.Duration {
	f := v / step * step
	if f > v {
		f -= step
	}
	return f
}

// logEdges are borders at round numbers on a logarithmic scale, with as many in
// a decade as fit into the body; low must be positive.
func logEdges(low, high time.Duration) []time.Duration {
	scales := [...][]float64{
		{1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8},
		{1, 1.5, 2, 3, 5, 7},
		{1, 2, 5},
		{1},
	}
	var edges []time.Duration
	for _, scale := range scales {
		edges = edges[:0]
		for exp := math.Floor(math.Log10(float64(low))); ; exp++ {
			for _, m := range scale {
				edge := time.Duration(math.Round(m * math.Pow(10, exp)))
				if n := len(edges); n == 1 && edge <= low {
					edges[0] = edge
				} else if n == 0 || edges[n-1] <= high {
					edges = append(edges, edge)
				}
			}
			if edges[len(edges)-1] > high {
				break
			}
		}
		if len(edges) <= bodyRows+1 {
			break
		}
	}
	return edges
}

// tailBins follow the body up to the largest value, each twice as wide as the one
// before.
func tailBins(edges []time.Duration, largest time.Duration) []bin {
	var bins []bin
	lower := edges[len(edges)-1]
	width := lower - edges[len(edges)-2]
	for largest >= lower {
		width *= 2
		bins = append(bins, bin{lower: lower, upper: lower + width})
		lower += width
	}
	return bins
}

// condense drops the empty bins of the tail, and lets the last of those that are
// left take what is beyond it where there are too many. The tail begins at index
// from; its last bin is not empty.
func condense(bins []bin, from int) []bin {
	out := bins[:from]
	gap := false
	for _, b := range bins[from:] {
		switch last := &out[len(out)-1]; {
		case b.count == 0:
			gap = true
		case len(out) == from+tailRows:
			last.openAbove = true
			last.count += b.count
		default:
			b.gap = gap
			gap = false
			out = append(out, b)
		}
	}
	return out
}

// fill counts the values of each bin. The bins touch each other and cover all
// values.
func fill(bins []bin, sorted []time.Duration) {
	start := 0
	for i := range bins {
		end := len(sorted)
		if i < len(bins)-1 {
			end, _ = slices.BinarySearch(sorted, bins[i].upper)
		}
		bins[i].count = end - start
		start = end
	}
}

// trimEmpty cuts empty bins off both ends.
func trimEmpty(bins []bin) []bin {
	filled := func(b bin) bool { return b.count > 0 }
	first := slices.IndexFunc(bins, filled)
	last := len(bins) - 1
	for last > first && !filled(bins[last]) {
		last--
	}
	return bins[first : last+1]
}

// drawHistogram writes bins as bars: range, bar, count and the cumulative share.
func drawHistogram(b *strings.Builder, sorted []time.Duration, indent string, o *Options) {
	bins := drawBins(sorted)
	if len(bins) == 0 {
		return
	}
	labels, unitName := binLabels(bins)
	labelWidth, most := 0, 0
	for i, l := range labels {
		labelWidth = max(labelWidth, len(l))
		most = max(most, bins[i].count)
	}
	countWidth := max(len("count"), len(fmt.Sprint(most)))
	// indent, label, blank, bar, blank, count, blank, 6 columns of "100.0%"
	barWidth := o.width() - len(indent) - labelWidth - countWidth - 9
	fmt.Fprintf(b, "%s%-*s %*s %*s  up to\n", indent, labelWidth, unitName, barWidth, "", countWidth, "count")
	sum := 0
	for i, bin := range bins {
		if bin.gap {
			fmt.Fprintf(b, "%s%*s\n", indent, labelWidth, "...")
		}
		sum += bin.count
		fmt.Fprintf(b, "%s%*s %s %*d %s\n", indent, labelWidth, labels[i],
			bar(bin.count, most, barWidth, o.ASCII), countWidth, bin.count,
			share(sum, len(sorted)))
	}
}

// share is a cumulative percentage in six columns, rounded; but 100.0% is written
// only where nothing is left.
func share(sum, n int) string {
	p := math.Round(float64(sum)/float64(n)*1000) / 10
	if sum < n {
		p = min(p, 99.9)
	}
	return fmt.Sprintf("%5.1f%%", p)
}

// bar is a bar of count out of most in width columns, padded. Whatever was
// counted at all leaves a mark.
func bar(count, most, width int, ascii bool) string {
	if ascii {
		n := (count*width + most/2) / most
		if n == 0 && count > 0 {
			return "." + strings.Repeat(" ", width-1)
		}
		return strings.Repeat("#", n) + strings.Repeat(" ", width-n)
	}
	const eighths = "▏▎▍▌▋▊▉"
	n := (count*width*8 + most/2) / most
	if n == 0 && count > 0 {
		n = 1
	}
	full, part := n/8, n%8
	s := strings.Repeat("█", full)
	used := full
	if part > 0 {
		s += string([]rune(eighths)[part-1])
		used++
	}
	return s + strings.Repeat(" ", width-used)
}

// binLabels names the ranges in one unit, each with just the decimals that its
// borders need.
func binLabels(bins []bin) (labels []string, unitName string) {
	u := unit{"us", time.Microsecond, 0}
	if bins[len(bins)-1].upper >= 10*time.Millisecond {
		u = unit{"ms", time.Millisecond, 0}
	}
	for _, b := range bins {
		switch {
		case b.openBelow:
			labels = append(labels, "below "+u.exactly(b.upper).format(b.upper))
		case b.openAbove:
			labels = append(labels, u.exactly(b.lower).format(b.lower)+" and up")
		default:
			w := u.exactly(b.lower, b.upper)
			labels = append(labels, w.format(b.lower)+" - "+w.format(b.upper))
		}
	}
	return labels, u.name
}

// iperfLine is the histogram in the form that iperf 2 prints, so that both can be
// laid side by side: bins of 100 us, bin k covering [(k-1)*100, k*100) us. Bins
// that begin beyond limit bytes are left out; omitted tells how many.
func iperfLine(v []time.Duration, limit int) (line string, omitted int) {
	h := stats.Iperf(v)
	var b strings.Builder
	fmt.Fprintf(&b, "BB8-PDF: bin(w=100us):cnt(%d)=", h.N)
	for i, bin := range h.Bins {
		if i > 0 {
			b.WriteByte(',')
		}
		if b.Len() > limit {
			omitted = len(h.Bins) - i
			b.WriteString("...")
			break
		}
		fmt.Fprintf(&b, "%d:%d", bin.Number, bin.Count)
	}
	fmt.Fprintf(&b, " (5.00/95.00/99.7%%=%d/%d/%d,Outliers=%d,obl/obu=%d/%d)",
		h.P5, h.P95, h.P997, h.Outliers, h.Below, h.Above)
	return b.String(), omitted
}
