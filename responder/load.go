package responder

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/prober/wire"
)

// loadGrace is how long beyond a load's time its client may take for its own end.
const loadGrace = 10 * time.Second

// test reads the rest of a test header and does what it asks for: a version
// request, or a load.
func (c *conn) test(word [4]byte) error {
	w := be32(word[:])
	var head [256]byte // the length field has eight bits
	n := wire.TestHeaderLength(w)
	if n == 0 {
		// A form before 2.1 that does not tell its length: its fields count as data.
		if wire.TestAck(w) {
			if err := c.ack(wire.AckLen, wire.Stamp{}); err != nil {
				return err
			}
		}
		return c.upload(len(word))
	}
	if n < wire.TestHeaderMinLen {
		return fmt.Errorf("%w: a test header of %d bytes, must be at least %d", errGarbage, n, wire.TestHeaderMinLen)
	}
	copy(head[:], word[:])
	if _, err := io.ReadFull(c.nc, head[len(word):n]); err != nil {
		return short(err)
	}
	t, err := wire.DecodeTestRequest(head[:n])
	if err != nil {
		return fmt.Errorf("%w: %w", errGarbage, err)
	}
	if t.Direction != wire.Up {
		if !c.r.startLoad() {
			return fmt.Errorf("%w: %s", errRefused, t.Direction)
		}
		defer c.r.endLoad()
	}
	if t.TOS != 0 {
		if err := setTOS(c.nc, t.TOS); err != nil {
			c.r.opts.Logger.Debug("TOS not set", "client", c.address, "err", err)
		}
	}
	if t.Ack {
		n := wire.AckLen
		if t.TripTimes {
			n = wire.AckLenTripTimes
		}
		if err := c.ack(n, t.Start); err != nil {
			return err
		}
	}
	if t.Direction == wire.Up {
		return c.upload(0)
	}
	c.used.Store(busy)
	if !c.r.complete(c) {
		return io.EOF
	}
	return c.download(&t)
}

// startLoad takes one of the load streams there may be; endLoad gives it back.
func (r *Responder) startLoad() bool {
	if r.opts.DisableLoads || r.count.loadsActive.Add(1) > int64(r.opts.MaxLoadStreams) {
		if !r.opts.DisableLoads {
			r.count.loadsActive.Add(-1)
		}
		r.count.loadsRefused.Add(1)
		return false
	}
	r.count.loads.Add(1)
	return true
}

func (r *Responder) endLoad() { r.count.loadsActive.Add(-1) }

// upload receives until the client's FIN. It is a load from its first byte of data
// on: without any it was a version request, which is always answered. seen is how
// much of the data was read already.
func (c *conn) upload(seen int) error {
	c.setDeadline(c.r.opts.FirstMessageTimeout)
	if seen == 0 {
		var b [1]byte
		n, err := c.nc.Read(b[:])
		if err != nil {
			return err
		}
		seen = n
	}
	if !c.r.startLoad() {
		return errRefused
	}
	defer c.r.endLoad()
	c.used.Store(busy)
	if !c.r.complete(c) {
		return io.EOF
	}
	c.r.count.loadReceived.Add(uint64(seen))
	return c.receive(time.Now().Add(c.r.opts.MaxLoadDuration+loadGrace), loadIdle)
}

// loadIdle is how long an upload may bring nothing before its place goes to others.
const loadIdle = 10 * time.Second

// receive reads to the client's FIN, until end at most; idle, if not 0, is how long
// nothing may come.
func (c *conn) receive(end time.Time, idle time.Duration) error {
	buf := make([]byte, receiveChunk)
	var renewed time.Time
	for {
		if now := time.Now(); idle > 0 && now.Sub(renewed) > idle/10 {
			renewed = now
			_ = c.nc.SetReadDeadline(earlier(end, now.Add(idle)))
		}
		n, err := c.nc.Read(buf)
		c.r.count.loadReceived.Add(uint64(n))
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// receiveChunk is the memory of a received load stream.
const receiveChunk = 64 << 10

// download sends, and for full duplex also receives. The client's FIN does not stop
// our half, only its time, its bytes or an error does; then our FIN goes out and the
// client's is awaited.
func (c *conn) download(t *wire.TestRequest) error {
	limit := c.r.opts.MaxLoadDuration
	if t.Duration > 0 {
		limit = min(limit, t.Duration)
	}
	c.setDeadline(limit + loadGrace)
	s := newSource(c, t, limit)
	var sendErr, receiveErr error
	if t.Direction == wire.Both {
		var sending sync.WaitGroup
		sending.Go(func() { sendErr = s.run() })
		receiveErr = c.receive(time.Time{}, 0)
		sending.Wait()
	} else {
		sendErr = s.run()
		if sendErr == nil {
			receiveErr = c.receive(time.Time{}, 0)
		}
	}
	if sendErr != nil {
		return sendErr
	}
	return receiveErr
}
