package prober

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/prober/peers"
	"github.com/bounceback-exporter/bounceback_exporter/prober/wire"
)

// run is one probe under way. Its errors are *Error; the lower rooms' become one
// in fail.
type run struct {
	p   *Prober
	job *Job
	m   *config.Module
	res *Result
	clk *stopwatch

	ctx   context.Context
	stop  *canceller
	until int64 // the deadline, monotonic ns

	phase      Phase
	phaseSince int64

	need time.Duration // what the test takes by the clock; 0: no matter
	slot *peers.Slot   // held from before the connect until the first reply is back

	version wire.Version
	known   bool // version is
}

// Run dials job.Addr and does the whole test within ctx, whose deadline, or the
// module's timeout where it has none, bounds the answer. It always returns a
// Result; what is still to be done for the connection then goes on in the
// background.
func (p *Prober) Run(ctx context.Context, job *Job) *Result {
	if job.Start.IsZero() {
		job.Start = time.Now()
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, job.Start.Add(job.Module.Timeout))
		defer cancel()
	}
	r := &run{p: p, job: job, m: job.Module, res: newResult(ctx, job), ctx: ctx,
		clk: &stopwatch{base: job.Start, shift: p.wallShift}}
	deadline, _ := ctx.Deadline()
	r.until = int64(deadline.Sub(job.Start))

	defer func() { // by defer, so that a panic does not keep the server's slot
		if r.slot != nil {
			r.slot.Release()
		}
	}()
	err := r.do()
	r.leave()
	r.res.Elapsed = time.Duration(r.clk.mono())
	if err != nil {
		r.res.Err = err
		r.logf("failed: %v", err)
		if err.Reason != ReasonCancelled && err.Reason != ReasonLocalLimit {
			p.opts.Peers.Forget(job.Addr)
		}
	}
	return r.res
}

func newResult(ctx context.Context, job *Job) *Result {
	r := &Result{
		Module: job.Module, Target: job.Target, Addr: job.Addr, Start: job.Start,
		Timeout:      job.Module.Timeout,
		RequestBytes: job.Module.Size, ReplyBytes: job.Module.EffectiveReplySize(),
	}
	if deadline, ok := ctx.Deadline(); ok {
		r.Timeout = deadline.Sub(job.Start)
	}
	r.Phases[PhaseResolve] = job.ResolveTook
	if job.Waited > 0 {
		r.Phases[PhaseWait] = Some(job.Waited)
	}
	if job.ResolveTook.OK && job.Addr.IsValid() {
		r.Log = append(r.Log, LogLine{job.ResolveTook.V, fmt.Sprintf("resolved %s to %s", job.Target.Host, job.Addr.Addr())})
	}
	return r
}

// do is the probe from admission to the last window.
func (r *run) do() *Error {
	r.need = r.testDuration()
	r.enter(PhaseWait)
	if err := r.fits(ReasonTimeoutTooShort); err != nil {
		return err
	}
	if r.job.Lease == nil {
		lease, err := r.p.opts.Peers.Enter(r.ctx, r.job.Addr, r.m.Congest != nil)
		if err != nil {
			return r.waitError("while a load runs on this server", err)
		}
		r.job.Lease = lease
		defer lease.Release()
	}
	stop, err := newCanceller(r.ctx)
	if err != nil {
		return r.fail(err, ReasonLocalLimit)
	}
	r.stop = stop
	defer stop.close()

	c, layout, e := r.handshake()
	if e != nil {
		return e
	}
	e = r.measure(c, layout)
	// Done or broken, the connection ends the same way.
	r.p.end(c, ending{addr: r.job.Addr, connected: true, hold: r.m.Hold, apart: r.gap() > 0})
	return e
}

// fits refuses a test of which less than half would fit before the deadline:
// nothing has been sent then.
func (r *run) fits(reason Reason) *Error {
	left := time.Duration(r.until - r.clk.mono())
	need := r.need
	switch {
	case left <= 0:
		return &Error{r.phase, ReasonTimeoutTooShort, fmt.Errorf("the timeout of %v was over before anything could be sent", r.res.Timeout)}
	case need == 0 || left >= need/2:
		return nil
	}
	waited := ""
	if w := r.job.Waited; w >= time.Millisecond {
		waited = fmt.Sprintf(", after a wait of %v for limits or for a load at this server", w.Round(time.Millisecond))
	}
	return &Error{r.phase, reason, fmt.Errorf("the test takes %v and %v are left of the timeout of %v%s: raise the timeout (the scrape's, if it is the smaller one) or shorten the test",
		need, max(left, 0).Round(time.Millisecond), r.res.Timeout.Round(time.Millisecond), waited)}
}

// testDuration is what the windows take by the clock; 0 if only a count ends them.
func (r *run) testDuration() time.Duration {
	d := r.m.Duration
	if l := r.m.Congest; l != nil {
		d += l.Baseline + l.Warmup
	}
	return d
}

// enter closes the phase under way and begins another. A phase that is entered
// twice adds up.
func (r *run) enter(ph Phase) {
	r.leave()
	r.phase, r.phaseSince = ph, r.clk.mono()
	r.res.Phases[ph].OK = true
}

func (r *run) leave() {
	if r.res.Phases[r.phase].OK && r.phaseSince != 0 {
		r.res.Phases[r.phase].V += time.Duration(r.clk.mono() - r.phaseSince)
	}
	r.phaseSince = 0
}

// logf notes something for debug=true. It is never called between the first and
// the last bounce of a window.
func (r *run) logf(format string, args ...any) {
	r.res.Log = append(r.res.Log, LogLine{time.Duration(r.clk.mono()), fmt.Sprintf(format, args...)})
}

// open makes a connection: slot, pacing, the check of who may be probed, connect.
// On failure nothing is left to the caller.
func (r *run) open(ph Phase, o dialOptions) (*conn, *Error) {
	r.enter(PhaseWait)
	if r.slot == nil {
		slot, err := r.p.opts.Peers.Handshake(r.ctx, r.job.Addr)
		if err != nil {
			return nil, r.waitError("for this server's handshake slot", err)
		}
		r.slot = slot
	}
	if err := r.slot.Pace(r.ctx, r.gap()); err != nil {
		return nil, r.waitError("for the pause between two connections", err)
	}
	if err := r.fits(ReasonBusy); err != nil {
		return nil, err
	}
	if res := checkAllowed(r.ctx, r.job); res != nil {
		return nil, res.Err
	}
	r.enter(ph)
	c, err := startConn(r.clk, r.stop, o)
	if err != nil {
		return nil, r.connectError(err)
	}
	r.p.track(c)
	if err := c.awaitConnect(r.until); err != nil {
		if err == errCancelled || err == errDeadline {
			// Should it come into being all the same, it must not be a mute one: this
			// is the shortest message that every server takes, and no test.
			r.giveUp(c, ending{pending: versionRequest()})
		} else {
			r.p.untrack(c)
			c.close()
		}
		return nil, r.connectError(err)
	}
	return c, nil
}

// gap is the pause that the server needs between the end of a connection and the
// start of the next: up to 2.1.8 an instant reconnect can crash it.
func (r *run) gap() time.Duration {
	if r.known && !r.version.Less(wire.V2_1_9) {
		return 0
	}
	return 100 * time.Millisecond
}

// giveUp leaves a connection to the background, with the slot if it is held: the
// next handshake starts when this one is over.
func (r *run) giveUp(c *conn, e ending) {
	slot := r.slot
	r.slot = nil
	e.addr, e.hold = r.job.Addr, r.m.Hold
	e.done = func(bool) {
		if slot != nil {
			slot.Release()
		}
	}
	r.p.end(c, e)
}

// endAndWait ends a connection and waits for it, keeping the slot. It tells
// whether the peer has finished too, and the beginning of what it still said.
func (r *run) endAndWait(c *conn) (clean bool, heard []byte, _ *Error) {
	type end struct {
		clean bool
		heard []byte
	}
	ended := make(chan end, 1)
	var last []byte
	r.p.end(c, ending{addr: r.job.Addr, connected: true, hold: r.m.Hold,
		heard: func(b []byte) { last = bytes.Clone(b[:min(len(b), strangerSays)]) },
		done:  func(clean bool) { ended <- end{clean, last} }})
	select {
	case e := <-ended:
		return e.clean, e.heard, nil
	case <-r.ctx.Done():
		// The slot stays taken until the connection has ended.
		slot := r.slot
		r.slot = nil
		go func() {
			<-ended
			slot.Release()
		}()
		return false, nil, r.fail(r.ctxError(), ReasonSilent)
	}
}

func peerVersion(v wire.Version) peers.Version {
	return peers.Version{Upper: v.Upper, Lower: v.Lower, Patch: v.Patch, Stage: v.Stage}
}

func wireVersion(v peers.Version) wire.Version {
	return wire.Version{Upper: v.Upper, Lower: v.Lower, Patch: v.Patch, Stage: v.Stage}
}

// learn notes what the server said it is.
func (r *run) learn(v wire.Version) *Error {
	if v.Upper != 2 {
		return &Error{r.phase, ReasonBadReply, fmt.Errorf("the server says that it is iperf %s, which can't be in an iperf 2 protocol", v)}
	}
	r.version, r.known = v, true
	r.res.Peer.Version = Some(v)
	r.p.opts.Peers.Learn(r.job.Addr, peerVersion(v))
	r.logf("the server is iperf %s", v)
	return nil
}
