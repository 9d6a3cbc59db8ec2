package prober

import (
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/internal/iperftest"
	"github.com/bounceback-exporter/bounceback_exporter/internal/netlab"
)

// checkLoad states what is true of every test whose load ran to its end: the
// bytes of the directions that were asked for and no others, more of them than
// least in a second.
func checkLoad(t *testing.T, r *Result, least float64) {
	t.Helper()
	checkComplete(t, r)
	cg, ld := r.Module.Congest, r.Load
	if ld == nil || !ld.Started || ld.Streams != cg.Streams || string(ld.Direction) != cg.Direction {
		t.Fatalf("load %+v", ld)
	}
	if len(r.Windows) != 2 || r.Windows[0].Load != LoadNone || r.Windows[1].Load != ld.Direction {
		t.Fatalf("%d windows", len(r.Windows))
	}
	if d := time.Duration(r.Windows[1].End - r.Windows[1].Start); ld.Duration < d || ld.Duration > d+lateness {
		t.Errorf("the load was measured for %v, the window took %v", ld.Duration, d)
	}
	up, down := cg.Direction != "down", cg.Direction != "up"
	for what, v := range map[string]struct {
		want bool
		got  Optional[uint64]
	}{"to": {up, ld.BytesToServer}, "from": {down, ld.BytesFromServer}} {
		rate := float64(v.got.V) / ld.Duration.Seconds()
		if v.got.OK != v.want || v.want && rate < least {
			t.Errorf("bytes %s the server: %+v, %.0f a second, want at least %.0f", what, v.got, rate, least)
		}
	}
	if ld.TCPRTTMean.OK != up || ld.TCPRTTMax.OK != up || ld.TCPRetransmits.OK != up {
		t.Errorf("what the sender knows: mean RTT %+v, max %+v, retransmits %+v; sending: %v", ld.TCPRTTMean, ld.TCPRTTMax, ld.TCPRetransmits, up)
	}
	if up && (ld.TCPRTTMean.V <= 0 || ld.TCPRTTMax.V < ld.TCPRTTMean.V) {
		t.Errorf("mean RTT %v, max %v", ld.TCPRTTMean.V, ld.TCPRTTMax.V)
	}
}

// checkEnded: nothing is left in the background, and no connection ended without
// the server's FIN.
func checkEnded(t *testing.T, p *Prober, within time.Duration) {
	t.Helper()
	idle(t, p, within)
	if n := p.DrainsAbandoned(); n != 0 {
		t.Errorf("%d connections did not end by the server's FIN", n)
	}
}

// Every kind of load on a real server, on loopback, where it takes all the CPU
// there is: the server logs no error, and the stock client's test beside it
// completes in its own time.
func TestLoadRealServer(t *testing.T) {
	for _, dir := range []string{"up", "down", "both"} {
		for _, n := range []int{1, 4} {
			t.Run(map[int]string{1: "one ", 4: "four "}[n]+dir, func(t *testing.T) {
				s := iperftest.Start(t)
				p := New(Options{})
				stock := iperftest.StartStock(t, nil, s.Addr, 2*time.Second)
				r := p.Run(t.Context(), &Job{Module: module(loaded(dir, n, time.Second)), Addr: s.Addr})
				checkLoad(t, r, 10e6)
				checkEnded(t, p, 10*time.Second)
				stock.CheckUndisturbed(iperftest.Late)
				s.CheckClean()
				s.CheckNoCloseWait(time.Second)
				sees := map[string]string{"up": "(sock", "down": "(reverse)", "both": "(full-duplex)"}[dir]
				if dir != "up" && strings.Count(s.Log(), sees) != n {
					t.Errorf("the server did not see %d streams %s:\n%s", n, dir, s.Log())
				}
			})
		}
	}
}

// The same over a path of real packets, at the rate that it has, with the stock
// client on another host.
func TestLoadRealServerInALab(t *testing.T) {
	tests := make(map[string]func(*testing.T))
	for _, dir := range []string{"up", "down", "both"} {
		for _, n := range []int{1, 4} {
			tests[map[int]string{1: "one ", 4: "four "}[n]+dir] = func(t *testing.T) {
				const rate = 20e6
				l := netlab.Link{Delay: 2 * time.Millisecond, Rate: rate, Queue: 50}
				p := newPathOf(t, netlab.Config{AtoB: l, BtoA: l, Extra: 1})
				stock := iperftest.StartStock(t, p.Extra[0].Command, p.server.Addr, 4*time.Second)
				pr := New(Options{})
				r := p.probe(pr, loaded(dir, n, 2*time.Second))
				checkLoad(t, r, rate/8/4)
				checkEnded(t, pr, 15*time.Second)
				stock.CheckUndisturbed(iperftest.Late)
				p.server.CheckClean()
			}
		}
	}
	sideBySide(t, tests)
}

// A server that takes one connection at a time has no ear for a load while it
// bounces: that is said, in time, and the load that it comes to later is waited
// for without taking it.
func TestLoadOneConnectionServer(t *testing.T) {
	tests := make(map[string]func(*testing.T))
	for _, dir := range []string{"up", "down", "both"} {
		s := iperftest.Start(t, "-1")
		for iperftest.SocketsIn(t, s.Addr.Port(), "0A") == 0 { // it says that it listens a moment before it does
			time.Sleep(time.Millisecond)
		}
		tests[dir] = func(t *testing.T) {
			p := New(Options{})
			r := p.Run(t.Context(), &Job{Module: module(loaded(dir, 1, time.Second)), Addr: s.Addr})
			want(t, r, ReasonLoadFailed)
			if t.Failed() {
				return
			}
			if !strings.Contains(r.Err.Error(), "-1") {
				t.Errorf("%v: not a word of -1", r.Err)
			}
			if due := 200*time.Millisecond + loadProof; r.Elapsed < due || r.Elapsed > due+lateness {
				t.Errorf("failed after %v, due after %v", r.Elapsed, due)
			}
			if r.Load.Started {
				t.Error("the load counts as started")
			}
			checkEnded(t, p, 15*time.Second)
			s.CheckClean()
			// A plain probe finds the server as it was.
			checkComplete(t, p.Run(t.Context(), &Job{Module: module(counted(5)), Addr: s.Addr}))
			checkEnded(t, p, 5*time.Second)
			s.CheckClean()
			// What it sent is what the buffers of both sides hold.
			sent := regexp.MustCompile(`(?m)^\[.* \S+ MBytes`).FindString(s.Log())
			if strings.Contains(s.Log(), "GBytes") || (sent == "") != (dir == "up") {
				t.Errorf("the load ran all the same:\n%s", s.Log())
			}
		}
	}
	sideBySide(t, tests)
}

// A server that dies in mid-load: a failure at once, and nothing is left.
func TestLoadServerDies(t *testing.T) {
	for _, dir := range []string{"up", "down", "both"} {
		t.Run(dir, func(t *testing.T) {
			s := iperftest.Start(t)
			p := New(Options{})
			const dies = 900 * time.Millisecond
			killed := make(chan error, 1)
			time.AfterFunc(dies, func() { killed <- syscall.Kill(s.Pid(), syscall.SIGKILL) })
			r := p.Run(t.Context(), &Job{Module: module(loaded(dir, 2, 1500*time.Millisecond)), Addr: s.Addr})
			if err := <-killed; err != nil {
				t.Fatal(err)
			}
			if r.Err == nil || r.Err.Reason != ReasonLoadFailed && r.Err.Reason != ReasonClosedEarly {
				t.Errorf("%v, want load_failed or closed_early%s", r.Err, logOf(r))
			}
			if r.Elapsed < dies || r.Elapsed > dies+lateness {
				t.Errorf("failed after %v, the server died after %v", r.Elapsed, dies)
			}
			if len(r.Windows) != 2 || len(r.Windows[1].Samples) == 0 || !r.Load.Started {
				t.Errorf("what came until then was not kept: %d windows, load %+v", len(r.Windows), r.Load)
			}
			idle(t, p, 10*time.Second)
			if n := iperftest.SocketsIn(t, s.Addr.Port(), "01"); n != 0 {
				t.Errorf("%d sockets are left", n)
			}
		})
	}
}
