package prober

import "time"

// stopwatch reads both clocks of this host as one pair: the monotonic clock as
// nanoseconds since base, and the wall clock as nanoseconds since the Unix epoch.
// It is the one seam at which tests put a clock of their own.
type stopwatch struct {
	base  time.Time
	shift func() int64 // tests: ns added to the wall clock; nil: none
}

// now is the pair. One call of time.Now reads both clocks some tens of
// nanoseconds apart.
func (s *stopwatch) now() (wall, mono int64) {
	t := time.Now()
	wall = t.UnixNano()
	if s.shift != nil {
		wall += s.shift()
	}
	return wall, int64(t.Sub(s.base))
}

// mono is the monotonic clock alone.
func (s *stopwatch) mono() int64 { return int64(time.Since(s.base)) }

// mark is a reading of the wall clock between two readings of the monotonic one.
type mark struct {
	wall, mono int64
	slack      int64 // half the distance of the two: the uncertainty, ns
}

// mark takes the best of a few readings: a preemption in one does not blur it.
func (s *stopwatch) mark() mark {
	best := mark{slack: 1 << 62}
	for range 5 {
		before := s.mono()
		wall, _ := s.now()
		after := s.mono()
		if slack := (after - before + 1) / 2; slack < best.slack {
			best = mark{wall: wall, mono: before + slack, slack: slack}
		}
	}
	return best
}

// stepSince is how far the wall clock moved against the monotonic one between two
// marks. Slewing moves both alike, so only a step shows. What lies within the
// readings' own uncertainty is 0.
func (m mark) stepSince(from mark) time.Duration {
	step := (m.wall - from.wall) - (m.mono - from.mono)
	if slack := m.slack + from.slack; step <= slack && step >= -slack {
		return 0
	}
	return time.Duration(step)
}

// truncation is how much a server's stamp may be too small: it is cut to the
// microsecond.
const truncation = int64(time.Microsecond)

// clockOf makes the clock report of a test: all its bounces count, the first one
// too. It returns nil where there are none.
func clockOf(first *Sample, windows []Window, step Optional[time.Duration]) *Clock {
	c := &Clock{Step: step}
	lower, upper := int64(-1<<63), int64(1<<63-1)
	n := 0
	add := func(s *Sample) {
		n++
		// The far clock minus ours is at least S2 - T3, since the reply can't be read
		// before it was written, and at most S1 - T0 and the truncation.
		lower = max(lower, s.ServerSend-s.ReceivedWall)
		upper = min(upper, s.ServerReceive-s.SentWall+truncation)
		if s.ServerReceive+truncation < s.SentWall || s.ServerSend > s.ReceivedWall || s.ServerSend < s.ServerReceive {
			c.Failures++
		}
	}
	if first != nil {
		add(first)
	}
	for i := range windows {
		for j := range windows[i].Samples {
			add(&windows[i].Samples[j])
		}
	}
	if n == 0 {
		return nil
	}
	c.LowerBound, c.UpperBound = time.Duration(lower), time.Duration(upper)
	c.Synchronized, c.MaxError, c.EstimatedError = kernelClock()
	return c
}
