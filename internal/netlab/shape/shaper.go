package shape

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// PacketSize is the size of a packet buffer: an MTU of 1500 with room to spare.
const PacketSize = 2048

// Shaper is one direction of a link. Instants are durations since an epoch of the
// driver's choice and must never decrease from call to call. It is not safe for
// concurrent use.
type Shaper struct {
	link          Link
	loss, jitter  *rand.Rand
	rules         []Rule
	stats         Stats
	waiting       queue         // for the rate stage
	flight        queue         // in serialisation or delay, sorted by due
	busyUntil     time.Duration // the rate stage sends a packet until then
	lastDue       time.Duration // of the packet before, for order
	pausedUntil   time.Duration
	pauseMode     PauseMode
	free          []*Packet
	lateThreshold time.Duration
}

// New makes a direction.
func New(l Link) (*Shaper, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	s := &Shaper{link: l, lateThreshold: time.Millisecond}
	s.seed()
	return s, nil
}

func (s *Shaper) seed() {
	// Two streams of one seed: switching loss on must not change the jitter.
	s.loss = rand.New(rand.NewPCG(s.link.Seed, 1))
	s.jitter = rand.New(rand.NewPCG(s.link.Seed, 2))
}

// Set changes the settings from now on. What is already in the delay stage keeps
// its instant of delivery, a packet being sent finishes at the old rate, and
// packets waiting beyond a smaller queue limit stay. The random sequences go on
// unless the seed changes.
func (s *Shaper) Set(now time.Duration, l Link) error {
	if err := l.Validate(); err != nil {
		return err
	}
	s.advance(now)
	reseed := l.Seed != s.link.Seed
	s.link = l
	if reseed {
		s.seed()
	}
	return nil
}

// Drop adds a rule. Rules are tried in the order they were added.
func (s *Shaper) Drop(r Rule) { s.rules = append(s.rules, r) }

// DropNothing removes all rules.
func (s *Shaper) DropNothing() { s.rules = nil }

// Pause stops deliveries for d from now on; it replaces a pause in force, and with
// d = 0 ends it.
func (s *Shaper) Pause(now, d time.Duration, mode PauseMode) error {
	if d < 0 {
		return fmt.Errorf("pause of %v, must be 0 or more", d)
	}
	if mode != Hold && mode != Discard {
		return fmt.Errorf("pause mode %d, must be Hold or Discard", mode)
	}
	s.pausedUntil, s.pauseMode = now+d, mode
	return nil
}

// Stats returns the counters as of now.
func (s *Shaper) Stats(now time.Duration) Stats {
	s.advance(now)
	st := s.stats
	st.Waiting, st.InFlight = s.waiting.len(), s.flight.len()
	return st
}

// ResetStats sets the counters to zero.
func (s *Shaper) ResetStats() { s.stats = Stats{} }

// Get returns a packet to be filled. It goes back with Arrive (whatever that
// returns) or Put.
func (s *Shaper) Get() *Packet {
	if n := len(s.free); n > 0 {
		p := s.free[n-1]
		s.free = s.free[:n-1]
		return p
	}
	return &Packet{Buf: make([]byte, PacketSize)}
}

// Put takes back a packet that came from Get or Take.
func (s *Shaper) Put(p *Packet) { s.free = append(s.free, p) }

// Arrive hands over a packet that came from the sending side now, and reports
// whether it was accepted; if not, it is counted as dropped.
func (s *Shaper) Arrive(now time.Duration, p *Packet) bool {
	s.advance(now)
	s.stats.InPackets++
	s.stats.InBytes += uint64(len(p.Data))
	if counter := s.refuse(now, p); counter != nil {
		*counter++
		s.Put(p)
		return false
	}
	if s.idle(now) {
		s.send(now, p)
		return true
	}
	s.waiting.push(p)
	s.stats.MaxWaiting = max(s.stats.MaxWaiting, s.waiting.len())
	return true
}

// refuse returns the counter of the reason why p is dropped, nil if it is not.
func (s *Shaper) refuse(now time.Duration, p *Packet) *uint64 {
	for i := range s.rules {
		if s.rules[i].take(p.Data) {
			return &s.stats.DroppedRule
		}
	}
	if s.link.Loss > 0 && s.loss.Float64() < s.link.Loss {
		return &s.stats.DroppedLoss
	}
	if !s.idle(now) && s.waiting.len() >= s.link.limit() {
		return &s.stats.DroppedQueue
	}
	if s.waiting.len()+s.flight.len() >= maxHeld {
		return &s.stats.DroppedOverflow
	}
	return nil
}

// idle tells whether the rate stage can take a packet at once.
func (s *Shaper) idle(now time.Duration) bool {
	return s.waiting.len() == 0 && s.busyUntil <= now
}

// send puts p on the line at the instant start: serialisation, then delay.
func (s *Shaper) send(start time.Duration, p *Packet) {
	s.busyUntil = start + s.link.airtime(len(p.Data))
	delay := s.link.Delay
	if s.link.Jitter > 0 {
		delay = max(0, delay+time.Duration(s.jitter.NormFloat64()*float64(s.link.Jitter)))
	}
	p.due = s.busyUntil + delay
	if !s.link.Reorder {
		p.due = max(p.due, s.lastDue)
	}
	s.lastDue = max(s.lastDue, p.due)
	s.flight.insert(p)
}

// advance lets the rate stage do all that it has done by now. Each packet starts
// at the very instant the one before it ended, however late we are told.
func (s *Shaper) advance(now time.Duration) {
	for s.waiting.len() > 0 && s.busyUntil <= now {
		s.send(s.busyUntil, s.waiting.pop())
	}
}

// Next is the next instant at which Take should be called; ok is false if there is
// none until a packet arrives.
func (s *Shaper) Next() (at time.Duration, ok bool) {
	if s.flight.len() > 0 {
		at, ok = s.flight.front().due, true
	}
	// What waits can't come out before what is in flight, unless it may overtake.
	if s.waiting.len() > 0 && (!ok || s.link.Reorder) {
		if !ok || s.busyUntil < at {
			at, ok = s.busyUntil, true
		}
	}
	if ok && s.pauseMode == Hold {
		at = max(at, s.pausedUntil)
	}
	return at, ok
}

// Take returns the next packet to be delivered now, or nil. It is never early. The
// packet goes back with Put.
func (s *Shaper) Take(now time.Duration) *Packet {
	s.advance(now)
	for s.flight.len() > 0 {
		due := s.flight.front().due
		if due > now {
			return nil
		}
		if due < s.pausedUntil {
			if s.pauseMode == Discard {
				s.stats.DroppedPause++
				s.Put(s.flight.pop())
				continue
			}
			if s.pausedUntil > now {
				return nil
			}
			due = s.pausedUntil
		}
		p := s.flight.pop()
		late := now - due
		s.stats.MaxLate = max(s.stats.MaxLate, late)
		if late > s.lateThreshold {
			s.stats.Late++
		}
		return p
	}
	return nil
}

// Delivered counts a packet that Take gave out: ok if the receiving side took it.
func (s *Shaper) Delivered(p *Packet, ok bool) {
	if !ok {
		s.stats.DroppedDevice++
		return
	}
	s.stats.OutPackets++
	s.stats.OutBytes += uint64(len(p.Data))
}
