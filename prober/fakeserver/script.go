package fakeserver

import (
	"encoding/binary"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/prober/wire"
)

// Mode is what kind of peer this is.
type Mode uint8

// Modes of a peer. All but NeverReads, AcceptClose and AcceptReset go on reading
// until the client's end, so that the journal shows it; NeverReads shows it too, but
// on Linux only.
const (
	Bounce      Mode = iota // answers; faults apply to its answers
	Silent                  // accepts and reads, but never answers
	NeverReads              // accepts, then neither reads nor answers
	AcceptClose             // closes what it accepts
	AcceptReset             // resets what it accepts
	HTTP                    // answers anything with 400 Bad Request, then a FIN
	Iperf3                  // one byte 09, then a reset
	Iperf3Busy              // one byte ff, then a FIN
	Sink                    // an iperf 2 without bounceback: acks (from 2.1.5), else swallows
)

// AckMode is how an ack that was asked for is sent.
type AckMode uint8

// Ways to send an ack.
const (
	AckAsked    AckMode = iota // by itself, before the reply
	AckJoined                  // in one segment with the reply
	AckBytewise                // each byte a segment of its own, 1 ms apart
	AckNever                   // not at all, as in compatibility mode
)

// Action is what a Fault does.
type Action uint8

// Actions of a fault.
const (
	NoFault   Action = iota
	Stop             // sends nothing more, but stays and reads
	HalfClose        // a FIN, then reads on, so that the client's end is seen
	Close            // closes the socket: later client data is answered by the kernel with an RST
	Reset            // an RST (SO_LINGER 0)
	Garbage          // from there on every byte sent is noise, of the right number
	Endless          // from there on noise without end, up to EndlessCap
	Twice            // this reply is sent twice, in one write (Byte does not count)
	SlowFrom         // from there on one byte every ByteDelay
)

// EndlessCap bounds what Endless sends on one connection.
const EndlessCap = 1 << 30

// Fault happens once, at one byte of one reply.
type Fault struct {
	Action Action
	// Reply counts from 1; 0 is the ack.
	Reply int
	// Byte is the offset in that reply before which the fault happens: 0 is
	// before the first byte, the reply's length right after its last.
	Byte int
}

// Script says how the peer behaves on a connection.
type Script struct {
	// PerConnection, if set, gives the script of connection i, from 0; all other
	// fields are then unused.
	PerConnection func(i int) Script

	// Load, if set, is the script of connections that begin with a test header: load
	// streams and version requests.
	Load *Script

	Mode Mode
	// Layout whose start bit is answered, others are swallowed. 0: all of them.
	Layout wire.Layout
	// Version is told in acks; zero: 2.2.0.
	Version wire.Version
	Ack     AckMode
	// AckBytes are sent in place of an ack, if not nil.
	AckBytes []byte
	// Early is sent right after accept, before anything was read.
	Early []byte
	// IgnoreHold answers at once whatever hold is asked for, as 2.2 does.
	IgnoreHold bool
	// ClockOffset shifts the server's clock.
	ClockOffset time.Duration
	// Delay before reply n (from 1), between its two stamps not counted; nil: none.
	Delay func(n int) time.Duration
	// Edit changes reply n (from 1) right before it is sent; its stamps are filled
	// already. What it returns is sent, nothing if empty. nil: no change.
	Edit func(n int, reply []byte) []byte
	// ByteDelay is the pause after each byte of SlowFrom; 0: one second.
	ByteDelay time.Duration
	Fault     Fault
	// LoadBytes are sent, as reply 1, where a test header asks for data (down or
	// both), and then a FIN; 0: nothing is sent, and no FIN before the client's.
	LoadBytes int
	// NeverClose keeps the socket open, without answering, after the client's FIN.
	NeverClose bool
	// CloseDelay is the pause between the client's FIN and ours.
	CloseDelay time.Duration
}

// Edits for Script.Edit. Each applies to reply n only; n 0 means every reply.

// WrongID replaces the echoed id.
func WrongID(n int) func(int, []byte) []byte {
	return edit(n, func(b []byte) []byte { b[8] ^= 0x80; return b })
}

// WrongFirstWord replaces word 0.
func WrongFirstWord(n int, word uint32) func(int, []byte) []byte {
	return edit(n, func(b []byte) []byte { binary.BigEndian.PutUint32(b, word); return b })
}

// WrongSizeField changes the size field but not the size.
func WrongSizeField(n int, size uint32) func(int, []byte) []byte {
	return edit(n, func(b []byte) []byte { binary.BigEndian.PutUint32(b[4:], size); return b })
}

// UnfilledStamps leaves both server stamps as the client filled them, with ff.
func UnfilledStamps(n int, l wire.Layout) func(int, []byte) []byte {
	return edit(n, func(b []byte) []byte {
		o := stampOffset(l)
		for i := o; i < o+16; i++ {
			b[i] = 0xff
		}
		return b
	})
}

// InvalidMicroseconds makes the send stamp's microseconds a million.
func InvalidMicroseconds(n int, l wire.Layout) func(int, []byte) []byte {
	return edit(n, func(b []byte) []byte {
		binary.BigEndian.PutUint32(b[stampOffset(l)+12:], 1_000_000)
		return b
	})
}

// Shorten cuts by bytes off a reply's end.
func Shorten(n, by int) func(int, []byte) []byte {
	return edit(n, func(b []byte) []byte { return b[:max(0, len(b)-by)] })
}

// Lengthen adds bytes to a reply's end.
func Lengthen(n, by int) func(int, []byte) []byte {
	return edit(n, func(b []byte) []byte { return append(b, make([]byte, by)...) })
}

func edit(n int, f func([]byte) []byte) func(int, []byte) []byte {
	return func(i int, b []byte) []byte {
		if n == 0 || i == n {
			return f(b)
		}
		return b
	}
}

// stampOffset is where the server's receive stamp begins.
func stampOffset(l wire.Layout) int {
	if l == wire.LayoutA {
		return 24
	}
	return 28
}
