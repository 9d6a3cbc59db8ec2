package report

import (
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/prober"
	"github.com/bounceback-exporter/bounceback_exporter/prober/stats"
)

func windowOf(r *prober.Result, w *prober.Window) windowJSON {
	d := distsOf(r, w)
	j := windowJSON{
		Load:                    string(w.Load),
		StartSeconds:            decimal(w.Start),
		EndSeconds:              decimal(w.End),
		Requests:                w.Requests,
		Replies:                 len(w.Samples),
		ScheduleLatenessSeconds: optionalSeconds(w.ScheduleLateness),
		RTT:                     distOf(&d.rtt),
		NetworkRTT:              distOf(&d.network),
		NetworkRTTDiscarded:     d.discarded,
		ServerDwell:             distOf(&d.dwell),
		ReceiveLateness:         distOf(&d.lateness),
		OWDToServer:             distOf(&d.toServer),
		OWDFromServer:           distOf(&d.fromServer),
		Asymmetry:               distOf(&d.asymmetry),
		TCP:                     tcpOf(w.TCP),
		TCPRetransmits:          optional(w.TCPRetransmits),
		Histogram:               binsOf(d.rtt.sorted),
		Rows:                    rowsOf(w),
	}
	if !r.Module.BackToBack() {
		j.SkippedTicks = &w.SkippedTicks
	}
	if v, ok := bouncesPerSecond(&d.rtt); ok {
		j.BouncesPerSecond = &v
	}
	if v, ok := holdHonored(r, &d); ok {
		j.HoldHonored = &v
	}
	if d.asymmetry.n() > 0 {
		v := decimal(d.absAsymmetry)
		j.AbsoluteAsymmetry = &v
	}
	return j
}

// distOf is nil for a distribution without values.
func distOf(d *dist) *distJSON {
	if d.n() == 0 {
		return nil
	}
	j := &distJSON{
		Count:       d.n(),
		SumSeconds:  decimal(d.sum.Sum),
		MeanSeconds: decimal(d.sum.Mean),
		MinSeconds:  decimal(d.sum.Min),
		MaxSeconds:  decimal(d.sum.Max),
	}
	if d.n() > 1 {
		v := decimal(d.sum.StdDev)
		j.StdDevSeconds = &v
	}
	places := [...]**decimal{&j.P50Seconds, &j.P90Seconds, &j.P99Seconds, &j.P999Seconds}
	for i, p := range percentiles() {
		if v, ok := d.at(p); ok {
			s := decimal(v)
			*places[i] = &s
		}
	}
	return j
}

func binsOf(v []time.Duration) *binsJSON {
	if len(v) == 0 {
		return nil
	}
	h := stats.Iperf(v)
	j := &binsJSON{
		BinWidthSeconds: decimal(stats.IperfBinWidth),
		Count:           h.N,
		Bins:            make([]binJSON, len(h.Bins)),
		P5Bin:           h.P5,
		P95Bin:          h.P95,
		P997Bin:         h.P997,
		Outliers:        h.Outliers,
		Below:           h.Below,
		Above:           h.Above,
	}
	for i, b := range h.Bins {
		j.Bins[i] = binJSON{b.Number, b.Count}
	}
	return j
}

func rowsOf(w *prober.Window) []rowJSON {
	var out []rowJSON
	prev := w.Start
	for i := range w.Rows {
		row := &w.Rows[i]
		j := rowJSON{
			EndSeconds:      decimal(row.End),
			DurationSeconds: decimal(row.End - prev),
			Replies:         row.Replies,
			TCP:             tcpOf(&row.TCP),
		}
		if row.Replies > 0 {
			mean := decimal(row.RTTSum / time.Duration(row.Replies))
			most := decimal(row.RTTMax)
			j.RTTMeanSeconds, j.RTTMaxSeconds = &mean, &most
		}
		if w.Load == prober.LoadUp || w.Load == prober.LoadBoth {
			j.LoadBytesTo = &row.LoadUp
		}
		if w.Load == prober.LoadDown || w.Load == prober.LoadBoth {
			j.LoadBytesFrom = &row.LoadDown
		}
		out = append(out, j)
		prev = row.End
	}
	return out
}

// oneWayDelaysOf is nil where nobody asked for them.
func oneWayDelaysOf(r *prober.Result) *oneWayDelaysJSON {
	if r.Module == nil || !r.Module.TripTimes {
		return nil
	}
	return &oneWayDelaysJSON{Valid: r.OWDValid(), Withheld: WithheldOWD(r)}
}

func clockOf(c *prober.Clock) *clockJSON {
	if c == nil {
		return nil
	}
	return &clockJSON{
		CheckOK:               c.OK(),
		CheckFailures:         c.Failures,
		OffsetLowerSeconds:    decimal(c.LowerBound),
		OffsetUpperSeconds:    decimal(c.UpperBound),
		StepSeconds:           optionalSeconds(c.Step),
		Synchronized:          optional(c.Synchronized),
		MaxErrorSeconds:       optionalSeconds(c.MaxError),
		EstimatedErrorSeconds: optionalSeconds(c.EstimatedError),
	}
}

func loadOf(l *prober.Load) *loadJSON {
	if l == nil {
		return nil
	}
	return &loadJSON{
		Direction:         string(l.Direction),
		Streams:           l.Streams,
		Started:           l.Started,
		DurationSeconds:   decimal(l.Duration),
		ToServerBytes:     optional(l.BytesToServer),
		FromServerBytes:   optional(l.BytesFromServer),
		TCPRTTMeanSeconds: optionalSeconds(l.TCPRTTMean),
		TCPRTTMaxSeconds:  optionalSeconds(l.TCPRTTMax),
		TCPRetransmits:    optional(l.TCPRetransmits),
	}
}
