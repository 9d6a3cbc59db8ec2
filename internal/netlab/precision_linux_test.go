package netlab

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/internal/netlab/linkd"
	"golang.org/x/sys/unix"
)

// Delays come out as set, never early, and, unless the machine is too busy to tell,
// hardly late; also while signals cut the link's sleeps short all the time.
func TestDelayIsExact(t *testing.T) {
	Require(t)
	KeepAwake(t)
	for _, c := range []struct {
		out, back time.Duration
		signals   bool
	}{
		{0, 0, false},
		{5 * time.Millisecond, 15 * time.Millisecond, false},
		{15 * time.Millisecond, 5 * time.Millisecond, true},
	} {
		t.Run(fmt.Sprintf("%v_%v_signals_%v", c.out, c.back, c.signals), func(t *testing.T) {
			l := New(t, Config{AtoB: Link{Delay: c.out}, BtoA: Link{Delay: c.back}})
			if c.signals {
				defer storm(t, l.LinkPID())()
			}
			// Any run will do. None on a machine that lets even a mere sleep at this priority
			// run over says nothing about the link.
			const runs = 3
			var idle, verdicts []string
			for range runs {
				verdict, exact, busy := exactness(t, l, c.out, c.back)
				if exact {
					t.Log(verdict)
					return
				}
				verdicts = append(verdicts, verdict)
				if !busy {
					idle = append(idle, verdict)
				}
			}
			if len(idle) == 0 {
				t.Skipf("the machine was too busy in %d runs: %s", runs, strings.Join(verdicts, "\n"))
			}
			t.Errorf("not exact on an idle machine: %s", strings.Join(idle, "\n"))
		})
	}
}

// exactness does one run. A packet that is early or lost fails the test at once.
func exactness(t *testing.T, l *Lab, out, back time.Duration) (verdict string, exact, busy bool) {
	t.Helper()
	const (
		worstMedian, worstP99 = 300 * time.Microsecond, time.Millisecond
		// What a thread at the link's priority is late by when it just sleeps, in one of a
		// thousand cases: a single stall of 20 ms makes more packets than that late.
		worstSleep = time.Millisecond
	)
	machine := watchMachine()
	trips := (&echo{n: 500, ipLength: 128, gap: 4 * time.Millisecond}).run(t, l)
	floor := permille(machine(), 999)
	var late [2][]time.Duration
	for i, x := range trips {
		if x.lost {
			t.Fatalf("packet %d was lost", i)
		}
		if x.out < out || x.back < back {
			t.Fatalf("packet %d was early: %v for %v out, %v for %v back", i, x.out, out, x.back, back)
		}
		late[AtoB] = append(late[AtoB], x.out-out)
		late[BtoA] = append(late[BtoA], x.back-back)
	}
	exact = true
	for d, v := range late {
		p50, p99 := percentile(v, 50), percentile(v, 99)
		verdict += fmt.Sprintf("%v: p50 %v, p99 %v late; ", Direction(d), p50, p99)
		exact = exact && p50 <= worstMedian && p99 <= worstP99
	}
	verdict += fmt.Sprintf("a mere sleep: p99.9 %v", floor)
	return verdict, exact, floor > worstSleep
}

// watchMachine is to get up every 2 ms, on a thread at the link's priority, until the
// function it returns is called, which gives how late it was each time. As with
// packets, one long stall makes many late.
func watchMachine() (stop func() []time.Duration) {
	quit, result := make(chan struct{}), make(chan []time.Duration)
	go func() {
		runtime.LockOSThread()
		var late []time.Duration
		start := time.Now()
		for due := time.Duration(0); ; due += 2 * time.Millisecond {
			select {
			case <-quit:
				result <- late
				return
			default:
			}
			sleepUntil(start, due)
			late = append(late, time.Since(start)-due)
		}
	}()
	return func() []time.Duration { close(quit); return <-result }
}

// storm sends signals to every thread of a process until the returned function is
// called.
func storm(t *testing.T, pid int) (stop func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-quit:
				return
			case <-time.After(300 * time.Microsecond):
			}
			err := linkd.EachThread(pid, func(tid int) error { return unix.Tgkill(pid, tid, unix.SIGURG) })
			if err != nil {
				t.Errorf("signals: %v", err)
				return
			}
		}
	}()
	return func() { close(quit); <-ended }
}

// percentile of v, which it sorts.
func percentile(v []time.Duration, p int) time.Duration { return permille(v, 10*p) }

func permille(v []time.Duration, p int) time.Duration {
	slices.Sort(v)
	return v[min(len(v)-1, len(v)*p/1000)]
}

// deviation is the standard deviation of v if it is normal, from its quartiles, so
// that a few packets delayed by a busy machine don't matter.
func deviation(v []time.Duration) time.Duration {
	const quartiles = 1.349 // distance of a normal distribution's, in standard deviations
	return time.Duration(math.Round(float64(percentile(v, 75)-percentile(v, 25)) / quartiles))
}
