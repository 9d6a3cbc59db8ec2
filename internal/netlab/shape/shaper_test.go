package shape

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

// delivery is a packet that came out, known by its number.
type delivery struct {
	n  int
	at time.Duration
}

func newShaper(t *testing.T, l Link) *Shaper {
	t.Helper()
	s, err := New(l)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// offer hands over packet n with size bytes.
func offer(s *Shaper, now time.Duration, n, size int) bool {
	p := s.Get()
	p.Data, p.Port = p.Buf[:size], n
	return s.Arrive(now, p)
}

// drain drives s as a driver would that is never late, until the given instant.
func drain(s *Shaper, until time.Duration) (out []delivery) {
	for {
		at, ok := s.Next()
		if !ok || at > until {
			return out
		}
		for p := s.Take(at); p != nil; p = s.Take(at) {
			out = append(out, delivery{p.Port, at})
			s.Delivered(p, true)
			s.Put(p)
		}
	}
}

func check(t *testing.T, got []delivery, want ...delivery) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

func TestRateThenDelay(t *testing.T) {
	// 1000 bytes take 8 ms at 1 Mbit/s.
	s := newShaper(t, Link{Rate: 1e6, Delay: 100 * ms})
	offer(s, 0, 0, 1000)
	offer(s, 0, 1, 500)
	offer(s, 2*ms, 2, 1000)
	check(t, drain(s, time.Second), delivery{0, 108 * ms}, delivery{1, 112 * ms}, delivery{2, 120 * ms})
	offer(s, time.Second, 3, 1000) // idle in between: no credit is saved up
	offer(s, time.Second, 4, 1000)
	check(t, drain(s, 2*time.Second), delivery{3, 1108 * ms}, delivery{4, 1116 * ms})
}

func TestOverheadAndOddRates(t *testing.T) {
	for _, c := range []struct {
		l    Link
		n    int
		want time.Duration
	}{
		{Link{}, 1500, 0},
		{Link{Rate: 8e9}, 1, 1},
		{Link{Rate: 8e9 + 1}, 1, 1},    // 0.99.. ns, rounded up
		{Link{Rate: 3}, 1, 2666666667}, // 8/3 s
		{Link{Rate: 10e6}, 1500, 1200 * time.Microsecond},
		{Link{Rate: 10e6, Overhead: 38}, 1500, 1230400},
	} {
		if got := c.l.airtime(c.n); got != c.want {
			t.Errorf("%+v: %d bytes take %v, want %v", c.l, c.n, got, c.want)
		}
	}
}

func TestTailDropLeavesTheOneBeingSentOut(t *testing.T) {
	s := newShaper(t, Link{Rate: 1e6, Queue: 2, Delay: time.Hour})
	for n, want := range []bool{true, true, true, false, false} {
		if got := offer(s, 0, n, 1000); got != want {
			t.Errorf("packet %d accepted: %v", n, got)
		}
	}
	if offer(s, 8*ms-1, 5, 1000) {
		t.Error("accepted a nanosecond before there was room")
	}
	if !offer(s, 8*ms, 6, 1000) {
		t.Error("refused when a packet had just left the queue")
	}
	st := s.Stats(8 * ms)
	if st.DroppedQueue != 3 || st.Waiting != 2 || st.MaxWaiting != 2 || st.InFlight != 2 || st.InPackets != 7 {
		t.Errorf("counters are %+v", st)
	}
}

func TestPauseHoldsEverythingDue(t *testing.T) {
	s := newShaper(t, Link{Delay: 10 * ms})
	offer(s, 0, 0, 100)
	if err := s.Pause(5*ms, 20*ms, Hold); err != nil {
		t.Fatal(err)
	}
	offer(s, 6*ms, 1, 100)
	offer(s, 16*ms, 2, 100)
	if p := s.Take(25*ms - 1); p != nil {
		t.Fatalf("packet %d came out during the pause", p.Port)
	}
	check(t, drain(s, time.Second), delivery{0, 25 * ms}, delivery{1, 25 * ms}, delivery{2, 26 * ms})
	if st := s.Stats(time.Second); st.MaxLate != 0 {
		t.Errorf("held packets count as late: %+v", st)
	}
}

func TestPauseDiscardsOnlyWhatIsDueMeanwhile(t *testing.T) {
	s := newShaper(t, Link{Delay: 10 * ms})
	var out []delivery
	for n := range 4 { // due at 10, 20, 30, 40 ms
		now := time.Duration(n) * 10 * ms
		out = append(out, drain(s, now)...)
		if n == 2 {
			// At 20 ms two have come out. The pause is over at 35.
			if err := s.Pause(now, 15*ms, Discard); err != nil {
				t.Fatal(err)
			}
		}
		offer(s, now, n, 100)
	}
	out = append(out, drain(s, time.Second)...)
	check(t, out, delivery{0, 10 * ms}, delivery{1, 20 * ms}, delivery{3, 40 * ms})
	if st := s.Stats(time.Second); st.DroppedPause != 1 {
		t.Errorf("counters are %+v", st)
	}
}

func TestSetConcernsWhatHasNotBegun(t *testing.T) {
	s := newShaper(t, Link{Rate: 1e6})
	for n := range 3 {
		offer(s, 0, n, 1000)
	}
	// The first is being sent; the other two go ten times as fast, though the change is
	// told in the middle of it.
	if err := s.Set(4*ms, Link{Rate: 10e6}); err != nil {
		t.Fatal(err)
	}
	check(t, drain(s, time.Second), delivery{0, 8 * ms}, delivery{1, 8800 * time.Microsecond}, delivery{2, 9600 * time.Microsecond})

	s = newShaper(t, Link{Delay: 100 * ms})
	offer(s, 0, 0, 100)
	if err := s.Set(1*ms, Link{}); err != nil {
		t.Fatal(err)
	}
	offer(s, 1*ms, 1, 100) // does not overtake
	check(t, drain(s, time.Second), delivery{0, 100 * ms}, delivery{1, 100 * ms})
}

func TestReorderLetsPacketsOvertake(t *testing.T) {
	run := func(l Link) (overtaken int) {
		s := newShaper(t, l)
		for n := range 1000 {
			offer(s, time.Duration(n)*ms, n, 100)
		}
		last := -1
		for _, d := range drain(s, time.Hour) {
			if d.n < last {
				overtaken++
			}
			last = d.n
		}
		return overtaken
	}
	l := Link{Delay: 50 * ms, Jitter: 5 * ms, Seed: 7}
	if n := run(l); n != 0 {
		t.Errorf("%d packets were overtaken in a FIFO", n)
	}
	l.Reorder = true
	if n := run(l); n < 100 {
		t.Errorf("only %d of 1000 packets were overtaken", n)
	}
}

func TestJitterDistribution(t *testing.T) {
	const n = 20000
	s := newShaper(t, Link{Delay: 10 * ms, Jitter: 2 * ms, Seed: 3})
	var sum, squares float64
	for i := range n {
		now := time.Duration(i) * time.Second
		offer(s, now, i, 100)
		out := drain(s, now+time.Second-1)
		if len(out) != 1 {
			t.Fatalf("%d packets within a second", len(out))
		}
		x := (out[0].at - now).Seconds() * 1e3
		if x < 0 {
			t.Fatalf("a delay of %v ms", x)
		}
		sum += x
		squares += x * x
	}
	mean := sum / n
	sd := math.Sqrt(squares/n - mean*mean)
	// 5 standard errors: 5*2/sqrt(n) and 5*2/sqrt(2n).
	if math.Abs(mean-10) > 0.071 || math.Abs(sd-2) > 0.05 {
		t.Errorf("mean %.3f ms, standard deviation %.3f ms, want 10 and 2", mean, sd)
	}
}

func TestLossAndJitterAreIndependentOfEachOther(t *testing.T) {
	delays := func(l Link) map[int]time.Duration {
		s, got := newShaper(t, l), map[int]time.Duration{}
		for i := range 200 {
			now := time.Duration(i) * time.Second
			offer(s, now, i, 100)
			for _, d := range drain(s, now+time.Second-1) {
				got[d.n] = d.at - now
			}
		}
		return got
	}
	l := Link{Delay: 10 * ms, Loss: 0.5, Seed: 5}
	lossy := delays(l)
	if len(lossy) < 60 || len(lossy) > 140 {
		t.Errorf("%d of 200 packets got through a loss of 0.5", len(lossy))
	}
	l.Jitter = ms
	for n := range delays(l) {
		if _, ok := lossy[n]; !ok {
			t.Fatalf("with jitter other packets are lost: %d", n)
		}
	}
	for _, loss := range []float64{0, 1} {
		if n := len(delays(Link{Loss: loss})); n != int(200*(1-loss)) {
			t.Errorf("%d of 200 packets got through a loss of %v", n, loss)
		}
	}
}

// Whatever the settings and whenever the driver looks, these hold: every packet is
// accounted for, none is early, none overtakes, the rate and the queue limit are
// kept, and looking often or rarely makes no difference to when a packet is due.
func TestInvariants(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 0))
		l := Link{
			Delay: time.Duration(r.IntN(3)) * 7 * ms, Jitter: time.Duration(r.IntN(2)) * ms,
			Rate: int64(r.IntN(3)) * 4e6, Queue: 1 + r.IntN(20), Overhead: r.IntN(2) * 38,
			Loss: float64(r.IntN(2)) * 0.1, Seed: seed,
		}
		eager, lazy := newShaper(t, l), newShaper(t, l)
		var out, later []delivery
		sent := map[int]time.Duration{}
		sizes := map[int]int{}
		var now time.Duration
		for n := range 300 {
			now += time.Duration(r.ExpFloat64() * float64(ms))
			sizes[n], sent[n] = 40+r.IntN(1460), now
			out = append(out, drain(eager, now)...)
			a, b := offer(eager, now, n, sizes[n]), offer(lazy, now, n, sizes[n])
			if a != b {
				t.Fatalf("seed %d: packet %d accepted: %v looking often, %v looking rarely", seed, n, a, b)
			}
			if st := eager.Stats(now); st.Waiting > l.Queue {
				t.Fatalf("seed %d: %d packets wait, the limit is %d", seed, st.Waiting, l.Queue)
			}
		}
		out = append(out, drain(eager, now+time.Hour)...)
		for { // the rare looker sees all at once, and must be told of each the true instant
			at, ok := lazy.Next()
			if !ok {
				break
			}
			p := lazy.Take(max(at, now))
			later = append(later, delivery{p.Port, p.due})
			lazy.Delivered(p, true)
		}
		st := eager.Stats(now + time.Hour)
		if st.InPackets != 300 || st.OutPackets+st.Dropped() != 300 || st.Waiting+st.InFlight != 0 || int(st.OutPackets) != len(out) {
			t.Fatalf("seed %d: %d came out, counters are %+v", seed, len(out), st)
		}
		if len(later) != len(out) {
			t.Fatalf("seed %d: %d packets came out looking often, %d looking rarely", seed, len(out), len(later))
		}
		for i, d := range out {
			if later[i] != d {
				t.Fatalf("seed %d: looking often %v, looking rarely %v", seed, d, later[i])
			}
			least := sent[d.n] + l.airtime(sizes[d.n])
			if l.Jitter == 0 {
				least += l.Delay
			}
			if d.at < least {
				t.Fatalf("seed %d: packet %d is early: %v, not before %v", seed, d.n, d.at, least)
			}
			if i == 0 {
				continue
			}
			gap := d.at - out[i-1].at
			if d.n < out[i-1].n || gap < 0 || l.Jitter == 0 && gap < l.airtime(sizes[d.n]) {
				t.Fatalf("seed %d: %v follows %v", seed, d, out[i-1])
			}
		}
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		l    Link
		want string
	}{
		{Link{Delay: -1}, "delay"},
		{Link{Jitter: -1}, "jitter"},
		{Link{Rate: -1}, "rate"},
		{Link{Overhead: -1}, "overhead"},
		{Link{Queue: -1}, "queue"},
		{Link{Loss: -0.1}, "loss"},
		{Link{Loss: 1.1}, "loss"},
		{Link{Loss: math.NaN()}, "loss"},
	} {
		_, err := New(c.l)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.l, err)
		}
		if err := newShaper(t, Link{}).Set(0, c.l); err == nil {
			t.Errorf("%+v may be set", c.l)
		}
	}
	s := newShaper(t, Link{})
	if s.Pause(0, -1, Hold) == nil || s.Pause(0, 1, 2) == nil {
		t.Error("no error for an impossible pause")
	}
}

func TestMemoryIsBoundedAndReused(t *testing.T) {
	s := newShaper(t, Link{Delay: time.Hour})
	p := s.Get()
	s.Put(p)
	if s.Get() != p {
		t.Error("a packet that was put back is not used again")
	}
	accepted := 0
	for n := range maxHeld + 10 {
		q := &Packet{Data: p.Buf[:20], Port: n}
		if s.Arrive(0, q) {
			accepted++
		}
	}
	if st := s.Stats(0); accepted != maxHeld || st.DroppedOverflow != 10 {
		t.Errorf("%d packets held, counters are %+v", accepted, st)
	}
}
