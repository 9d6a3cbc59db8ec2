package netlab

import (
	"math"
	"slices"
	"testing"
	"time"
)

func TestJitterIsNormalAndOfOneDirection(t *testing.T) {
	Require(t)
	const sd, n = time.Millisecond, 500
	l := New(t, Config{AtoB: Link{Delay: 6 * sd, Jitter: sd, Seed: 1}, BtoA: Link{Delay: 6 * sd}})
	var out, back []time.Duration
	for i, x := range (&echo{n: n, ipLength: 128, gap: 8 * sd}).run(t, l) {
		if x.lost {
			t.Fatalf("packet %d was lost", i)
		}
		out, back = append(out, x.out), append(back, x.back)
	}
	// The quartile estimate has a relative error of about 1.17/sqrt(n), 5 %.
	if got := deviation(out); got < sd*80/100 || got > sd*120/100 {
		t.Errorf("standard deviation A to B is %v, want %v", got, sd)
	}
	if got := deviation(back); got > sd/5 {
		t.Errorf("standard deviation B to A is %v, want next to none", got)
	}
	if got, limit := percentile(out, 50)-6*sd, sd/2; got < -limit || got > limit {
		t.Errorf("median A to B is off by %v", got)
	}
}

func TestRateCountsIPBytes(t *testing.T) {
	Require(t)
	l := New(t, Config{})
	for _, c := range []struct {
		link     Link
		ipLength int
		airtime  time.Duration
	}{
		{Link{Rate: 10e6}, 1500, 1200 * time.Microsecond},
		{Link{Rate: 1e6}, 125, 1000 * time.Microsecond},
		{Link{Rate: 1e6, Overhead: 125}, 125, 2000 * time.Microsecond},
	} {
		const n = 200
		l.Link(AtoB).Set(c.link)
		first, last := time.Duration(math.MaxInt64), time.Duration(0)
		for i, x := range (&echo{n: n, ipLength: c.ipLength, gap: 0}).run(t, l) {
			if x.lost {
				t.Fatalf("%+v: packet %d was lost", c.link, i)
			}
			there := x.sent + x.out
			first, last = min(first, there), max(last, there)
		}
		got, want := (last-first)/(n-1), c.airtime
		if got < want*97/100 || got > want*103/100 {
			t.Errorf("%+v: a packet of %d bytes every %v, want %v", c.link, c.ipLength, got, want)
		}
	}
}

func TestQueueLimit(t *testing.T) {
	Require(t)
	const n, limit = 50, 4
	l := New(t, Config{AtoB: Link{Rate: 200_000, Queue: limit}}) // 60 ms per packet
	e := &echo{n: n, ipLength: 1500}
	for i, x := range e.run(t, l) {
		// One is being sent while the queue fills.
		if want := i > limit; x.lost != want {
			t.Errorf("packet %d lost: %v, want %v", i, x.lost, want)
		}
	}
	s := l.Link(AtoB).Stats()
	if s.InPackets != n || s.OutPackets != limit+1 || s.DroppedQueue != n-limit-1 || s.MaxWaiting != limit {
		t.Errorf("counters are %+v", s)
	}
	if s.InBytes != n*1500 || s.OutBytes != (limit+1)*1500 {
		t.Errorf("bytes are %+v", s)
	}
}

func TestDelayStageDoesNotCountAsQueue(t *testing.T) {
	Require(t)
	l := New(t, Config{AtoB: Link{Rate: 1e9, Queue: 1, Delay: 300 * time.Millisecond}})
	for i, x := range (&echo{n: 50, ipLength: 200, gap: time.Millisecond}).run(t, l) {
		if x.lost {
			t.Errorf("packet %d was lost", i)
		}
	}
}

func TestLossIsRandomAndReproducible(t *testing.T) {
	Require(t)
	const n, p = 2000, 0.2
	run := func(seed uint64) (lost []int) {
		l := New(t, Config{AtoB: Link{Loss: p, Seed: seed}})
		for i, x := range (&echo{n: n, ipLength: 60, gap: 100 * time.Microsecond}).run(t, l) {
			if x.lost {
				lost = append(lost, i)
			}
		}
		if s := l.Link(AtoB).Stats(); int(s.DroppedLoss) != len(lost) || s.Dropped() != s.DroppedLoss {
			t.Errorf("%d lost, but counters are %+v", len(lost), s)
		}
		return lost
	}
	one, same, other := run(1), run(1), run(2)
	sigma := math.Sqrt(n * p * (1 - p))
	for _, lost := range [][]int{one, other} {
		if off := math.Abs(float64(len(lost)) - n*p); off > 5*sigma {
			t.Errorf("%d of %d lost, want %v +- %.0f", len(lost), n, n*p, 5*sigma)
		}
	}
	if !slices.Equal(one, same) {
		t.Error("the same seed lost different packets")
	}
	if slices.Equal(one, other) {
		t.Error("another seed lost the same packets")
	}
}

func TestPause(t *testing.T) {
	Require(t)
	const (
		n, gap   = 300, 4 * time.Millisecond
		at, stop = 100, 300 * time.Millisecond
		delay    = 10 * time.Millisecond
	)
	for _, mode := range []PauseMode{Hold, Discard} {
		l := New(t, Config{AtoB: Link{Delay: delay}, BtoA: Link{Delay: delay}})
		e := &echo{n: n, ipLength: 100, gap: gap}
		var begun, called time.Duration // the pause began between them
		e.at = map[int]func(){at: func() {
			called = time.Since(e.epoch)
			l.Link(AtoB).Pause(stop, mode)
			begun = time.Since(e.epoch)
		}}
		trips := e.run(t, l)
		lost := 0
		for i, x := range trips {
			due, there := x.sent+delay, x.sent+x.out
			switch {
			case x.lost:
				lost++
				if mode == Hold || due > begun+stop || due < called-gap {
					t.Errorf("mode %d: packet %d, due at %v, was lost; the pause began at %v", mode, i, due, begun)
				}
			case there > begun && there < called+stop:
				t.Errorf("mode %d: packet %d came at %v; the pause began at %v", mode, i, there, begun)
			}
		}
		if s := l.Link(AtoB).Stats(); int(s.DroppedPause) != lost {
			t.Errorf("mode %d: %d lost, counters are %+v", mode, lost, s)
		}
		if want := int(stop / gap); mode == Discard && (lost < want-5 || lost > want+5) {
			t.Errorf("%d packets were discarded, want about %d", lost, want)
		}
		if first := trips[at+2]; mode == Hold && first.out < stop-20*time.Millisecond {
			t.Errorf("packet sent right after the stop took only %v", first.out)
		}
		if s := l.Link(BtoA).Stats(); s.Dropped() != 0 {
			t.Errorf("mode %d: the other direction dropped: %+v", mode, s)
		}
	}
}

// A pause may be ended before its time, and settings changed, while packets travel.
func TestChangesWhileRunning(t *testing.T) {
	Require(t)
	l := New(t, Config{})
	e := &echo{n: 200, ipLength: 100, gap: 4 * time.Millisecond}
	e.at = map[int]func(){
		50:  func() { l.Link(AtoB).Set(Link{Delay: 30 * time.Millisecond}) },
		100: func() { l.Link(AtoB).Pause(time.Hour, Hold) },
		110: func() { l.Link(AtoB).Pause(0, Hold) },
		150: func() { l.Link(AtoB).Set(Link{}); l.Link(BtoA).Set(Link{Delay: 20 * time.Millisecond}) },
	}
	trips := e.run(t, l)
	for i, x := range trips {
		var out, back time.Duration
		switch {
		case x.lost:
			t.Fatalf("packet %d was lost", i)
		case i >= 50 && i < 150:
			out = 30 * time.Millisecond
		case i >= 150:
			back = 20 * time.Millisecond
		}
		if x.out < out || x.back < back {
			t.Errorf("packet %d took %v and %v, want at least %v and %v", i, x.out, x.back, out, back)
		}
	}
	// In order, those sent right after the change don't overtake the ones before.
	if x := trips[190]; x.out > 15*time.Millisecond {
		t.Errorf("long after the delay was taken away a packet takes %v", x.out)
	}
}
