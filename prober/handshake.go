package prober

import (
	"errors"
	"fmt"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/prober/wire"
)

// maxConnects bounds the bounce connections of one handshake: one that finds a
// 2.1.7, one in its layout, and one more if what was remembered was wrong.
const maxConnects = 3

// handshake finds out what the peer speaks and does the first bounce. It returns
// the connection on which that came back.
//
// The first message carries the module's size, since servers read it there only,
// in layout C, which 2.1.8 and newer take, and the request for an ack, which tells
// the version and, from 2.1.7, that another layout is needed.
func (r *run) handshake() (*conn, wire.Layout, *Error) {
	if v, ok := r.p.opts.Peers.Version(r.job.Addr); ok {
		r.version, r.known = wireVersion(v), true
		r.res.Peer.Version = Some(r.version)
		r.logf("the server was iperf %s a while ago", r.version)
	}
	big := max(r.m.Size, r.m.EffectiveReplySize()) > wire.MaxAckSize
	if big && !r.known {
		r.logf("asking for the version first: an ack request is not safe with messages above %d bytes", wire.MaxAckSize)
		answered, err := r.askVersion()
		if err != nil {
			return nil, 0, err
		}
		if !answered {
			return nil, 0, &Error{PhaseHandshake, ReasonSilent, errors.New("no answer to a version request: not an iperf 2 server, or one that is busy")}
		}
	}
	for range maxConnects {
		layout, err := r.layout()
		if err != nil {
			return nil, 0, err
		}
		c, outcome, err := r.firstBounce(layout, !big && layout != wire.LayoutA)
		switch {
		case err != nil:
			return nil, 0, err
		case outcome == bounced:
			r.slot.Release()
			r.slot = nil
			r.res.Peer.Kind, r.res.Peer.Layout = PeerBounceback, layout
			return c, layout, nil
		case outcome == otherLayout:
			r.logf("iperf 2.1.7 has a layout of its own: connecting again")
			if _, _, err := r.endAndWait(c); err != nil {
				return nil, 0, err
			}
		case outcome == silent:
			if err := r.afterSilence(c, layout); err != nil {
				return nil, 0, err
			}
		}
	}
	return nil, 0, &Error{PhaseHandshake, ReasonSilent, fmt.Errorf("no bounce came back on %d connections", maxConnects)}
}

// layout is what the version, where it is known, asks for.
func (r *run) layout() (wire.Layout, *Error) {
	if !r.known {
		return wire.LayoutC, nil
	}
	if err := r.versionFits(); err != nil {
		return 0, err
	}
	if r.version.Less(wire.V2_1_8) {
		return wire.LayoutA, nil
	}
	return wire.LayoutC, nil
}

// versionFits refuses a server that lacks what the module needs.
func (r *run) versionFits() *Error {
	switch {
	case r.version.Less(wire.V2_1_7):
		r.res.Peer.Kind = PeerNoBounceback
		return &Error{PhaseHandshake, ReasonNoBounceback, fmt.Errorf("the server is iperf %s, bounceback came with 2.1.7", r.version)}
	case r.ownReplySize() && r.version.Less(wire.V2_2_0):
		return &Error{PhaseHandshake, ReasonUnsupported, fmt.Errorf("reply_size needs iperf 2.2.0 or newer, the server is %s", r.version)}
	}
	return nil
}

// ownReplySize tells whether the reply is to be of another size than the request.
func (r *run) ownReplySize() bool { return r.m.EffectiveReplySize() != r.m.Size }

// outcome of a first message.
type outcome int

const (
	bounced     outcome = iota + 1
	otherLayout         // a 2.1.7, which did not understand the message
	silent              // nothing for as long as a server may take
)

// firstBounce connects, sends the first message and waits for what comes back.
// The connection is the caller's only with outcome.
func (r *run) firstBounce(layout wire.Layout, ask bool) (*conn, outcome, *Error) {
	msg := r.message(layout, ask)
	buf := make([]byte, r.m.Size)
	if err := msg.PutRequest(buf); err != nil {
		return nil, 0, r.fail(&localError{"message", err}, ReasonLocalLimit)
	}
	c, err := r.open(PhaseConnect, bounceDial(r.job.Addr, r.m))
	if err != nil {
		return nil, 0, err
	}
	// From here to the last byte of the message is one act: only a full socket
	// buffer can interrupt it, and then the background finishes it.
	connected := r.clk.mono()
	info := &Connect{Duration: time.Duration(connected - r.phaseSince)}
	haveInfo := c.tcpInfo(&info.TCP)
	r.enter(PhaseHandshake)
	var s Sample
	s.SentWall, s.Sent = r.clk.now()
	msg.PutSent(buf, wire.StampFromUnixNano(s.SentWall))
	n, werr := c.send(buf, s.Sent, r.until)
	r.res.Connect, r.res.Local = info, c.localAddr()
	if haveInfo {
		r.logf("connected in %v", info.Duration.Round(time.Microsecond))
	}
	if werr != nil {
		r.giveUp(c, ending{connected: true, pending: buf[n:]})
		return nil, 0, r.fail(werr, ReasonSilent)
	}

	reply, out, err := r.firstReply(c, &s, ask, info.Duration)
	if err == nil && out == bounced {
		err = r.checkFirst(layout, reply, &s)
	}
	if err != nil {
		r.giveUp(c, ending{connected: true})
		return nil, 0, err
	}
	return c, out, nil
}

// message is the first request of a connection.
func (r *run) message(layout wire.Layout, ask bool) wire.Message {
	m := wire.Message{Layout: layout, AckRequest: ask, Size: uint32(r.m.Size), ID: 1,
		Hold: wire.HoldMicroseconds(r.m.Hold), TOS: r.m.TOS()}
	if r.m.QuickAck {
		m.Flags |= wire.FlagQuickAck
	}
	if r.m.TripTimes {
		m.Flags |= wire.FlagTripTimes
	}
	if r.m.TOS() != 0 {
		m.Flags |= wire.FlagTOS
	}
	if r.ownReplySize() {
		m.Flags |= wire.FlagReplySize
	}
	m.ReplySize = uint32(r.m.EffectiveReplySize())
	return m
}

// firstReply reads the ack, if one was asked for and comes, and the first reply.
func (r *run) firstReply(c *conn, s *Sample, asked bool, connect time.Duration) ([]byte, outcome, *Error) {
	size := r.m.EffectiveReplySize()
	buf := make([]byte, wire.AckLenTripTimes+size)
	have := 0
	// fill reads until need bytes are there. Nothing beyond the first message has
	// been asked for, so more than the whole answer is an error that checkFirst sees.
	fill := func(need int, until int64) error {
		if have >= need {
			return nil
		}
		n, err := c.recv(buf[have:], need-have, r.clk.mono(), until)
		have += n
		return err
	}

	patience := r.clk.mono() + int64(r.m.Hold+r.p.opts.Bounds.FirstReply+2*connect)
	err := fill(1, min(r.until, patience))
	if err == errDeadline && patience < r.until {
		return nil, silent, nil
	}
	if err == nil && !isIperf2(buf[0]) {
		_ = fill(40, r.clk.mono()+int64(aLittleMore))
		return nil, 0, r.stranger(buf[:have])
	}
	if err == nil {
		err = fill(4, r.until)
	}
	if err != nil {
		return nil, 0, r.fail(err, ReasonSilent)
	}
	if wire.IsAck(buf) {
		if err := fill(8, r.until); err != nil {
			return nil, 0, r.fail(err, ReasonSilent)
		}
		n, err := wire.AckLength(buf)
		if err != nil {
			return nil, 0, &Error{r.phase, ReasonBadReply, err}
		}
		if err := fill(n, r.until); err != nil {
			return nil, 0, r.fail(err, ReasonSilent)
		}
		ack, err := wire.DecodeAck(buf)
		if err != nil {
			return nil, 0, &Error{r.phase, ReasonBadReply, err}
		}
		if err := r.learn(ack.Version); err != nil {
			return nil, 0, err
		}
		if err := r.versionFits(); err != nil {
			return nil, 0, err
		}
		if r.version.Less(wire.V2_1_8) {
			return nil, otherLayout, nil
		}
		copy(buf, buf[n:have])
		have -= n
	} else if !wire.IsBounce(buf) {
		_ = fill(40, r.clk.mono()+int64(aLittleMore))
		return nil, 0, r.stranger(buf[:have])
	} else if asked {
		r.logf("the server bounces, but does not tell its version")
		if r.ownReplySize() {
			return nil, 0, &Error{r.phase, ReasonUnsupported, errors.New("reply_size needs iperf 2.2.0 or newer, and the server does not tell its version")}
		}
	}
	if err := fill(size, r.until); err != nil {
		return nil, 0, r.fail(err, ReasonSilent)
	}
	s.ReceivedWall, s.Received = r.clk.now()
	s.KernelReceive = c.stamp
	return buf[:have], bounced, nil
}

// checkFirst reads the first reply and keeps it in the result.
func (r *run) checkFirst(layout wire.Layout, b []byte, s *Sample) *Error {
	bad := func(err error) *Error { return &Error{r.phase, ReasonBadReply, err} }
	if size := r.m.EffectiveReplySize(); len(b) != size {
		return bad(fmt.Errorf("the first reply has %d bytes, %d were asked for", len(b), size))
	}
	m, err := wire.DecodeMessage(layout, b)
	if err != nil {
		return bad(err)
	}
	if m.Size != uint32(r.m.Size) {
		return bad(fmt.Errorf("the first reply echoes the size %d, sent was %d", m.Size, r.m.Size))
	}
	id, receive, send, err := layout.Stamps(b)
	if err != nil {
		return bad(err)
	}
	if id != 1 {
		return bad(fmt.Errorf("the first reply has the id %d, sent was 1", id))
	}
	s.ServerReceive, s.ServerSend = receive.UnixNano(), send.UnixNano()
	r.res.First = s
	r.logf("first bounce in %v, of which %v in the server", s.RTT().Round(time.Microsecond), s.Dwell())
	return nil
}
