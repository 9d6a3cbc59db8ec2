package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/prober"
)

// load writes what the load streams did, and what that did to the bounces.
func (t *text) load() {
	l := t.r.Load
	if l == nil {
		return
	}
	if !l.Started {
		t.heading("Load")
		t.wrap("  ", "The load did not start.")
		return
	}
	each := ""
	if l.Direction == prober.LoadBoth {
		each = ", each full duplex"
	}
	t.heading(fmt.Sprintf("Load, %s%s, %s measured", plural(l.Streams, "stream"), each, duration(l.Duration)))
	if l.BytesToServer.OK {
		s := byteCount(l.BytesToServer.V) + rateSuffix(l.BytesToServer.V, l.Duration)
		if l.TCPRTTMean.OK {
			s += ", TCP RTT mean " + duration(l.TCPRTTMean.V)
		}
		if l.TCPRTTMax.OK {
			s += ", max " + duration(l.TCPRTTMax.V)
		}
		if l.TCPRetransmits.OK {
			s += ", " + plural(int(l.TCPRetransmits.V), "retransmit")
		}
		t.field("to server", s)
	}
	if l.BytesFromServer.OK {
		t.field("from server", byteCount(l.BytesFromServer.V)+rateSuffix(l.BytesFromServer.V, l.Duration))
	}
	if s := t.loadEffect(); s != "" {
		t.field("round trips", s)
	}
}

func rateSuffix(n uint64, d time.Duration) string {
	if s := bitRate(n, d); s != "" {
		return ", " + s
	}
	return ""
}

// loadEffect compares the loaded window with the idle one.
func (t *text) loadEffect() string {
	var idle, loaded *prober.Window
	for i := range t.r.Windows {
		w := &t.r.Windows[i]
		switch {
		case len(w.Samples) == 0:
		case w.Load == prober.LoadNone:
			idle = w
		default:
			loaded = w
		}
	}
	if loaded == nil {
		return ""
	}
	under := distsOf(t.r, loaded)
	var parts []string
	if idle != nil {
		before := distsOf(t.r, idle)
		for _, p := range percentiles() {
			a, okA := before.rtt.at(p)
			b, okB := under.rtt.at(p)
			if okA && okB && p.q != 0.9 {
				parts = append(parts, fmt.Sprintf("%s %s", p.label, signedDuration(b-a)))
			}
		}
	}
	s := ""
	if len(parts) > 0 {
		s = strings.Join(parts, ", ") + " against idle; "
	}
	if mean := under.rtt.sum.Mean; mean > 0 {
		s += fmt.Sprintf("%s responses per minute under load (60 s / mean RTT)",
			threeDigits(time.Minute.Seconds()/mean.Seconds()))
	}
	return strings.TrimSuffix(s, "; ")
}
