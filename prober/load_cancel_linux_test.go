package prober

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/internal/iperftest"
	"github.com/bounceback-exporter/bounceback_exporter/internal/netlab"
)

// checkNoSockets fails the test if, after a second, a host still has TCP sockets
// that have to do with a port.
func checkNoSockets(t *testing.T, h *netlab.Host, port uint16) {
	t.Helper()
	var left []string
	// A FIN whose acknowledgement was lost is sent again after a while.
	for range 250 {
		if left = sockets(t, h, port); len(left) == 0 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("sockets are left at %v: %q", h.Addr4, left)
}

// sockets lists a host's TCP sockets that have to do with a port and are neither
// listening nor closed but for the kernel's memory of them (TIME_WAIT).
func sockets(t *testing.T, h *netlab.Host, port uint16) (found []string) {
	t.Helper()
	err := h.Do(func() error {
		// Of the thread: /proc/net is the main thread's.
		b, err := os.ReadFile("/proc/thread-self/net/tcp")
		if err != nil {
			return err
		}
		suffix := fmt.Sprintf(":%04X", port)
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			if len(f) > 3 && (strings.HasSuffix(f[1], suffix) || strings.HasSuffix(f[2], suffix)) && f[3] != "06" && f[3] != "0A" {
				found = append(found, strings.Join(f[1:5], " "))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// runFrom runs one probe from host A, whatever comes of it.
func (p *path) runFrom(ctx context.Context, pr *Prober, addr netip.AddrPort, m *config.Module) *Result {
	p.t.Helper()
	var r *Result
	if err := p.A.Do(func() error {
		r = pr.Run(ctx, &Job{Module: m, Addr: addr})
		return nil
	}); err != nil {
		p.t.Error(err)
	}
	return r
}

// moved is what the link delivers in either direction within d, in bytes.
func (p *path) moved(d time.Duration) (out, back uint64) {
	a, b := p.Link(netlab.AtoB).Stats(), p.Link(netlab.BtoA).Stats()
	time.Sleep(d)
	return p.Link(netlab.AtoB).Stats().OutBytes - a.OutBytes, p.Link(netlab.BtoA).Stats().OutBytes - b.OutBytes
}

// A load that is called off, or that meets its deadline, in its middle: within a
// second nothing of it flows any more, the stock client's test on the same server
// goes on to its own end, and after the load's time nothing is left of it.
func TestLoadCalledOff(t *testing.T) {
	tests := make(map[string]func(*testing.T))
	for _, dir := range []string{"up", "down", "both"} {
		for _, args := range [][]string{nil, {"-i", "1"}} {
			tests[strings.Join(append([]string{dir}, args...), " ")] = func(t *testing.T) {
				l := netlab.Link{Delay: 5 * time.Millisecond, Rate: 10e6, Queue: 50}
				p := newPathOf(t, netlab.Config{AtoB: l, BtoA: l, Extra: 1}, args...)
				stock := iperftest.StartStock(t, p.Extra[0].Command, p.server.Addr, 13*time.Second)
				p.cancelled(t, dir)
				p.late(t, dir)
				stock.CheckUndisturbed(iperftest.Late)
				p.server.CheckClean()
				checkNoSockets(t, p.B, p.server.Addr.Port())
			}
		}
	}
	sideBySide(t, tests)
}

// onLoad is when a load is on: it began before half of that, and has lost, and sent
// again, what overflowed the queue at its start.
const onLoad = 1800 * time.Millisecond

// interrupted runs a probe with a load for which something happens at onLoad, and
// states what is true of all of them.
func (p *path) interrupted(ctx context.Context, t *testing.T, pr *Prober, dir string, reason Reason, what func()) *Result {
	t.Helper()
	flowing := make(chan [2]uint64, 1)
	time.AfterFunc(onLoad-300*time.Millisecond, func() {
		out, back := p.moved(200 * time.Millisecond)
		flowing <- [2]uint64{out, back}
	})
	timer := time.AfterFunc(onLoad, what)
	defer timer.Stop()
	r := p.runFrom(ctx, pr, p.server.Addr, module(loaded(dir, 2, 3500*time.Millisecond)))
	want(t, r, reason)
	if r.Load == nil || !r.Load.Started || len(r.Windows) != 2 || len(r.Windows[1].Samples) == 0 {
		t.Fatalf("what came until then was not kept: load %+v, %d windows", r.Load, len(r.Windows))
	}
	// The link lets 250 KB through in 200 ms; the stock client's bounces are 6 KB.
	const much = 100 << 10
	if was := <-flowing; dir != "down" && was[0] < much || dir != "up" && was[1] < much {
		t.Errorf("the load did not flow: %v bytes in 200 ms", was)
	}
	return r
}

func (p *path) cancelled(t *testing.T, dir string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	pr := New(Options{})
	var began time.Time
	p.interrupted(ctx, t, pr, dir, ReasonCancelled, func() { began = time.Now(); cancel() })
	if late := time.Since(began); late > lateness {
		t.Errorf("answered %v after the cancellation", late)
	}
	time.Sleep(time.Until(began.Add(time.Second)))
	if pr.DrainsInFlight() == 0 && dir != "up" {
		t.Error("the server's time is not waited for")
	}
	// The stock client has 15 KB in half a second.
	if out, back := p.moved(500 * time.Millisecond); max(out, back) > 30<<10 {
		t.Errorf("after a second %d bytes to the server and %d from it flow in 500 ms", out, back)
	}
	checkEnded(t, pr, 10*time.Second)
	checkNoSockets(t, p.A, p.server.Addr.Port())
}

// late lets a load run into its deadline: the way back stands still from the
// middle of the load until after it, so that a bounce is outstanding then.
func (p *path) late(t *testing.T, dir string) {
	t.Helper()
	const timeout = 3 * time.Second // less than the test takes, but not half of it
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	pr := New(Options{})
	r := p.interrupted(ctx, t, pr, dir, ReasonTimeout, func() {
		p.Link(netlab.BtoA).Pause(timeout-onLoad+50*time.Millisecond, netlab.Hold)
	})
	if r.Elapsed < timeout-10*time.Millisecond || r.Elapsed > timeout+lateness {
		t.Errorf("answered after %v of %v", r.Elapsed, timeout)
	}
	// Its time comes soon: what flows until all is over is what socket buffers hold.
	a, b := p.Link(netlab.AtoB).Stats(), p.Link(netlab.BtoA).Stats()
	checkEnded(t, pr, 10*time.Second)
	out, back := p.Link(netlab.AtoB).Stats().OutBytes-a.OutBytes, p.Link(netlab.BtoA).Stats().OutBytes-b.OutBytes
	t.Logf("after the deadline %d bytes to the server and %d from it", out, back)
	if out > 1<<20 || back > 4<<20 {
		t.Errorf("after the deadline %d bytes to the server and %d from it", out, back)
	}
	checkNoSockets(t, p.A, p.server.Addr.Port())
	if out, back := p.moved(300 * time.Millisecond); max(out, back) > 20<<10 {
		t.Errorf("when all was over %d bytes to the server and %d from it flow in 300 ms", out, back)
	}
}

// A cancellation at any moment of a probe with a load, its opening included,
// leaves the server as it was.
func TestLoadCalledOffAnywhere(t *testing.T) {
	l := netlab.Link{Delay: 10 * time.Millisecond, Rate: 50e6, Queue: 100}
	p := newPath(t, l, l)
	tests := make(map[string]func(*testing.T))
	directions := []string{"up", "down", "both"}
	for i := range 21 {
		at, dir := time.Duration(i)*30*time.Millisecond, directions[i%3]
		s := iperftest.StartAt(t, p.B.Command, netip.AddrPortFrom(p.B.Addr4, uint16(6001+i)))
		tests[fmt.Sprintf("%s after %v", dir, at)] = func(t *testing.T) {
			pr := New(Options{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			m := module(loaded(dir, 3, 500*time.Millisecond), func(m *config.Module) {
				m.Congest.Baseline, m.Congest.Warmup = 100*time.Millisecond, 0
			})
			time.AfterFunc(at, cancel)
			r := p.runFrom(ctx, pr, s.Addr, m)
			want(t, r, ReasonCancelled)
			checkEnded(t, pr, 10*time.Second)
			s.CheckClean()
			r = p.runFrom(t.Context(), pr, s.Addr, module(counted(3)))
			want(t, r, "")
			checkEnded(t, pr, 5*time.Second)
			s.CheckClean()
			checkNoSockets(t, p.A, s.Addr.Port())
		}
	}
	sideBySide(t, tests)
}
