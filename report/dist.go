package report

import (
	"slices"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/prober"
	"github.com/bounceback-exporter/bounceback_exporter/prober/stats"
)

// dist is one distribution of a window, ready to be asked for its figures.
type dist struct {
	sum    stats.Summary
	sorted []time.Duration
}

func newDist(v []time.Duration) dist {
	d := dist{sum: stats.Summarize(v), sorted: slices.Clone(v)}
	slices.Sort(d.sorted)
	return d
}

func (d *dist) n() int { return len(d.sorted) }

// percentile is a quantile that reports show, and the number of values from which
// on it differs from the maximum.
type percentile struct {
	label string  // p99.9
	key   string  // in JSON
	q     float64 // 0 to 1
	need  int
}

func percentiles() []percentile {
	return []percentile{
		{"p50", "p50_seconds", 0.5, 2},
		{"p90", "p90_seconds", 0.9, 10},
		{"p99", "p99_seconds", 0.99, 100},
		{"p99.9", "p99_9_seconds", 0.999, 1000},
	}
}

// at is a percentile, and whether there are values enough for it.
func (d *dist) at(p percentile) (time.Duration, bool) {
	if d.n() < p.need {
		return 0, false
	}
	return stats.Quantile(d.sorted, p.q), true
}

// median is the middle value; d must not be empty.
func (d *dist) median() time.Duration { return stats.Quantile(d.sorted, 0.5) }

// windowDists are the distributions of one window. Those that were not measured
// or may not be published are empty.
type windowDists struct {
	rtt, network, dwell, lateness dist
	toServer, fromServer          dist
	asymmetry                     dist

	// discarded is the number of bounces that have no network RTT.
	discarded int
	// absAsymmetry is the mean of the asymmetry's absolute value, which is what
	// iperf 2.1.8 and newer print.
	absAsymmetry time.Duration
}

// distsOf computes the distributions of w. One-way delays are in it only if the
// clocks allow it.
func distsOf(r *prober.Result, w *prober.Window) windowDists {
	n := len(w.Samples)
	series := func() []time.Duration { return make([]time.Duration, 0, n) }
	rtt, network, dwell, late := series(), series(), series(), series()
	var d windowDists
	for i := range w.Samples {
		s := &w.Samples[i]
		rtt = append(rtt, s.RTT())
		if v, ok := s.PlausibleDwell(); ok {
			dwell = append(dwell, v)
		}
		if v, ok := s.NetworkRTT(); ok {
			network = append(network, v)
		} else {
			d.discarded++
		}
		if v, ok := s.PlausibleLateness(); ok {
			late = append(late, v)
		}
	}
	d.rtt, d.network, d.dwell, d.lateness = newDist(rtt), newDist(network), newDist(dwell), newDist(late)
	if !r.OWDValid() || n == 0 {
		return d
	}
	to, from, asym := series(), series(), series()
	var abs time.Duration
	for i := range w.Samples {
		s := &w.Samples[i]
		to = append(to, s.OWDToServer())
		from = append(from, s.OWDFromServer())
		asym = append(asym, s.Asymmetry())
		abs += s.Asymmetry().Abs()
	}
	d.toServer, d.fromServer, d.asymmetry = newDist(to), newDist(from), newDist(asym)
	d.absAsymmetry = abs / time.Duration(n)
	return d
}

// bouncesPerSecond is the rate as iperf 2 counts it: bounces by the sum of their
// round trips, so pauses of a schedule do not lower it. Not OK without a sum.
func bouncesPerSecond(d *dist) (float64, bool) {
	if d.n() == 0 || d.sum.Sum <= 0 {
		return 0, false
	}
	return float64(d.n()) / d.sum.Sum.Seconds(), true
}

// holdHonored tells whether the server really waited: its median dwell reached
// the hold, less the microsecond that its truncated stamps may lose. Not OK
// without a hold or without a bounce.
func holdHonored(r *prober.Result, d *windowDists) (honored, ok bool) {
	if r.Module.Hold <= 0 || d.dwell.n() == 0 {
		return false, false
	}
	return d.dwell.median() >= r.Module.Hold-time.Microsecond, true
}
