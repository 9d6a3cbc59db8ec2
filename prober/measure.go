package prober

import (
	"errors"
	"fmt"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/prober/wire"
)

// limit217 is how long a connection to 2.1.7 may live: that server ends every
// test 10 s after the latest bounce connection started.
const limit217 = 9 * time.Second

// measure runs the windows on a connection whose first bounce is back.
func (r *run) measure(c *conn, layout wire.Layout) *Error {
	r.enter(PhaseBounce)
	l := r.newLoop(c, layout)
	before := r.clk.mark()
	r.need = 0 // from here on nothing is refused for want of time
	var err *Error
	if r.m.Congest != nil {
		err = r.congested(l)
	} else {
		err = r.window(l, LoadNone, r.m.Duration)
	}
	if r.m.TripTimes {
		r.res.Clock = clockOf(r.res.First, r.res.Windows, Some(r.clk.mark().stepSince(before)))
	}
	return err
}

func (r *run) newLoop(c *conn, layout wire.Layout) *loop {
	l := &loop{
		c: c, clk: r.clk, layout: layout, msg: r.message(layout, false),
		req: make([]byte, r.m.Size), reply: make([]byte, r.m.EffectiveReplySize()),
		id: 1, quick: r.m.QuickAck, until: r.until,
		period: int64(r.m.Period), burst: r.m.Burst,
	}
	_ = l.msg.PutRequest(l.req) // was fine for the first message
	total := r.testDuration()
	if total == 0 {
		total = time.Duration(r.until - r.clk.mono())
	}
	l.rows.prepare(total, r.job.Live)
	return l
}

// window measures one stretch and keeps it, also if it broke.
func (r *run) window(l *loop, load LoadLabel, duration time.Duration) *Error {
	w := Window{Load: load, Samples: make([]Sample, 0, samplesFor(r.m, duration))}
	if r.m.Period > 0 {
		w.ScheduleLateness.OK = true
	}
	var atStart TCPInfo
	l.c.tcpInfo(&atStart)
	s := stretch{count: r.m.Count, keep: true}
	cut := false
	now := r.clk.mono()
	if l.layout == wire.LayoutA && duration/2 > limit217 {
		return &Error{r.phase, ReasonUnsupported, fmt.Errorf("iperf 2.1.7 ends every test after 10 s, and the module's duration is %v", duration)}
	}
	if duration > 0 {
		s.end, cut = r.fit(now, duration, l.layout)
	} else if l.layout == wire.LayoutA {
		s.end = r.ends217()
	}
	l.rows.begin(len(r.res.Windows), now, s.end)

	err := l.run(&w, s)
	if err == nil && r.m.Congest != nil {
		err = l.sitOut(s.end)
	}

	w.End = r.clk.mono()
	l.rows.close(l.c, w.End)
	w.Rows = l.rows.of(len(r.res.Windows))
	var info TCPInfo
	if l.c.tcpInfo(&info) {
		w.TCP = &info
		if a, b := atStart.TotalRetransmits, info.TotalRetransmits; a.OK && b.OK {
			w.TCPRetransmits = Some(b.V - a.V)
		}
		r.res.TCPMinRTT = info.MinRTT
	}
	r.res.Windows = append(r.res.Windows, w)
	what := "bounced"
	if r.m.Congest != nil {
		what = "load " + string(load)
	}
	r.logf("%s: %d requests, %d replies", what, w.Requests, len(w.Samples))
	switch {
	case err != nil:
		return r.bounceError(err)
	case cut:
		return &Error{r.phase, ReasonTimeout, fmt.Errorf("less than half of the %v that were asked for fitted before the deadline", duration)}
	case len(w.Samples) == 0:
		return &Error{r.phase, ReasonTimeout, errors.New("no bounce after the first fitted before the deadline")}
	}
	return nil
}

// fit is the end of a window that is to last for duration: before the deadline,
// with room for the bounce under way. cut tells that less than half is left, so
// that the window can only end in a failure.
func (r *run) fit(now int64, duration time.Duration, layout wire.Layout) (end int64, cut bool) {
	end = min(now+int64(duration), r.until-int64(r.reserve()))
	if layout == wire.LayoutA {
		end = min(end, r.ends217())
	}
	return end, end-now < int64(duration)/2
}

// reserve is the room to leave before the deadline for the bounce under way.
func (r *run) reserve() time.Duration { return 20*time.Millisecond + 2*r.res.First.RTT() }

// bounceError makes an *Error of what ended the loop.
func (r *run) bounceError(err error) *Error {
	var format *wire.FormatError
	var short *wire.ShortError
	var id *badID
	if errors.As(err, &format) || errors.As(err, &short) || errors.As(err, &id) {
		return &Error{r.phase, ReasonBadReply, err}
	}
	return r.fail(err, ReasonTimeout)
}

// ends217 is when a test on a 2.1.7 server has to be over. The handshake's first
// write is when its connection started, near enough.
func (r *run) ends217() int64 { return r.res.First.Sent + int64(limit217) }

// samplesFor is how many samples a window can have at most.
func samplesFor(m *config.Module, duration time.Duration) int {
	n := m.Count
	if m.Period > 0 {
		if duration == 0 {
			duration = m.Timeout
		}
		n = int(min(int64(n), (int64(duration/m.Period)+2)*int64(m.Burst)))
	}
	return n
}
