package prober

import (
	"errors"
	"fmt"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/prober/wire"
)

// askVersionLeft is how much time must be left for finding out by a version
// request what it is that stayed silent.
const askVersionLeft = 2 * time.Second

// afterSilence finds out by a version request what it is that did not answer. It
// returns nil if another try makes sense.
func (r *run) afterSilence(c *conn, tried wire.Layout) *Error {
	r.logf("no reply to the first message")
	quiet := &Error{PhaseHandshake, ReasonSilent, errors.New("the connection was accepted, but no reply came: not an iperf 2 server with bounceback, or one that is busy with somebody else's connection")}
	ended, heard, err := r.endAndWait(c)
	if err != nil {
		return err
	}
	if len(heard) > 0 && !isIperf2(heard[0]) {
		return r.stranger(heard) // it waited for our FIN to say what it thinks of us
	}
	if !ended || time.Duration(r.until-r.clk.mono()) < askVersionLeft {
		return quiet
	}
	answered, err := r.askVersion()
	if err != nil {
		if err.Reason == ReasonCancelled || err.Reason == ReasonNoBounceback {
			return err
		}
		return quiet
	}
	if !answered {
		return quiet
	}
	now, err := r.layout()
	if err != nil {
		return err
	}
	if now == tried {
		return quiet
	}
	return nil
}

func versionRequest() []byte {
	b := make([]byte, wire.TestHeaderLen)
	_ = wire.PutVersionRequest(b) // can't fail: the buffer has the length
	return b
}

// askVersion asks for the version on a connection of its own. It tells whether an
// answer came.
func (r *run) askVersion() (bool, *Error) {
	o := bounceDial(r.job.Addr, r.m)
	o.congestionControl = ""
	c, err := r.open(PhaseHandshake, o)
	if err != nil {
		return false, err
	}
	buf := versionRequest()
	if n, err := c.send(buf, r.clk.mono(), r.until); err != nil {
		r.giveUp(c, ending{connected: true, pending: buf[n:]})
		return false, r.fail(err, ReasonSilent)
	}
	patience := min(r.until, r.clk.mono()+int64(r.p.opts.Bounds.FirstReply))
	n, rerr := c.recv(buf[:wire.AckLen], 1, r.clk.mono(), patience)
	if rerr == nil && n < wire.AckLen {
		if !isIperf2(buf[0]) {
			patience = min(patience, r.clk.mono()+int64(aLittleMore))
		}
		var more int
		more, rerr = c.recv(buf[n:wire.AckLen], wire.AckLen-n, r.clk.mono(), patience)
		n += more
	}
	if err := r.readAck(buf[:n], rerr); err != nil || rerr != nil {
		if rerr == nil {
			rerr = err
		}
		r.logf("no ack to a version request: %v", rerr)
		r.giveUp(c, ending{connected: true})
		return false, err
	}
	_, _, err = r.endAndWait(c)
	return true, err
}

// readAck reads what came in answer to a version request. It returns nil if that
// was an ack, and also if nothing came in time.
func (r *run) readAck(b []byte, rerr error) *Error {
	switch {
	case len(b) > 0 && !isIperf2(b[0]), len(b) >= 4 && !wire.IsAck(b):
		return r.stranger(b)
	case rerr == errDeadline:
		return nil
	case rerr != nil:
		return r.fail(rerr, ReasonSilent)
	}
	ack, err := wire.DecodeAck(b)
	if err != nil {
		return &Error{r.phase, ReasonBadReply, err}
	}
	return r.learn(ack.Version)
}

// aLittleMore is how long the rest of what a stranger has to say is waited for, to
// tell what it is.
const aLittleMore = 50 * time.Millisecond

// strangerSays is how many bytes of it are shown.
const strangerSays = 40

// isIperf2 tells whether what an iperf 2 server sends first can begin with b: an
// ack, or the echo of a start bit, with or without the ack request.
func isIperf2(b byte) bool { return b == 0 || b == 0x02 || b == 0x10 || b == 0x12 }

// stranger is somebody who answered, but not as an iperf 2 does. An iperf 3 sends
// one byte, the state of its control connection or that it is busy.
func (r *run) stranger(b []byte) *Error {
	if len(b) == 1 && (b[0] == 9 || b[0] == 0xff) {
		r.res.Peer.Kind = PeerIperf3
		return &Error{r.phase, ReasonNoBounceback, errors.New("the server is an iperf 3, which has no bounceback")}
	}
	r.res.Peer.Kind = PeerOther
	return &Error{r.phase, ReasonNoBounceback, fmt.Errorf("the peer answered %q, which no iperf 2 does", b[:min(len(b), strangerSays)])}
}
