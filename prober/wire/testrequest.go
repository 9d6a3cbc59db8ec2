package wire

import (
	"encoding/binary"
	"time"
)

// Lengths of test headers in bytes.
const (
	TestHeaderMinLen       = 36 // up to the upper flags: the shortest that servers accept
	TestHeaderTripTimesLen = 80 // with the start time
)

// UpperLowWater says that a test header's send low-water mark is valid.
const UpperLowWater uint16 = 0x4000

// TestRequest is a test header as a server reads it. Fields beyond the header's
// length are zero.
type TestRequest struct {
	Length     int
	Direction  Direction
	TripTimes  bool // data comes, and is expected, in bursts with a BurstHeader
	Ack        bool // an ack is expected before any data
	KeyFollows bool // a permit key of two bytes length and so many bytes follows
	// WriteSize is how many bytes the server shall write at once; 0: its default.
	WriteSize uint32
	// Duration after which the server's half shall stop, in steps of 10 ms; 0: the
	// test is by Bytes (or says nothing).
	Duration time.Duration
	Bytes    uint32
	Version  Version // the client's
	TOS      uint8   // for the server's socket; 0: none
	Rate     uint64  // of the server's half in bit/s; 0: unlimited
	LowWater uint32  // TCP_NOTSENT_LOWAT in bytes; 0: none
	Start    Stamp   // when the client started; only with TripTimes
}

// TestHeaderLength is the length of the header that begins with w, as w tells it,
// or 0 where w tells none: then what follows is data.
func TestHeaderLength(w uint32) int {
	if w&FlagLenValid == 0 {
		return 0
	}
	return int(w&LenMask) >> 1
}

// TestAck tells whether a client whose test header begins with w expects an ack.
func TestAck(w uint32) bool {
	return w&(FlagExtend|FlagVersion2) == FlagExtend || w&AckRequest != 0
}

// DecodeTestRequest reads a test header, whose length is that of its first word.
// Errors are of the types *ShortError and *FormatError.
func DecodeTestRequest(b []byte) (TestRequest, error) {
	if len(b) < TestHeaderMinLen {
		return TestRequest{}, &ShortError{What: "test header", Got: len(b), Need: TestHeaderMinLen}
	}
	be := binary.BigEndian
	w := be.Uint32(b)
	if ClassifyFirst(w) != FirstTest {
		return TestRequest{}, &FormatError{What: "first word of a test header", Got: w}
	}
	n := TestHeaderLength(w)
	if n < TestHeaderMinLen {
		return TestRequest{}, &FormatError{What: "length in the first word of a test header", Got: w}
	}
	if len(b) < n {
		return TestRequest{}, &ShortError{What: "test header", Got: len(b), Need: n}
	}
	// What the client left out is zero.
	var h [TestHeaderTripTimesLen]byte
	copy(h[:], b[:min(n, len(h))])
	upper := be.Uint16(h[32:])
	t := TestRequest{
		Length:     n,
		Direction:  Up,
		TripTimes:  upper&UpperTripTimes != 0,
		Ack:        TestAck(w),
		KeyFollows: w&StartA != 0,
		WriteSize:  be.Uint32(h[12:]),
		Version:    getVersion(h[36:]),
		TOS:        uint8(be.Uint16(h[46:])),
		Rate:       uint64(be.Uint32(h[48:])) | uint64(be.Uint32(h[52:])>>8)<<32,
	}
	switch {
	case upper&UpperFullDuplex != 0:
		t.Direction = Both
	case upper&UpperReverse != 0:
		t.Direction = Down
	}
	if amount := int32(be.Uint32(h[20:])); amount < 0 {
		t.Duration = time.Duration(-int64(amount)) * 10 * time.Millisecond
	} else {
		t.Bytes = uint32(amount)
	}
	if upper&UpperLowWater != 0 {
		t.LowWater = be.Uint32(h[56:])
	}
	if t.TripTimes {
		t.Start = getStamp(h[64:])
	}
	return t, nil
}
