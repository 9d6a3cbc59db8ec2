package prober

import (
	"testing"
	"time"
)

// A test of two seconds has two rows, not a third one for its last bounce.
func TestRowsOfWholeSeconds(t *testing.T) {
	for _, c := range []struct {
		lasts time.Duration
		end   bool // by the clock
		rows  int  // closed before the window's own end
	}{
		{2 * time.Second, true, 1},
		{2*time.Second + 20*time.Millisecond, true, 1},
		{2*time.Second + 80*time.Millisecond, true, 2},
		{2*time.Second + 20*time.Millisecond, false, 2},
	} {
		var r rows
		r.prepare(c.lasts, nil)
		end := int64(0)
		if c.end {
			end = int64(c.lasts)
		}
		r.begin(0, 0, end)
		bounces := 0
		for at := time.Duration(0); at <= c.lasts; at += 10 * time.Millisecond {
			r.add(&conn{fd: -1}, &Sample{Sent: int64(at), Received: int64(at)})
			bounces++
		}
		if got := len(r.of(0)); got != c.rows {
			t.Errorf("%v, by the clock: %v: %d rows were closed, want %d", c.lasts, c.end, got, c.rows)
		}
		for _, row := range r.of(0) {
			bounces -= row.Replies
		}
		if bounces != r.cur.Replies {
			t.Errorf("%v: %d bounces are in no row", c.lasts, bounces-r.cur.Replies)
		}
	}
}
