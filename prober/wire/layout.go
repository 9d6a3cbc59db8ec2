package wire

import "fmt"

// Layout is one of the three forms of the bounce message. Layout A and the
// others do not interoperate: a server that gets the wrong one swallows it as an
// ordinary upload and never answers.
type Layout uint8

const (
	// LayoutA is iperf 2.1.7's: its own start bit, no run time field.
	LayoutA Layout = iota + 1
	// LayoutB is that of 2.1.8 and 2.1.9: run time at offset 16.
	LayoutB
	// LayoutC is that of 2.2.0 and newer: layout B and a reply size at offset 60.
	// Servers of layout B read it as layout B.
	LayoutC
)

// String names the layout and the releases that speak it.
func (l Layout) String() string {
	switch l {
	case LayoutA:
		return "A (2.1.7)"
	case LayoutB:
		return "B (2.1.8, 2.1.9)"
	case LayoutC:
		return "C (2.2.0 and newer)"
	}
	return fmt.Sprintf("Layout(%d)", uint8(l))
}

// HeaderLen is the number of bytes before the padding: 56, 60 or 64.
func (l Layout) HeaderLen() int {
	switch l {
	case LayoutA:
		return 56
	case LayoutB:
		return 60
	}
	return 64
}

// MinSize is the smallest message that servers of the layout answer: they read 4
// bytes more than the header they know, so 60, 64 or 68 bytes.
func (l Layout) MinSize() int { return l.HeaderLen() + 4 }

// stampOffset is where the client's send time begins; the server's receive time
// follows at +8, its send time at +16 and the hold at +24.
func (l Layout) stampOffset() int {
	if l == LayoutA {
		return 16
	}
	return 20
}

// stampsEnd is the first byte after the server's send time: a reply has to be
// this long to be of use.
func (l Layout) stampsEnd() int { return l.stampOffset() + 24 }

// startBit is the bit of word 0 that makes a message of this layout a bounce.
func (l Layout) startBit() uint32 {
	if l == LayoutA {
		return StartA
	}
	return StartBC
}

// Bits of word 0, the first four bytes of every connection. In a test header
// (FlagExtend, FlagVersion2) the same word also carries the header's length.
const (
	StartBC      uint32 = 0x00800000 // bounce message of layout B or C
	StartA       uint32 = 0x10000000 // bounce message of layout A; in a test header: a permit key follows
	AckRequest   uint32 = 0x02000000 // the server sends a 28 byte ack first (2.1.5 and newer)
	FlagExtend   uint32 = 0x40000000 // test header in its extended form
	FlagVersion2 uint32 = 0x04000000 // test header, version 2: no ack unless AckRequest
	FlagDual     uint32 = 0x80000000 // test header of the legacy dual test
	FlagLenValid uint32 = 0x00010000 // the test header's length is in LenMask
	LenMask      uint32 = 0x000001fe // header length shifted left by one
)

// Sizes of a bounce message in bytes, header included.
const (
	// MinSize is the smallest size that every release answers.
	MinSize = 68
	// MaxSize is the largest size that every release survives: servers up to
	// 2.1.9 overflow their heap above 128 KiB.
	MaxSize = 131072
	// MinReplySize is the smallest reply that carries a whole layout C header.
	MinReplySize = 64
	// MaxAckSize is the largest request or reply with which AckRequest is safe:
	// it leaves the server's socket with a send timeout of 10 ms, which servers up
	// to 2.1.8 treat as fatal for the whole process when a reply does not fit.
	MaxAckSize = 4096
)
