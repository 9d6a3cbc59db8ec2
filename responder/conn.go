package responder

import (
	"container/list"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/prober/wire"
)

// conn is one client's connection, served by a goroutine of its own.
type conn struct {
	r        *Responder
	nc       net.Conn
	ctx      context.Context // done when the responder stops
	address  netip.Addr
	accepted time.Time
	place    *list.Element // among those without a first message; under r.mu
	evicted  atomic.Bool
	used     atomic.Int64 // Responder.uptime of the last message; busy for a load
	deadline time.Time    // of the connection, as set last
}

// Ends of a connection that are not errors of the network.
var (
	errGarbage = errors.New("no iperf 2 client's first message")
	errStop    = errors.New("stop bit")
	errRefused = errors.New("load refused")
)

// busy is when a connection was used last that is in use all the time.
const busy = math.MaxInt64

const (
	// lingerTime is how long a connection that we end first is read for the client's
	// FIN; lingerBytes how much. Closing with unread data would be an RST.
	lingerTime  = time.Second
	lingerBytes = 1 << 20
	// stopTime is the same for all connections when the responder stops.
	stopTime = 100 * time.Millisecond
)

func (c *conn) serve() {
	// Whatever blocks on the connection ends with the responder.
	defer context.AfterFunc(c.ctx, func() { c.nc.SetDeadline(past()) })()
	defer c.r.remove(c)
	defer c.nc.Close()
	err := c.first()
	c.account(err)
	if err == nil || errors.Is(err, io.EOF) {
		return // the client has ended first
	}
	if !c.evicted.Load() && !isReset(err) {
		c.linger()
	}
}

// account counts and logs how the connection ended.
func (c *conn) account(err error) {
	n := &c.r.count
	switch {
	case c.evicted.Load(), c.ctx.Err() != nil:
	case errors.Is(err, errGarbage):
		n.garbage.Add(1)
	case errors.Is(err, os.ErrDeadlineExceeded):
		n.timedOut.Add(1)
	case isReset(err):
		n.resets.Add(1)
	}
	how := "FIN"
	switch {
	case c.evicted.Load():
		how = "gave way"
	case err != nil && !errors.Is(err, io.EOF):
		how = err.Error()
	}
	c.r.opts.Logger.Debug("connection ended", "client", c.address, "how", how)
}

// first reads the first message and does what it asks for. It returns nil or an
// io.EOF when the client has ended the connection.
func (c *conn) first() error {
	c.setDeadline(c.r.opts.FirstMessageTimeout)
	var word [4]byte
	if _, err := io.ReadFull(c.nc, word[:]); err != nil {
		return short(err)
	}
	b := &c.r.behaviour
	w := binary.BigEndian.Uint32(word[:])
	switch kind := wire.ClassifyFirst(w); {
	case kind == wire.FirstBounce && b.layoutBC:
		return c.bounce(wire.LayoutC, word)
	case (kind == wire.FirstBounceA || kind == wire.FirstBounce && w&wire.StartA != 0) && b.layoutA:
		return c.bounce(wire.LayoutA, word)
	case kind == wire.FirstBounce || kind == wire.FirstBounceA:
		return c.notAnswered(w)
	case kind == wire.FirstTest:
		return c.test(word)
	case kind == wire.FirstData:
		return c.upload(len(word))
	}
	return errGarbage
}

// short makes an EOF inside of a message an EOF.
func short(err error) error {
	if err == io.ErrUnexpectedEOF {
		return io.EOF
	}
	return err
}

func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// setDeadline gives the connection d from now on.
func (c *conn) setDeadline(d time.Duration) {
	c.deadline = time.Now().Add(d)
	c.apply()
}

func (c *conn) apply() {
	c.nc.SetDeadline(c.deadline)
	// The responder may have stopped just before: its own deadline must win.
	if c.ctx.Err() != nil {
		c.nc.SetDeadline(past())
	}
}

// past is a deadline that is over.
func past() time.Time { return time.Unix(1, 0) }

// now is the server's wall clock for the wire.
func (c *conn) now() wire.Stamp {
	return wire.StampFromUnixNano(c.r.opts.Clock().UnixNano())
}

// ack sends an ack of n bytes; sent is the client's stamp, if it told one.
func (c *conn) ack(n int, sent wire.Stamp) error {
	if !c.r.behaviour.acks {
		return nil
	}
	a := wire.Ack{
		Length: n, Version: c.r.behaviour.version, ClientSend: sent,
		Accepted: wire.StampFromUnixNano(c.accepted.UnixNano()), Sent: c.now(),
	}
	var b [wire.AckLenTripTimes]byte
	n, err := a.Put(b[:])
	if err != nil {
		return err
	}
	if _, err := c.nc.Write(b[:n]); err != nil {
		return err
	}
	c.r.count.acks.Add(1)
	return nil
}

// linger ends a connection from our side: a FIN, then what the client still sends
// is read to its FIN, within bounds.
func (c *conn) linger() {
	half, ok := c.nc.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	d := lingerTime
	if c.ctx.Err() != nil {
		d = stopTime
	}
	c.nc.SetDeadline(time.Now().Add(d))
	io.CopyN(io.Discard, c.nc, lingerBytes)
}
