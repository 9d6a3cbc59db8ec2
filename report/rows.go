package report

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/prober"
)

// rowHeader names the columns of rowLine.
func rowHeader(loaded bool) string {
	s := fmt.Sprintf("  %7s %6s %8s %8s %5s %8s", "sec", "count", "avg", "max", "cwnd", "TCP RTT")
	if loaded {
		s += fmt.Sprintf(" %-4s  %11s  %11s", "load", "to server", "from server")
	}
	return s + "\n"
}

// rowLine is one second of a test, as iperf's -i 1 prints it. length is how long
// the row really was: the last one of a window can be short.
func rowLine(r *prober.Row, length time.Duration, loaded bool, load prober.LoadLabel) string {
	avg, most := "-", "-"
	if r.Replies > 0 {
		avg, most = duration(r.RTTSum/time.Duration(r.Replies)), duration(r.RTTMax)
	}
	cwnd, rtt := "-", "-"
	if r.TCP.CongestionWindow.OK {
		cwnd = fmt.Sprint(r.TCP.CongestionWindow.V)
	}
	if r.TCP.RTT.OK {
		rtt = duration(r.TCP.RTT.V)
	}
	s := fmt.Sprintf("  %7s %6d %8s %8s %5s %8s", seconds(r.End), r.Replies, avg, most, cwnd, rtt)
	if loaded {
		up, down := "-", "-"
		if load == prober.LoadUp || load == prober.LoadBoth {
			up = bitRate(uint64(max(r.LoadUp, 0)), length)
		}
		if load == prober.LoadDown || load == prober.LoadBoth {
			down = bitRate(uint64(max(r.LoadDown, 0)), length)
		}
		s += fmt.Sprintf(" %-4s  %11s  %11s", load, up, down)
	}
	return s + "\n"
}

// followInterval is how often Follow looks for new rows.
const followInterval = 100 * time.Millisecond

// Follow writes the rows of a running test as they come, until ctx is done; rows
// that are there by then are written too. rows is prober.Live's Rows, m the
// module of the test. It tells whether it wrote anything, so that the report need
// not repeat it. Of a test that was over within its first second nothing is
// written.
func Follow(ctx context.Context, w io.Writer, rows func() []prober.Row, m *config.Module) bool {
	tick := time.NewTicker(followInterval)
	defer tick.Stop()
	f := follower{w: w, m: m}
	for {
		select {
		case <-ctx.Done():
			if last := rows(); f.done > 0 || len(last) > 1 {
				f.write(last)
			}
			return f.done > 0
		case <-tick.C:
			f.write(rows())
		}
	}
}

// follower remembers which rows were written.
type follower struct {
	w    io.Writer
	m    *config.Module
	done int
	prev prober.Row
}

// write appends the rows that are new. An error of the writer is not reported: it
// will come up again when the report is written.
func (f *follower) write(rows []prober.Row) {
	loaded := f.m.Congest != nil
	for ; f.done < len(rows); f.done++ {
		r := &rows[f.done]
		if f.done == 0 {
			_, _ = io.WriteString(f.w, rowHeader(loaded))
		}
		// The start of a window is not known here; its first row is a second long.
		length := time.Second
		if f.done > 0 && r.Window == f.prev.Window {
			length = time.Duration(r.End - f.prev.End)
		}
		_, _ = io.WriteString(f.w, rowLine(r, length, loaded, f.load(r.Window)))
		f.prev = *r
	}
}

// load is what runs beside the bounces of a window: with a baseline, the first
// window has none.
func (f *follower) load(window int) prober.LoadLabel {
	c := f.m.Congest
	if c == nil || c.Baseline > 0 && window == 0 {
		return prober.LoadNone
	}
	return prober.LoadLabel(c.Direction)
}
