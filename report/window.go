package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/prober"
)

// iperfLines is how many lines of a terminal iperf's histogram may fill.
const iperfLines = 6

// window writes one measured stretch.
func (t *text) window(i int) {
	w := &t.r.Windows[i]
	t.heading(fmt.Sprintf("%s, %s to %s s", t.windowTitle(w.Load), seconds(w.Start), seconds(w.End)))
	d := distsOf(t.r, w)
	t.counts(w)
	if len(w.Samples) == 0 {
		return
	}
	t.table(&d)
	t.rates(w, &d)
	if !t.o.OmitRows {
		t.rows(w)
	}
	t.b.WriteByte('\n')
	t.wrap("  ", "Round trips as the application sees them:")
	drawHistogram(&t.b, d.rtt.sorted, "  ", t.o)
	t.b.WriteByte('\n')
	t.wrap("  ", "The same in the form of iperf 2, in bins of 100 us:")
	// iperf's line is not wrapped: it is there to be compared and copied.
	line, omitted := iperfLine(d.rtt.sorted, iperfLines*t.o.width())
	fmt.Fprintf(&t.b, "  %s\n", line)
	if omitted > 0 {
		t.wrap("  ", fmt.Sprintf("%s more; --format json has all.", plural(omitted, "bin")))
	}
}

func (t *text) windowTitle(l prober.LoadLabel) string {
	switch l {
	case prober.LoadUp:
		return "With load to the server"
	case prober.LoadDown:
		return "With load from the server"
	case prober.LoadBoth:
		return "With load both ways"
	}
	if t.r.Module != nil && t.r.Module.Congest != nil {
		return "Without load"
	}
	return "Bounces"
}

// counts says how much of what was sent came back.
func (t *text) counts(w *prober.Window) {
	s := fmt.Sprintf("%s for %s", plural(len(w.Samples), "bounce"), plural(w.Requests, "request"))
	if len(w.Samples) == 0 {
		s = fmt.Sprintf("no bounce came back for %s", plural(w.Requests, "request"))
	}
	if w.ScheduleLateness.OK {
		s += fmt.Sprintf("; %s skipped, worst lateness of a write %s",
			plural(w.SkippedTicks, "tick"), duration(w.ScheduleLateness.V))
	}
	t.wrap("  ", s+".")
}

// table writes the distributions of a window, one a line, all in one unit.
func (t *text) table(d *windowDists) {
	lines := []struct {
		name   string
		d      *dist
		signed bool // with a plus where it is positive
	}{
		{"RTT", &d.rtt, false},
		{"network RTT", &d.network, false},
		{"server dwell", &d.dwell, false},
		{"receive lateness", &d.lateness, false},
		{"OWD to server", &d.toServer, false},
		{"OWD from server", &d.fromServer, false},
		{"asymmetry", &d.asymmetry, true},
	}
	var largest time.Duration
	most := 0
	for _, l := range lines {
		if l.d.n() > 0 {
			largest = max(largest, l.d.sum.Max.Abs(), l.d.sum.Min.Abs())
			most = max(most, l.d.n())
		}
	}
	u := unitFor(largest)
	var shown []percentile
	for _, p := range percentiles() {
		if most >= p.need {
			shown = append(shown, p)
		}
	}
	const nameWidth, countWidth = 16, 6
	room := t.o.width() - 2 - nameWidth - countWidth
	for len(shown) > 0 && room/(len(shown)+4) < minCell {
		shown = slices.Delete(shown, len(shown)/2, len(shown)/2+1)
	}
	cellWidth := min(9, room/(len(shown)+4))
	cells := func(s ...string) {
		for _, c := range s {
			fmt.Fprintf(&t.b, "%*s", cellWidth, c)
		}
		t.b.WriteByte('\n')
	}
	fmt.Fprintf(&t.b, "  %-*s%*s", nameWidth, u.name, countWidth, "n")
	head := []string{"avg", "min"}
	for _, p := range shown {
		head = append(head, p.label)
	}
	cells(append(head, "max", "stdev")...)
	for _, l := range lines {
		if l.d.n() > 0 {
			fmt.Fprintf(&t.b, "  %-*s%*d", nameWidth, l.name, countWidth, l.d.n())
			cells(tableRow(l.d, shown, u, l.signed, cellWidth)...)
		}
	}
	t.tableNotes(d)
}

// minCell is the narrowest column of the table.
const minCell = 7

// tableRow writes the figures of one distribution, with as many decimals as fit
// into the columns: small figures beside large ones keep their digits.
func tableRow(d *dist, shown []percentile, u unit, signed bool, width int) []string {
	for {
		format := func(v time.Duration) string {
			if s := u.format(v); signed {
				return plus(s)
			} else {
				return s
			}
		}
		row := []string{format(d.sum.Mean), format(d.sum.Min)}
		for _, p := range shown {
			if v, ok := d.at(p); ok {
				row = append(row, format(v))
			} else {
				row = append(row, "-")
			}
		}
		row = append(row, format(d.sum.Max))
		if d.n() > 1 {
			row = append(row, u.format(d.sum.StdDev))
		} else {
			row = append(row, "-")
		}
		tooWide := slices.ContainsFunc(row, func(s string) bool { return len(s) >= width })
		if u.decimals == 0 || !tooWide {
			return row
		}
		u.decimals--
	}
}

// plus marks a positive number as such, so that the sign of an asymmetry is never
// in doubt.
func plus(s string) string {
	if strings.HasPrefix(s, "-") || strings.Trim(s, "0.") == "" {
		return s
	}
	return "+" + s
}

// tableNotes says what the table can't.
func (t *text) tableNotes(d *windowDists) {
	if d.discarded > 0 {
		t.wrap("  ", plural(d.discarded, "bounce")+" without a network RTT: dwell or receive lateness is negative or longer than the round trip.")
	}
	if d.lateness.n() == 0 && d.rtt.n() > 0 {
		t.wrap("  ", "The kernel gave no receive stamps: our own wake-up is still in the network RTT.")
	}
	if d.asymmetry.n() > 0 {
		t.wrap("  ", fmt.Sprintf("Asymmetry is from the server minus to the server, with its sign; iperf 2 prints the mean of its magnitude, here %s.",
			duration(d.absAsymmetry)))
	}
	if honored, ok := holdHonored(t.r, d); ok {
		asked, got := duration(t.r.Module.Hold), duration(d.dwell.median())
		if honored {
			t.wrap("  ", fmt.Sprintf("The hold of %s was honoured: median dwell %s.", asked, got))
		} else {
			t.wrap("  ", fmt.Sprintf("The hold of %s was not honoured: median dwell %s. iperf 2.2.0 and newer servers ignore it.", asked, got))
		}
	}
}

// rates is the rest of iperf's line: bounces per second, retries, window, RTT.
func (t *text) rates(w *prober.Window, d *windowDists) {
	var parts []string
	if v, ok := bouncesPerSecond(&d.rtt); ok {
		parts = append(parts, fmt.Sprintf("%s bounces/s (count / sum of RTT)", threeDigits(v)))
	}
	if w.TCPRetransmits.OK {
		parts = append(parts, plural(int(w.TCPRetransmits.V), "retransmit"))
	}
	if w.TCP != nil {
		if s := cwndText(w.TCP); s != "" {
			parts = append(parts, s)
		}
		if w.TCP.RTT.OK {
			s := "TCP RTT " + duration(w.TCP.RTT.V)
			if w.TCP.RTTVar.OK {
				s += " +- " + duration(w.TCP.RTTVar.V)
			}
			parts = append(parts, s)
		}
	}
	if t.r.TCPMinRTT.OK {
		parts = append(parts, "TCP minimum RTT "+duration(t.r.TCPMinRTT.V))
	}
	if len(parts) > 0 {
		t.wrap("  ", strings.Join(parts, ", ")+".")
	}
}

// rows writes the seconds of a window. A single one would say again what the table
// says.
func (t *text) rows(w *prober.Window) {
	if len(w.Rows) < 2 {
		return
	}
	t.b.WriteByte('\n')
	loaded := t.r.Module != nil && t.r.Module.Congest != nil
	t.b.WriteString(rowHeader(loaded))
	prev := w.Start
	for i := range w.Rows {
		t.b.WriteString(rowLine(&w.Rows[i], time.Duration(w.Rows[i].End-prev), loaded, w.Load))
		prev = w.Rows[i].End
	}
}
