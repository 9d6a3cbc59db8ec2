package collector

import (
	"slices"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/prober"
	"github.com/bounceback-exporter/bounceback_exporter/prober/stats"
)

// windows adds what was measured in each window. A result has at most one window of
// each load.
func (b *builder) windows(r *prober.Result) {
	longest, histograms := 0, 2
	for i := range r.Windows {
		longest = max(longest, len(r.Windows[i].Samples))
	}
	if longest == 0 {
		histograms = 0
	} else if r.OWDValid() {
		histograms = 5
	}
	b.growHistograms(histograms * len(r.Windows))
	v := values{scratch: make([]time.Duration, 0, longest)}
	for i := range r.Windows {
		v.window = &r.Windows[i]
		b.window(r, v.window, &v)
	}
}

// window adds what was measured in one window.
func (b *builder) window(r *prober.Result, w *prober.Window, v *values) {
	load := b.label(labelLoad, string(w.Load))
	b.gauge(famRequests, float64(w.Requests), load)
	b.gauge(famReplies, float64(len(w.Samples)), load)
	b.gauge(famSkippedTicks, float64(w.SkippedTicks), load)
	b.optionalDuration(famScheduleLateness, w.ScheduleLateness, load)
	if w.TCP != nil {
		b.optionalDuration(famTCPRTT, w.TCP.RTT, load)
		b.optionalDuration(famTCPRTTVar, w.TCP.RTTVar, load)
		optionalNumber(b, famTCPCongestionWindow, w.TCP.CongestionWindow, load)
	}
	optionalNumber(b, famTCPRetransmits, w.TCPRetransmits, load)
	if r.Module == nil || len(w.Samples) == 0 {
		return
	}

	delays := delayShape(&r.Module.Histograms)
	rtt := v.all((*prober.Sample).RTT)
	b.histogram(famRTT, delays, rtt, load)
	b.duration(famRTTMin, slices.Min(rtt), load)
	b.duration(famRTTMax, slices.Max(rtt), load)

	network := v.valid((*prober.Sample).NetworkRTT)
	b.gauge(famNetworkRTTDiscarded, float64(len(w.Samples)-len(network)), load)
	if len(network) > 0 {
		b.histogram(famNetworkRTT, delays, network, load)
		b.duration(famNetworkRTTMin, slices.Min(network), load)
		b.duration(famNetworkRTTMax, slices.Max(network), load)
	}

	if dwell := v.valid((*prober.Sample).PlausibleDwell); len(dwell) > 0 {
		s := stats.Summarize(dwell)
		b.duration(famServerDwell, s.Mean, load)
		b.duration(famServerDwellMax, s.Max, load)
	}
	if late := v.valid((*prober.Sample).PlausibleLateness); len(late) > 0 {
		b.duration(famReceiveLateness, slices.Max(late), load)
		b.duration(famReceiveLatenessP99, stats.QuantileOf(late, 0.99), load)
	}
	if r.OWDValid() {
		b.oneWay(r, w, v)
	}
}

// oneWay adds one-way delays and asymmetry.
func (b *builder) oneWay(r *prober.Result, w *prober.Window, v *values) {
	delays := delayShape(&r.Module.Histograms)
	b.expected *= 2
	for _, d := range []struct {
		direction string
		of        func(*prober.Sample) time.Duration
	}{
		{fromServer, (*prober.Sample).OWDFromServer},
		{toServer, (*prober.Sample).OWDToServer},
	} {
		labels := b.label(labelDirection, d.direction, labelLoad, string(w.Load))
		owd := v.all(d.of)
		b.histogram(famOWD, delays, owd, labels)
		b.duration(famOWDMin, slices.Min(owd), labels)
		b.duration(famOWDMax, slices.Max(owd), labels)
	}
	b.expected /= 2
	b.histogram(famAsymmetry, asymmetryShape(&r.Module.Histograms),
		v.all((*prober.Sample).Asymmetry), b.label(labelLoad, string(w.Load)))
}

// hold tells whether the server did as it was asked: iperf 2.2.0 and newer take
// the hold and ignore it. Server stamps are truncated to the microsecond, so that
// a true hold can seem up to one short.
func (b *builder) hold(r *prober.Result) {
	if r.Module == nil || r.Module.Hold <= 0 {
		return
	}
	n := 0
	for i := range r.Windows {
		n += len(r.Windows[i].Samples)
	}
	dwell := make([]time.Duration, 0, n)
	for i := range r.Windows {
		for j := range r.Windows[i].Samples {
			if d, ok := r.Windows[i].Samples[j].PlausibleDwell(); ok {
				dwell = append(dwell, d)
			}
		}
	}
	if len(dwell) == 0 {
		return
	}
	b.truth(famHoldHonored, stats.QuantileOf(dwell, 0.5) >= r.Module.Hold-time.Microsecond, nil)
}

// values extracts one measure after the other from a window's samples; each use
// overwrites what the one before returned.
type values struct {
	window  *prober.Window
	scratch []time.Duration
}

func (v *values) all(of func(*prober.Sample) time.Duration) []time.Duration {
	v.scratch = v.scratch[:0]
	for i := range v.window.Samples {
		v.scratch = append(v.scratch, of(&v.window.Samples[i]))
	}
	return v.scratch
}

func (v *values) valid(of func(*prober.Sample) (time.Duration, bool)) []time.Duration {
	v.scratch = v.scratch[:0]
	for i := range v.window.Samples {
		if d, ok := of(&v.window.Samples[i]); ok {
			v.scratch = append(v.scratch, d)
		}
	}
	return v.scratch
}
