package responder

import (
	"encoding/binary"
	"errors"
	"os"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/prober/wire"
)

func be32(b []byte) uint32 { return binary.BigEndian.Uint32(b) }

const (
	// minWrite is the smallest write that a client can ask for: smaller ones are
	// work for this host without use to anybody.
	minWrite = 64
	// lowWater is what the kernel may keep unsent of a load.
	lowWater = 128 << 10
)

// source is the server's own half of a load.
type source struct {
	c     *conn
	buf   []byte // one write
	end   time.Time
	bytes int64 // left to send; negative: no limit
	rate  uint64
	// With trip-times each write is a burst with a header.
	framed bool
	both   bool
	start  wire.Stamp
}

// newSource makes a source that sends for at most limit from now on.
func newSource(c *conn, t *wire.TestRequest, limit time.Duration) *source {
	s := &source{c: c, bytes: -1, rate: t.Rate, framed: t.TripTimes, both: t.Direction == wire.Both}
	size := wire.MaxSize
	if t.WriteSize > 0 && t.WriteSize < uint32(size) {
		size = max(int(t.WriteSize), minWrite)
	}
	if t.Duration == 0 && t.Bytes > 0 {
		s.bytes = int64(t.Bytes)
	}
	if s.rate > 0 {
		// A slow load comes in steps of some 20 ms rather than in large pieces.
		size = max(minWrite, int(min(uint64(size), s.rate/8/50)))
	}
	s.buf = c.r.digits()[:size]
	if s.framed {
		s.buf = append([]byte(nil), c.r.digits()[:max(size, wire.BurstHeaderLen)]...)
	}
	low := lowWater
	if t.LowWater > 0 && t.LowWater < uint32(low) {
		low = int(t.LowWater)
	}
	_ = setLowWater(c.nc, low) // without it the load only ends a little later
	s.end = time.Now().Add(limit)
	return s
}

// run sends until the time or the bytes are used up, and then a FIN.
func (s *source) run() error {
	begin := time.Now()
	var sent uint64
	if s.framed {
		s.start = s.c.now()
		var head [wire.TestHeaderTripTimesLen]byte
		if err := wire.PutTripTimesHeader(head[:], s.both, s.c.r.behaviour.version, s.start); err != nil {
			return err
		}
		if _, err := s.c.nc.Write(head[:]); err != nil {
			return err
		}
	} else {
		// Plain data may stop anywhere: what the client has not taken by the end of
		// the time is not sent. A burst must be whole.
		s.setWriteDeadline(s.end)
	}
	for number := uint32(1); time.Now().Before(s.end) && s.bytes != 0; number++ {
		b := s.buf
		if s.bytes > 0 && int64(len(b)) > s.bytes && !s.framed {
			b = b[:s.bytes]
		}
		if s.framed {
			h := wire.BurstHeader{Start: s.start, Write: s.c.now(), Number: number, Size: uint32(len(b)), Sequence: sent + uint64(len(b))}
			if err := h.Put(b); err != nil {
				return err
			}
		}
		n, err := s.c.nc.Write(b)
		sent += uint64(n)
		s.c.r.count.loadSent.Add(uint64(n))
		if err != nil && errors.Is(err, os.ErrDeadlineExceeded) && s.c.ctx.Err() == nil && !time.Now().Before(s.end) {
			break
		}
		if err != nil {
			return err
		}
		if s.bytes > 0 {
			s.bytes = max(0, s.bytes-int64(n))
		}
		if s.rate > 0 {
			s.pace(begin, sent)
		}
	}
	if half, ok := s.c.nc.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// setWriteDeadline bounds writes only: a full duplex load is still read from.
func (s *source) setWriteDeadline(t time.Time) {
	s.c.nc.SetWriteDeadline(t)
	if s.c.ctx.Err() != nil {
		s.c.nc.SetDeadline(past())
	}
}

// pace waits until sent bytes are due, at most to the end of the time.
func (s *source) pace(begin time.Time, sent uint64) {
	due := begin.Add(time.Duration(float64(sent) * 8 / float64(s.rate) * float64(time.Second)))
	if due.After(s.end) {
		due = s.end
	}
	d := time.Until(due)
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.c.ctx.Done():
	}
}
