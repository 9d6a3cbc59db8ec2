package peers

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const gap = 100 * time.Millisecond

var errGone = errors.New("whoever asked has gone")

func addr(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 5001)
}

func mustHandshake(t *testing.T, tab *Table, a netip.AddrPort) *Slot {
	t.Helper()
	s, err := tab.Handshake(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestHandshakeInOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := New(Options{})
		held := mustHandshake(t, tab, addr(1))
		var order []int
		for i := range 5 {
			go func() {
				s, err := tab.Handshake(t.Context(), addr(1))
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, i) // guarded by the slot itself
				time.Sleep(time.Second)
				s.Release()
			}()
			synctest.Wait()
		}
		if len(order) != 0 {
			t.Fatalf("%v got the slot while it was held", order)
		}
		held.Release()
		time.Sleep(4500 * time.Millisecond)
		synctest.Wait()
		if want := 5; len(order) != want {
			t.Fatalf("%d had their turn after 4.5 s of one second each, want %d", len(order), want)
		}
		for i, got := range order {
			if got != i {
				t.Fatalf("order of turns %v", order)
			}
		}
		time.Sleep(time.Second)
	})
}

func TestHandshakeIsPerAddress(t *testing.T) {
	tab := New(Options{})
	mustHandshake(t, tab, addr(1))
	mustHandshake(t, tab, addr(2))
	otherPort := netip.AddrPortFrom(addr(1).Addr(), 5002)
	mustHandshake(t, tab, otherPort)
}

// Whoever gives up in the line gets his cause, and the line closes up behind him.
func TestHandshakeCancelledWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := New(Options{})
		held := mustHandshake(t, tab, addr(1))
		ctx, cancel := context.WithCancelCause(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := tab.Handshake(ctx, addr(1))
			failed <- err
		}()
		synctest.Wait()
		next := make(chan *Slot, 1)
		go func() {
			s, _ := tab.Handshake(t.Context(), addr(1))
			next <- s
		}()
		synctest.Wait()
		cancel(errGone)
		if err := <-failed; err != errGone {
			t.Errorf("the one who gave up got %v", err)
		}
		select {
		case <-next:
			t.Fatal("the slot was given while held")
		default:
		}
		held.Release()
		(<-next).Release()
		if e := tab.m[addr(1)]; e.refs != 0 || e.slot || e.opening {
			t.Errorf("left behind: %+v", e)
		}
	})
}

func TestHandshakeDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := New(Options{})
		mustHandshake(t, tab, addr(1))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if _, err := tab.Handshake(ctx, addr(1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("waited %v", took)
		}
	})
}

// A turn granted to somebody who gives up at the same moment is not lost.
func TestGrantCancelRace(t *testing.T) {
	tab := New(Options{})
	for range 3000 {
		held := mustHandshake(t, tab, addr(1))
		ctx, cancel := context.WithCancel(t.Context())
		var both sync.WaitGroup
		both.Go(func() {
			if s, err := tab.Handshake(ctx, addr(1)); err == nil {
				s.Release()
			}
		})
		both.Go(held.Release)
		both.Go(cancel)
		both.Wait()
		cancel()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := tab.Handshake(ctx, addr(1)); err != nil {
		t.Fatal("the slot got lost: ", err)
	}
}

func TestReleaseTwice(t *testing.T) {
	tab := New(Options{})
	s := mustHandshake(t, tab, addr(1))
	s.Release()
	mustHandshake(t, tab, addr(1))
	s.Release() // must not free what is somebody else's now
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := tab.Handshake(ctx, addr(1)); err == nil {
		t.Error("a second Release freed another one's slot")
	}
}

// end is a connection that was ended.
func end(tab *Table, a netip.AddrPort) {
	d := tab.DrainStarted(a)
	d.Alone(time.Minute)
	d.Ended()
}

func pace(t *testing.T, s *Slot, gap time.Duration) time.Duration {
	t.Helper()
	start := time.Now()
	if err := s.Pace(t.Context(), gap); err != nil {
		t.Fatal(err)
	}
	return time.Since(start)
}

func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := New(Options{})
		s := mustHandshake(t, tab, addr(1))
		if took := pace(t, s, gap); took != 0 {
			t.Errorf("paced %v though nothing had ended", took)
		}
		s.Release()
		end(tab, addr(1))
		time.Sleep(30 * time.Millisecond)
		s = mustHandshake(t, tab, addr(1))
		if took := pace(t, s, gap); took != 70*time.Millisecond {
			t.Errorf("30 ms after an end, paced %v", took)
		}
		if took := pace(t, s, gap); took != 0 {
			t.Errorf("paced %v again", took)
		}
		s.Release()
		end(tab, addr(1))
		s = mustHandshake(t, tab, addr(1))
		if took := pace(t, s, 0); took != 0 {
			t.Errorf("paced %v for a server that needs no gap", took)
		}
		other := mustHandshake(t, tab, addr(2))
		if took := pace(t, other, gap); took != 0 {
			t.Errorf("paced %v for the end of a connection to another server", took)
		}
	})
}

func TestPaceGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := New(Options{})
		s := mustHandshake(t, tab, addr(1))
		end(tab, addr(1))
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(40*time.Millisecond, func() { cancel(errGone) })
		start := time.Now()
		if err := s.Pace(ctx, gap); err != errGone {
			t.Errorf("got %v", err)
		}
		if took := time.Since(start); took != 40*time.Millisecond {
			t.Errorf("gave up after %v", took)
		}
		// Nor is there anything to be opened where nobody waits for it any more.
		if err := s.Pace(ctx, 0); err != errGone {
			t.Errorf("without a gap: %v", err)
		}
		// It did not open anything: an end need not wait.
		d := tab.DrainStarted(addr(1))
		start = time.Now()
		d.Alone(time.Minute)
		if took := time.Since(start); took != 0 {
			t.Errorf("an end waited %v for a handshake that was given up", took)
		}
	})
}

// A clock that was set back must not make anybody wait for ages.
func TestPaceClockSetBack(t *testing.T) {
	now := time.Unix(1e9, 0)
	tab := New(Options{Now: func() time.Time { return now }})
	end(tab, addr(1))
	now = now.Add(-time.Hour)
	s := mustHandshake(t, tab, addr(1))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.Pace(ctx, gap); err != nil {
		t.Error(err)
	}
}

// Nobody opens a connection while another one is between its FIN and the peer's,
// nor for the gap after that.
func TestPaceWaitsForEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := New(Options{})
		for i := range 3 {
			d := tab.DrainStarted(addr(1))
			d.Alone(time.Minute)
			time.AfterFunc(time.Duration(i+1)*300*time.Millisecond, d.Ended)
		}
		s := mustHandshake(t, tab, addr(1))
		if took := pace(t, s, gap); took != 900*time.Millisecond+gap {
			t.Errorf("paced %v, the last end was after 900 ms", took)
		}
	})
}

// The other way round: no end while a handshake is under way, but not for ever.
func TestAloneWaitsForHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := New(Options{})
		s := mustHandshake(t, tab, addr(1))
		alone := func(limit time.Duration) (time.Duration, *Drain) {
			d := tab.DrainStarted(addr(1))
			start := time.Now()
			d.Alone(limit)
			return time.Since(start), d
		}
		took, d := alone(time.Second)
		if took != 0 {
			t.Errorf("waited %v for a slot whose owner has not opened anything", took)
		}
		d.Ended()
		pace(t, s, gap)
		time.AfterFunc(200*time.Millisecond, s.Release)
		if took, d = alone(time.Second); took != 200*time.Millisecond {
			t.Errorf("waited %v for a handshake of 200 ms", took)
		}
		d.Ended()
		s = mustHandshake(t, tab, addr(1))
		pace(t, s, gap)
		if took, d = alone(time.Second); took != time.Second {
			t.Errorf("waited %v for a handshake that does not end, the limit was a second", took)
		}
		d.Ended()
		d.Ended()
		if e := tab.m[addr(1)]; e.ending != 0 || tab.Drains() != 0 {
			t.Errorf("%d ends and %d drains under way after the last", e.ending, tab.Drains())
		}
	})
}

// Handshakes and ends of many goroutines: never both, never two handshakes.
func TestHandshakesAndEndsExclude(t *testing.T) {
	tab := New(Options{})
	var opening, ending atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				s, err := tab.Handshake(t.Context(), addr(1))
				if err != nil {
					t.Error(err)
					return
				}
				if err := s.Pace(t.Context(), time.Microsecond); err != nil {
					t.Error(err)
					return
				}
				if n := opening.Add(1); n != 1 || ending.Load() != 0 {
					t.Errorf("%d handshakes and %d ends at once", n, ending.Load())
				}
				opening.Add(-1)
				s.Release()
				d := tab.DrainStarted(addr(1))
				d.Alone(time.Minute)
				ending.Add(1)
				if n := opening.Load(); n != 0 {
					t.Errorf("an end during %d handshakes", n)
				}
				ending.Add(-1)
				d.Ended()
			}
		})
	}
	all.Wait()
	if e := tab.m[addr(1)]; e.refs != 0 || tab.Drains() != 0 {
		t.Errorf("%d references and %d drains left", e.refs, tab.Drains())
	}
}
