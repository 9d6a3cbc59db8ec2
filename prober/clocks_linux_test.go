package prober

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/internal/iperftest"
	"github.com/bounceback-exporter/bounceback_exporter/internal/netlab"
	"github.com/bounceback-exporter/bounceback_exporter/prober/fakeserver"
)

// checkWithheld: a far clock that is off by offset is noticed, one-way delays are
// withheld, and nothing else suffers.
func checkWithheld(t *testing.T, r *Result, offset time.Duration) {
	t.Helper()
	if !r.Success() {
		t.Fatal(r.Err)
	}
	if r.Clock == nil || r.Clock.OK() || r.OWDValid() {
		t.Fatalf("the clock check passed: %+v", r.Clock)
	}
	n := len(r.Windows[0].Samples) + 1
	if r.Clock.Failures != n {
		t.Errorf("%d clock failures of %d bounces", r.Clock.Failures, n)
	}
	if r.Clock.LowerBound > offset || r.Clock.UpperBound < offset {
		t.Errorf("the bounds [%v, %v] don't enclose the true offset %v", r.Clock.LowerBound, r.Clock.UpperBound, offset)
	}
	// By the wall clock, like the bounds: the monotonic one, which the RTT is of, is
	// read a few nanoseconds later.
	network := func(s *Sample) time.Duration { return time.Duration(s.ReceivedWall-s.SentWall) - s.Dwell() }
	narrowest := network(r.First)
	for i := range r.Windows[0].Samples {
		narrowest = min(narrowest, network(&r.Windows[0].Samples[i]))
	}
	if width := r.Clock.UpperBound - r.Clock.LowerBound; width > narrowest+time.Microsecond {
		t.Errorf("the bounds are %v apart, the narrowest bounce is %v", width, narrowest)
	}
}

// shifted puts a process's clock off by so much, as libfaketime spells it. The
// library is preloaded here: the wrapper of that name leaves a child behind.
func shifted(t *testing.T, wrap iperftest.Wrap, shift string) iperftest.Wrap {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	if len(found) == 0 {
		t.Skip("needs Debian's package libfaketime")
	}
	return func(name string, args ...string) *exec.Cmd {
		cmd := wrap(name, args...)
		env := cmd.Env
		if env == nil {
			env = os.Environ()
		}
		cmd.Env = append(env, "LD_PRELOAD="+found[0], "FAKETIME="+shift)
		return cmd
	}
}

// A real server whose clock is off by seconds either way.
func TestClockOfRealServerOff(t *testing.T) {
	for _, c := range []struct {
		shift  string
		offset time.Duration
	}{{"+5s", 5 * time.Second}, {"-5s", -5 * time.Second}} {
		t.Run(c.shift, func(t *testing.T) {
			addr := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), iperftest.FreePort(t))
			s := iperftest.StartAt(t, shifted(t, exec.Command, c.shift), addr)
			pr := New(Options{})
			r := pr.Run(t.Context(), &Job{Module: module(owd(500 * time.Millisecond)), Addr: s.Addr})
			checkWithheld(t, r, c.offset)
			if rtt := median(r.Windows[0].Samples, (*Sample).RTT); rtt > 100*time.Millisecond || rtt <= 0 {
				t.Errorf("median RTT %v on loopback", rtt)
			}
		})
	}
}

// An offset that is smaller than the one-way delays passes the check, and makes
// the asymmetry wrong by twice itself: the limit that the documentation states.
func TestClockOffsetThatTheCheckCannotSee(t *testing.T) {
	netlab.Require(t)
	iperftest.Require(t)
	netlab.KeepAwake(t)
	lab := netlab.New(t, netlab.Config{AtoB: netlab.Link{Delay: 10 * time.Millisecond}, BtoA: netlab.Link{Delay: 10 * time.Millisecond}})
	s := iperftest.StartAt(t, shifted(t, lab.B.Command, "+0.001s"), netip.AddrPortFrom(lab.B.Addr4, 5001))
	p := &path{lab, s, t}
	bestOf(t, 3, func() []string {
		r := p.probe(New(Options{}), owd(3*time.Second), func(m *config.Module) { m.Period = 40 * time.Millisecond })
		if !r.OWDValid() {
			t.Fatalf("the check saw an offset of 1 ms on a path of 10 ms each way: %+v", *r.Clock)
		}
		if r.Clock.LowerBound > time.Millisecond || r.Clock.UpperBound < time.Millisecond {
			t.Errorf("the bounds [%v, %v] don't enclose the true offset", r.Clock.LowerBound, r.Clock.UpperBound)
		}
		// True: 0. The far clock is 1 ms ahead: to_server reads 11, from_server 9.
		if a := median(r.Windows[0].Samples, (*Sample).Asymmetry); diff(a, -2*time.Millisecond) > 600*time.Microsecond {
			return []string{"asymmetry " + a.String() + ", want -2ms"}
		}
		return nil
	})
}

// Our own wall clock is set back by a second in the middle of a probe.
func TestClockStepInMidProbe(t *testing.T) {
	s := iperftest.Start(t)
	pr := New(Options{})
	var shift atomic.Int64
	pr.wallShift = shift.Load
	timer := time.AfterFunc(500*time.Millisecond, func() { shift.Store(-int64(time.Second)) })
	defer timer.Stop()
	r := pr.Run(t.Context(), &Job{Module: module(owd(time.Second)), Addr: s.Addr})
	if !r.Success() {
		t.Fatal(r.Err)
	}
	if r.OWDValid() {
		t.Error("one-way delays published across a step of the clock")
	}
	if !r.Clock.Step.OK || diff(r.Clock.Step.V, -time.Second) > time.Millisecond {
		t.Errorf("step %+v, want -1s", r.Clock.Step)
	}
	for i := range r.Windows[0].Samples {
		if rtt := r.Windows[0].Samples[i].RTT(); rtt <= 0 || rtt > 500*time.Millisecond {
			t.Errorf("bounce %d has an RTT of %v", i, rtt)
		}
	}
}

// A test without a step says a measured 0, not a few nanoseconds.
func TestClockWithoutStep(t *testing.T) {
	w := &stopwatch{base: time.Now()}
	for range 1000 {
		a := w.mark()
		if step := w.mark().stepSince(a); step != 0 {
			t.Fatalf("a step of %v that nobody made", step)
		}
	}
}

// On loopback one-way delays are a few microseconds, hardly more than the
// truncation of the server's stamps: the check must not fail there, ever.
func TestClockCheckNeverFalseOnLoopback(t *testing.T) {
	t.Parallel()
	pr := New(Options{})
	// Most of a probe is the pause between two connections: hence several servers.
	const servers, probes = 4, 250
	var bounces atomic.Int64
	var all sync.WaitGroup
	for range servers {
		s := iperftest.Start(t)
		all.Go(func() {
			for i := range probes {
				r := pr.Run(t.Context(), &Job{Module: module(func(m *config.Module) {
					m.TripTimes, m.Duration, m.Count = true, 0, 20
				}), Addr: s.Addr})
				if !r.Success() {
					t.Errorf("probe %d: %v", i, r.Err)
					return
				}
				if !r.OWDValid() {
					t.Errorf("probe %d: a false clock failure: %+v", i, *r.Clock)
					return
				}
				bounces.Add(int64(len(r.Windows[0].Samples)))
			}
		})
	}
	all.Wait()
	if n := bounces.Load(); n != servers*probes*20 && !t.Failed() {
		t.Errorf("%d bounces", n)
	}
}

// The same with a peer whose clock the test sets, to the microsecond.
func TestClockOfAPeerOff(t *testing.T) {
	for _, offset := range []time.Duration{5 * time.Second, -5 * time.Second, 100 * time.Millisecond} {
		s := fakeserver.Start(t, fakeserver.Script{ClockOffset: offset})
		pr := New(Options{})
		r := pr.Run(t.Context(), &Job{Module: module(owd(300 * time.Millisecond)), Addr: s.Addr()})
		checkWithheld(t, r, offset)
		if err := pr.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
