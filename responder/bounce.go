package responder

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/prober/wire"
)

// bounce reads the rest of the first message and answers this and all that follow.
// Size, reply size, hold, flags (but the stop bit) and TOS are those of the first
// message, as real servers have it.
func (c *conn) bounce(l wire.Layout, word [4]byte) error {
	b := &c.r.behaviour
	var head [8]byte
	copy(head[:], word[:])
	if _, err := io.ReadFull(c.nc, head[4:]); err != nil {
		return short(err)
	}
	size := int(binary.BigEndian.Uint32(head[4:]))
	smallest := b.minBC
	if l == wire.LayoutA {
		smallest = b.minA
	}
	if size < smallest || size > c.r.opts.MaxMessage {
		return fmt.Errorf("%w: a bounce message of %d bytes, may be %d to %d", errGarbage, size, smallest, c.r.opts.MaxMessage)
	}
	buf, err := readMessage(c.nc, head[:], size)
	if err != nil {
		return short(err)
	}
	received := c.now()
	m, err := wire.DecodeMessage(l, buf)
	if err != nil {
		return fmt.Errorf("%w: %w", errGarbage, err)
	}
	e := echo{conn: c, layout: l, size: size, reply: size}
	if l == wire.LayoutC && b.replySize && m.Flags&wire.FlagReplySize != 0 && size >= l.HeaderLen() {
		if m.ReplySize < 1 || m.ReplySize > uint32(c.r.opts.MaxMessage) {
			return fmt.Errorf("%w: a reply of %d bytes, may be 1 to %d", errGarbage, m.ReplySize, c.r.opts.MaxMessage)
		}
		e.reply = int(m.ReplySize)
	}
	e.buf = withTail(buf, e.reply)
	if b.hold {
		e.hold = min(time.Duration(m.Hold)*time.Microsecond, c.r.opts.MaxHold)
	}
	if m.Flags&wire.FlagTOS != 0 {
		e.tos, e.hasTOS = m.TOS, true
		if err := setTOS(c.nc, m.TOS); err != nil {
			c.r.opts.Logger.Debug("TOS not set", "client", c.address, "err", err)
		}
	}
	if m.Flags&wire.FlagQuickAck != 0 && e.hold > 0 {
		e.quickAck = quickAck(c.nc)
	}
	if !c.r.complete(c) {
		return io.EOF
	}
	c.r.count.tests.Add(1)
	if m.AckRequest {
		n := wire.AckLen
		if m.Flags&wire.FlagTripTimes != 0 {
			n = wire.AckLenTripTimes
		}
		if err := c.ack(n, m.ClientSend); err != nil {
			return err
		}
	}
	return e.run(received)
}

// echo is a bounce test once its first message is there.
type echo struct {
	*conn
	layout      wire.Layout
	buf         []byte // holds a request, and from its start the reply
	size, reply int
	hold        time.Duration
	tos         uint8
	hasTOS      bool
	quickAck    func() error // nil: not asked for
	timer       *time.Timer  // of the hold
	end         time.Time    // of the test; zero: none
}

// run answers the message in buf, which was received at the time given, and all
// that follow, until the client ends. Nothing is allocated from bounce to bounce.
func (e *echo) run(received wire.Stamp) error {
	if limit := e.r.behaviour.timeLimit; limit > 0 {
		e.end = time.Now().Add(limit)
	}
	e.deadline = time.Time{} // that of the first message does not count any more
	stop := e.r.behaviour.stop && e.layout != wire.LayoutA
	for {
		if e.hold > 0 {
			if err := e.sleep(); err != nil {
				return err
			}
		}
		e.extend()
		if e.hasTOS {
			e.buf[14], e.buf[15] = 0, e.tos
		}
		e.layout.PutStamps(e.buf, received, e.now())
		if _, err := e.nc.Write(e.buf[:e.reply]); err != nil {
			return err
		}
		e.r.count.bounces.Add(1)
		if _, err := io.ReadFull(e.nc, e.buf[:e.size]); err != nil {
			return short(err)
		}
		received = e.now()
		if stop && wire.Flags(binary.BigEndian.Uint16(e.buf[12:]))&wire.FlagStop != 0 {
			return errStop
		}
	}
}

// extend notes that the connection is in use and moves its deadline on, but not for
// each bounce: it is between one and one and a quarter of the idle time away.
func (e *echo) extend() {
	idle := e.r.opts.IdleTimeout
	now := time.Now()
	e.used.Store(int64(now.Sub(e.r.began)))
	if e.deadline.Sub(now) >= idle {
		return
	}
	e.deadline = now.Add(idle + idle/4)
	if !e.end.IsZero() && e.deadline.After(e.end) {
		e.deadline = e.end
	}
	e.apply()
}

// sleep is the hold. Like real servers it asks for quick acks first: the request
// is then acknowledged at once instead of with the reply.
func (e *echo) sleep() error {
	if e.quickAck != nil {
		_ = e.quickAck() // a hint; without it the delayed ack timer acknowledges
	}
	if e.timer == nil {
		e.timer = time.NewTimer(e.hold)
	} else {
		e.timer.Reset(e.hold)
	}
	select {
	case <-e.timer.C:
		return nil
	case <-e.ctx.Done():
		e.timer.Stop()
		return e.ctx.Err()
	}
}

// notAnswered is what a server does with a bounce message of a layout it does not
// know: it takes it for an upload, and answers at most with an ack.
func (c *conn) notAnswered(w uint32) error {
	if !c.r.complete(c) {
		return io.EOF
	}
	if w&wire.AckRequest != 0 && !c.r.behaviour.version.Less(wire.Version{Upper: 2, Lower: 1, Patch: 5}) {
		if err := c.ack(wire.AckLen, wire.Stamp{}); err != nil {
			return err
		}
	}
	c.setDeadline(c.r.opts.IdleTimeout)
	if _, err := io.Copy(io.Discard, c.nc); err != nil {
		return err
	}
	return nil
}
