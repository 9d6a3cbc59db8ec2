package prober

import (
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/prober/wire"
)

const (
	// loadProof is how long a load stream may take to prove that it started.
	loadProof = 2 * time.Second
	// loadSlack is added to the time that a load asks the server for, beyond what
	// opening its streams should take: none may stop before the window does.
	loadSlack = time.Second
	// notSentLowat bounds what a sender has queued but not sent: without it, write
	// runs megabytes ahead of a slow link.
	notSentLowat = 128 << 10
	// loadPatience is added to a load's drain: what is queued on a slow path has to
	// get through first.
	loadPatience = 10 * time.Second
	// loadSettle is how long a server up to 2.1.8 is left alone after the end of a
	// load that it sent, beyond the pause between two connections. There its FIN comes
	// before it clears up: one in a hundred times a wake-up is lost, its thread sleeps
	// on for a second, and meanwhile a connection from the same source address is given
	// what was freed. Connected to after 500 ms it crashed or hung in 3 of 578 tests,
	// after 1.2 s in none of 1280.
	loadSettle = 1100 * time.Millisecond
)

// load is the streams that fill the path while the bounces go on.
type load struct {
	r       *run
	label   LoadLabel
	dir     wire.Direction
	streams []*loadStream
	engine  *engine

	begun  int64 // monotonic ns at which the measured window began
	atRow  loadBytes
	before []TCPInfo
}

// loadStream is one of them.
type loadStream struct {
	c      *conn
	ends   int64 // monotonic ns after which the server has stopped sending by itself
	reads  bool
	writes bool
	proved bool // the server has taken it
	over   bool // the server has ended it
}

// loadBytes is the sum over all streams.
type loadBytes struct{ up, down uint64 }

func loadDirection(s string) (wire.Direction, LoadLabel) {
	switch s {
	case "up":
		return wire.Up, LoadUp
	case "down":
		return wire.Down, LoadDown
	}
	return wire.Both, LoadBoth
}

// congested runs the windows of a module with a load: the baseline without, then
// warm-up and measured window with it.
func (r *run) congested(l *loop) *Error {
	cg := r.m.Congest
	baseline, warmup, duration, err := r.scale(cg.Baseline, cg.Warmup, r.m.Duration)
	if err != nil {
		return err
	}
	if baseline > 0 {
		if err := r.window(l, LoadNone, baseline); err != nil {
			return err
		}
	}
	ld, err := r.startLoad(warmup + duration)
	defer ld.end()
	if err != nil {
		return err
	}
	if warmup > 0 {
		var w Window
		s := stretch{end: r.clk.mono() + int64(warmup), count: math.MaxInt}
		err := l.run(&w, s)
		if err == nil { // the last tick is over, but not the warm-up
			err = l.c.sleepUntil(s.end, r.clk.mono(), r.until)
		}
		if err != nil {
			return ld.verdict(r.bounceError(err))
		}
		r.logf("warm-up: %d bounces", w.Requests)
	}
	ld.begin()
	l.rows.loads = ld.fillRow
	err = r.window(l, ld.label, duration)
	ld.finish()
	return ld.verdict(err)
}

// verdict is the outcome of a loaded stretch that ended with err. A stream that
// broke ends the bounces too, so that none is counted as loaded that was not.
func (ld *load) verdict(err *Error) *Error {
	broken := ld.engine.broken()
	switch {
	case broken == nil:
		return err
	case err == nil, err.Reason == ReasonClosedEarly, err.Reason == ReasonCancelled && ld.r.ctx.Err() == nil:
	default:
		return err
	}
	if broken == io.EOF {
		broken = errors.New("the server ended it")
	}
	return ld.r.loadFailed(fmt.Errorf("a load stream broke during the test: %w", broken))
}

// scale shrinks the parts of a test alike where the deadline leaves less than
// their sum and the opening of the load's streams. Less than half of them is an
// error.
func (r *run) scale(baseline, warmup, duration time.Duration) (_, _, _ time.Duration, _ *Error) {
	sum := baseline + warmup + duration
	left := time.Duration(r.until-r.clk.mono()) - r.reserve() - r.loadSetup()
	if left >= sum {
		return baseline, warmup, duration, nil
	}
	if left < sum/2 {
		return 0, 0, 0, &Error{r.phase, ReasonTimeout, fmt.Errorf("less than half of the %v that were asked for fitted before the deadline", sum)}
	}
	f := float64(left) / float64(sum)
	part := func(d time.Duration) time.Duration { return time.Duration(f * float64(d)) }
	return part(baseline), part(warmup), part(duration), nil
}

// loadSetup is what opening the streams should take: one after the other, with a
// round trip each for the connect and for the proof that the load started.
func (r *run) loadSetup() time.Duration {
	return time.Duration(r.m.Congest.Streams) * 2 * r.res.Connect.Duration
}

func (r *run) loadFailed(cause error) *Error {
	return &Error{r.phase, ReasonLoadFailed, cause}
}

// startLoad opens the streams one after the other and lets them run. The load is
// never nil, and end is due also after an error.
func (r *run) startLoad(duration time.Duration) (*load, *Error) {
	ld := &load{r: r}
	ld.dir, ld.label = loadDirection(r.m.Congest.Direction)
	r.res.Load = &Load{Direction: ld.label, Streams: r.m.Congest.Streams}
	eng, err := newEngine(r.ctx, r.stop)
	if err != nil {
		return ld, r.fail(err, ReasonLoadFailed)
	}
	ld.engine = eng
	setup := r.loadSetup() + loadSlack
	T := duration + setup
	for range r.m.Congest.Streams {
		if err := ld.open(T); err != nil {
			return ld, err
		}
		r.res.Load.Started = true
	}
	// The first stream's time runs since its header.
	if took := T - time.Duration(ld.streams[0].ends-r.clk.mono()); took > setup {
		return ld, r.loadFailed(fmt.Errorf("it took %v to start %d load streams, more than the %v that are allowed for it", took.Round(time.Millisecond), r.m.Congest.Streams, setup.Round(time.Millisecond)))
	}
	eng.start(ld.streams)
	r.logf("load %s started, streams: %d; the server was asked for %v, a margin included", ld.label, len(ld.streams), T.Round(time.Millisecond))
	return ld, nil
}

// open makes one stream: connect and header are one act, as a first message is,
// and then the server has to prove that it took the load: by its ack, or by the
// first byte of its own.
func (ld *load) open(T time.Duration) *Error {
	r, cg := ld.r, ld.r.m.Congest
	o := bounceDial(r.job.Addr, r.m)
	o.tos, o.congestionControl, o.stamps = cg.DSCP<<2, cg.CongestionControl, false
	if ld.dir != wire.Down {
		o.notSentLowat = notSentLowat
	}
	c, err := r.open(PhaseBounce, o)
	if err != nil {
		if err.Reason == ReasonConnectTimeout || err.Reason == ReasonConnectRefused {
			err.Reason = ReasonLoadFailed
		}
		return err
	}
	hdr := wire.TestHeader{Direction: ld.dir, Ack: ld.dir == wire.Up, Duration: T, TOS: cg.DSCP << 2}
	buf := make([]byte, wire.TestHeaderLen)
	_ = hdr.Put(buf) // can't fail: the buffer has the length
	s := &loadStream{c: c, reads: ld.dir != wire.Up, writes: ld.dir != wire.Down}
	n, werr := c.send(buf, r.clk.mono(), r.until)
	s.ends = r.clk.mono() + int64(T)
	if werr != nil {
		ld.abandon(s, buf[n:])
		return r.fail(werr, ReasonLoadFailed)
	}
	proof, what := 1, "no byte of a load came"
	if ld.dir == wire.Up {
		proof, what = wire.AckLen, "no acknowledgement of a load came"
	}
	now := r.clk.mono()
	_, rerr := c.recv(buf[:proof], proof, now, min(r.until, now+int64(loadProof)))
	switch {
	case rerr == errCancelled, rerr == errDeadline:
		// A server that takes one connection at a time comes to this one when our
		// bounces are over, and only then begins to send.
		s.ends = r.clk.mono() + int64(T+loadSlack)
		ld.abandon(s, nil)
		if r.isCancel(rerr) {
			return r.fail(rerr, ReasonLoadFailed)
		}
		return r.loadFailed(fmt.Errorf("%s: %w (a server started with -1 takes one connection at a time and can't be loaded)", what, errDeadline))
	case rerr != nil:
		s.over = true
		ld.abandon(s, nil)
		if rerr == io.EOF {
			rerr = errors.New("the server closed the connection")
		}
		return r.loadFailed(fmt.Errorf("%s: %w", what, rerr))
	case ld.dir == wire.Up && !wire.IsAck(buf):
		ld.abandon(s, nil)
		return r.loadFailed(fmt.Errorf("the server answered a load with %q, which is no acknowledgement", buf[:8]))
	}
	s.proved = true
	r.slot.Release()
	r.slot = nil
	ld.streams = append(ld.streams, s)
	return nil
}

// abandon leaves a stream that did not prove itself to the background. The
// handshake slot is not kept until it ends, as a first message's is: a server that
// takes one connection at a time comes to it only after our bounces' end, which
// would wait for the slot. The lease keeps everybody else away.
func (ld *load) abandon(s *loadStream, pending []byte) {
	ld.r.slot.Release()
	ld.r.slot = nil
	ld.endStream(s, pending)
}

// end calls the load off, whatever it was doing: the streams stop reading, so
// that TCP's window stops the server within a round trip, half-close, wait for
// the server's own end and read up to it, all in the background. The server stays
// marked as busy until then.
func (ld *load) end() {
	if ld.engine != nil {
		ld.engine.stop()
	}
	for _, s := range ld.streams {
		ld.endStream(s, nil)
	}
}

func (ld *load) endStream(s *loadStream, pending []byte) {
	r := ld.r
	e := ending{addr: r.job.Addr, connected: true, pending: pending, hold: loadPatience, much: s.reads, apart: r.gap() > 0}
	if s.reads && !s.over {
		e.extra = time.Duration(s.ends - r.clk.mono())
		e.early = s.writes && !s.proved
	}
	if s.reads && r.gap() > 0 {
		e.settle = loadSettle
	}
	lease := r.job.Lease
	lease.Hold()
	e.done = func(bool) { lease.Release() }
	r.p.end(s.c, e)
}

// begin marks the start of the measured window.
func (ld *load) begin() {
	ld.begun = ld.r.clk.mono()
	ld.before = ld.sample()
	ld.atRow = sum(ld.before)
}

func (ld *load) sample() []TCPInfo {
	infos := make([]TCPInfo, len(ld.streams))
	for i, s := range ld.streams {
		s.c.tcpInfo(&infos[i])
	}
	return infos
}

func sum(infos []TCPInfo) (b loadBytes) {
	for i := range infos {
		b.up += infos[i].BytesAcked.V
		b.down += infos[i].BytesReceived.V
	}
	return b
}

// fillRow puts the bytes of the second that ends into a row. It runs inside the
// loop, between two bounces, and allocates nothing.
func (ld *load) fillRow(row *Row) {
	var now loadBytes
	var info TCPInfo
	for _, s := range ld.streams {
		s.c.tcpInfo(&info)
		now.up += info.BytesAcked.V
		now.down += info.BytesReceived.V
	}
	if ld.dir != wire.Down {
		row.LoadUp = int64(now.up - ld.atRow.up)
	}
	if ld.dir != wire.Up {
		row.LoadDown = int64(now.down - ld.atRow.down)
	}
	ld.atRow = now
}

// finish takes the figures at the end of the measured window, while the load
// still runs.
func (ld *load) finish() {
	after := ld.sample()
	out := ld.r.res.Load
	out.Duration = time.Duration(ld.r.clk.mono() - ld.begun)
	a, b := sum(ld.before), sum(after)
	acked, received, retransmits := true, true, true
	for i := range after {
		acked = acked && after[i].BytesAcked.OK && ld.before[i].BytesAcked.OK
		received = received && after[i].BytesReceived.OK && ld.before[i].BytesReceived.OK
		retransmits = retransmits && after[i].TotalRetransmits.OK && ld.before[i].TotalRetransmits.OK
	}
	if ld.dir != wire.Down && acked {
		out.BytesToServer = Some(b.up - a.up)
	}
	if ld.dir != wire.Up && received {
		out.BytesFromServer = Some(b.down - a.down)
	}
	if ld.dir == wire.Down {
		return // what a pure receiver's kernel knows of RTT and retransmits is stale
	}
	var rttSum, rttMax time.Duration
	var resent uint64
	rtts := 0
	for i := range after {
		if after[i].RTT.OK {
			rtts++
			rttSum += after[i].RTT.V
			rttMax = max(rttMax, after[i].RTT.V)
		}
		resent += uint64(after[i].TotalRetransmits.V - ld.before[i].TotalRetransmits.V)
	}
	if rtts > 0 {
		out.TCPRTTMean, out.TCPRTTMax = Some(rttSum/time.Duration(rtts)), Some(rttMax)
	}
	if retransmits {
		out.TCPRetransmits = Some(resent)
	}
}
