package wire

import (
	"encoding/binary"
	"time"
)

// Direction of a load stream, seen from the client.
type Direction uint8

const (
	Up   Direction = iota + 1 // client to server: the server is a sink
	Down                      // server to client (iperf's reverse)
	Both                      // full duplex on one connection
)

// String is up, down or both.
func (d Direction) String() string {
	switch d {
	case Up:
		return "up"
	case Down:
		return "down"
	case Both:
		return "both"
	}
	return "unknown"
}

// TestHeaderLen is the length of the test header that every release reads.
const TestHeaderLen = 60

// Bits of a test header's upper flags, offset 32.
const (
	UpperReverse    uint16 = 0x0400
	UpperFullDuplex uint16 = 0x0800
	UpperTripTimes  uint16 = 0x0010
)

// TestHeader starts a load stream, or asks for the server's version.
//
// It never carries the trip-times bit: with it the server expects framed bursts,
// and up to 2.1.9 a load that is cut then stops every test on the server.
type TestHeader struct {
	Direction Direction
	// Ack makes the server answer with its 28 byte ack first; the ack proves that
	// the load was accepted. Possible in every direction, needed for Up.
	Ack bool
	// Duration after which the server's own half stops, in units of 10 ms on the
	// wire, at least one.
	Duration time.Duration
	// TOS is set by the server on its socket if not 0.
	TOS uint8
}

// clientVersion is what a header gives as the peer's version; any value works
// and servers only print it.
var clientVersion = Version{Upper: 2, Lower: 1, Patch: 8, Stage: StageRelease}

// Put writes the 60 bytes of the header.
func (h *TestHeader) Put(b []byte) error {
	if len(b) < TestHeaderLen {
		return &ShortError{What: "test header", Got: len(b), Need: TestHeaderLen}
	}
	b = b[:TestHeaderLen]
	clear(b)
	be := binary.BigEndian
	flags := FlagExtend | FlagLenValid | TestHeaderLen<<1
	if h.Direction != Up || !h.Ack {
		flags |= FlagVersion2
	}
	if h.Ack && h.Direction != Up {
		flags |= AckRequest
	}
	be.PutUint32(b[0:], flags)
	be.PutUint32(b[4:], 1)    // streams
	be.PutUint32(b[8:], 5001) // port, ignored here
	be.PutUint32(b[20:], uint32(-tenMilliseconds(h.Duration)))
	switch h.Direction {
	case Down:
		be.PutUint16(b[32:], UpperReverse)
	case Both:
		be.PutUint16(b[32:], UpperFullDuplex)
	}
	putVersion(b[36:], clientVersion)
	be.PutUint16(b[46:], uint16(h.TOS))
	return nil
}

// PutVersionRequest writes the 60 byte header that makes every server from
// 2.0.13 on answer with its ack, and that it logs as an empty upload.
func PutVersionRequest(b []byte) error {
	return (&TestHeader{Direction: Up, Ack: true, Duration: 2 * time.Second}).Put(b)
}

func tenMilliseconds(d time.Duration) int32 {
	const unit = 10 * time.Millisecond
	n := d / unit
	if d%unit > 0 { // up: the server's half must not stop before ours
		n++
	}
	return int32(min(max(n, 1), 1<<31-1))
}
