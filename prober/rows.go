package prober

import "time"

// rowEvery is the length of a row: iperf's -i 1.
const rowEvery = int64(time.Second)

// rowRest is the shortest row worth having: what is left of a window after its
// last whole second belongs to that second's row if it is shorter.
const rowRest = int64(50 * time.Millisecond)

// maxRows bounds the memory of rows: an hour's.
const maxRows = 3600

// rows collects one row a second into memory set aside before, and shows them to
// whoever watches.
type rows struct {
	on     bool
	rows   []Row // len: finished rows
	cur    Row
	due    int64 // when the current row ends
	end    int64 // when the window does; 0: by its count
	live   *Live
	window int
	loads  func(*Row) // fills in the load streams' bytes; nil: none
}

// prepare sets memory aside for a test of the given length.
func (r *rows) prepare(total time.Duration, live *Live) {
	if total <= time.Duration(rowEvery) {
		return
	}
	r.on = true
	total = min(total, maxRows*time.Duration(rowEvery))
	r.rows = make([]Row, 0, int(total/time.Duration(rowEvery))+8)
	r.live = live
	if live != nil {
		all := r.rows[:cap(r.rows)]
		live.rows.Store(&all)
	}
}

// begin starts the rows of a window that is to end at end, or 0.
func (r *rows) begin(window int, now, end int64) {
	r.window, r.end = window, end
	r.cur = Row{Window: window}
	r.due = now + rowEvery
}

// add counts a bounce, after its row was closed if that was due.
func (r *rows) add(c *conn, s *Sample) {
	if !r.on {
		return
	}
	if s.Received >= r.due && (r.end == 0 || r.end-r.due >= rowRest) {
		r.close(c, s.Received)
		r.due += (s.Received - r.due + rowEvery) / rowEvery * rowEvery
	}
	rtt := s.RTT()
	r.cur.Replies++
	r.cur.RTTSum += rtt
	r.cur.RTTMax = max(r.cur.RTTMax, rtt)
}

// sitOut waits for the end of a window with a load. A count limits the bounces of
// such a window, but never shortens it, and its seconds go on having their rows.
func (l *loop) sitOut(end int64) error {
	r := &l.rows
	for now := l.clk.mono(); now < end; now = l.clk.mono() {
		until := end
		if r.on && end-r.due >= rowRest {
			until = r.due
		}
		if err := l.c.sleepUntil(until, now, l.until); err != nil {
			return err
		}
		if until < end { // the last row is closed with the window
			r.close(l.c, l.clk.mono())
			r.due += rowEvery
		}
	}
	return nil
}

// close finishes the current row. Beyond the memory set aside nothing is kept.
func (r *rows) close(c *conn, now int64) {
	if !r.on || len(r.rows) == cap(r.rows) {
		return
	}
	r.cur.End = now
	c.tcpInfo(&r.cur.TCP)
	if r.loads != nil {
		r.loads(&r.cur)
	}
	r.rows = append(r.rows, r.cur)
	if r.live != nil {
		r.live.n.Store(int32(len(r.rows)))
	}
	r.cur = Row{Window: r.window}
}

// of returns the finished rows of a window.
func (r *rows) of(window int) []Row {
	var out []Row
	for _, row := range r.rows {
		if row.Window == window {
			out = append(out, row)
		}
	}
	return out
}
