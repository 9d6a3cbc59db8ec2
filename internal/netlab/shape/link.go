// Package shape is the arithmetic of one direction of a link: which packet is
// dropped, which waits, and at what instant each one comes out. It has no clock,
// no socket and no goroutine: whoever drives it tells it the time, so that it can
// be tested to the nanosecond.
//
// A packet passes these stages in this order:
//
//	drop rules -> random loss -> rate stage (queue, then serialisation) -> delay stage -> gate
//
// The gate is what a pause closes.
package shape

import (
	"fmt"
	"time"
)

// DefaultQueue is the queue limit, in packets, where a Link names none.
const DefaultQueue = 1000

// maxHeld bounds the memory of one direction: packets held in all stages together.
const maxHeld = 1 << 17

// Link says what one direction of a link does to packets. The zero value passes
// everything on at once.
type Link struct {
	// Delay is the time between a packet's last bit leaving the rate stage and its
	// delivery. 0 or more.
	Delay time.Duration
	// Jitter is the standard deviation of a normal distribution around Delay. A sum
	// below 0 counts as 0. Unless Reorder is set, no packet overtakes the one before
	// it: one that would is delivered right behind it, so that at packet distances
	// that are not large against Jitter the delays are neither normal nor independent.
	Jitter time.Duration
	// Reorder lets packets overtake each other when their jitter says so.
	Reorder bool

	// Rate is in bit/s; 0 is unlimited. A packet occupies the rate stage for
	// (IP length + Overhead) * 8 / Rate: the IP length is the packet as the TUN device
	// hands it over, IP header included, and nothing for a link layer.
	Rate int64
	// Overhead is counted on top of each packet's IP length by the rate stage, in
	// bytes; say 38 for Ethernet with preamble and gap. It is in no counter.
	Overhead int
	// Queue is how many packets may wait for the rate stage; one that arrives when so
	// many wait is dropped (tail drop). The packet being sent does not wait, nor do
	// those in the delay stage. 0 is DefaultQueue.
	Queue int

	// Loss is the probability, 0 to 1, with which a packet is lost before it gets to
	// the queue.
	Loss float64

	// Seed of jitter and loss, which draw from generators of their own: the same seed
	// gives the same sequence of each.
	Seed uint64
}

// Validate tells what is impossible about l.
func (l Link) Validate() error {
	switch {
	case l.Delay < 0:
		return fmt.Errorf("delay is %v, must be 0 or more", l.Delay)
	case l.Jitter < 0:
		return fmt.Errorf("jitter is %v, must be 0 or more", l.Jitter)
	case l.Rate < 0:
		return fmt.Errorf("rate is %d bit/s, must be 0 (unlimited) or more", l.Rate)
	case l.Overhead < 0:
		return fmt.Errorf("overhead is %d bytes, must be 0 or more", l.Overhead)
	case l.Queue < 0:
		return fmt.Errorf("queue limit is %d packets, must be 0 (the default, %d) or more", l.Queue, DefaultQueue)
	case !(l.Loss >= 0 && l.Loss <= 1):
		return fmt.Errorf("loss is %v, must be a probability, 0 to 1", l.Loss)
	}
	return nil
}

// airtime is how long a packet of n bytes of IP occupies the rate stage, rounded
// up, so that a stream never exceeds the rate.
func (l Link) airtime(n int) time.Duration {
	if l.Rate == 0 {
		return 0
	}
	bits := int64(n+l.Overhead) * 8
	return time.Duration((bits*int64(time.Second) + l.Rate - 1) / l.Rate)
}

// limit is the effective queue limit.
func (l Link) limit() int {
	if l.Queue == 0 {
		return DefaultQueue
	}
	return l.Queue
}

// Stats counts what one direction did since it was made or its counters were
// reset. Bytes are IP bytes.
type Stats struct {
	// In is what the link took from the sending side, dropped packets included.
	InPackets, InBytes uint64
	// Out is what it delivered.
	OutPackets, OutBytes uint64

	DroppedRule     uint64 // by a drop rule
	DroppedLoss     uint64 // by random loss
	DroppedQueue    uint64 // by the queue limit
	DroppedPause    uint64 // by a pause that discards
	DroppedOverflow uint64 // by the cap on memory; a sign of an absurd setting
	DroppedDevice   uint64 // the receiving side's device refused it or no host has its address

	Waiting    int // packets waiting for the rate stage now
	MaxWaiting int // the most there were
	InFlight   int // packets in serialisation, delay stage or held by a pause now

	// MaxLate is the worst lateness of a delivery against its computed instant, and
	// Late counts deliveries more than 1 ms late. Both are about the link process
	// alone (a busy CPU): what waits for the gate is not late.
	MaxLate time.Duration
	Late    uint64
}

// Dropped is the sum of all drops.
func (s Stats) Dropped() uint64 {
	return s.DroppedRule + s.DroppedLoss + s.DroppedQueue + s.DroppedPause + s.DroppedOverflow + s.DroppedDevice
}

// PauseMode says what becomes of packets that would be delivered during a pause.
type PauseMode int

const (
	Hold    PauseMode = iota // they wait and are delivered, in order, when it ends
	Discard                  // they are dropped
)
