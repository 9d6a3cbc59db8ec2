package prober

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/internal/netlab"
	"github.com/bounceback-exporter/bounceback_exporter/prober/fakeserver"
	"github.com/bounceback-exporter/bounceback_exporter/prober/wire"
)

// A connect that is given up at the very moment at which it would succeed: either
// it never comes into being, or it gets a whole message and a FIN. The answer to
// our SYN takes 20 ms; the deadlines fall around that.
func TestGivingUpAConnectAsItSucceeds(t *testing.T) {
	netlab.Require(t)
	t.Parallel()
	lab := netlab.New(t, netlab.Config{AtoB: netlab.Link{Delay: 10 * time.Millisecond}, BtoA: netlab.Link{Delay: 10 * time.Millisecond}})
	s := labServer(t, lab, fakeserver.Script{Version: wire.V2_1_8})
	var all sync.WaitGroup
	var mu sync.Mutex
	given, gotThrough := 0, 0
	for range 8 {
		all.Go(func() {
			p := New(Options{})
			for range 40 {
				p.opts.Peers = New(Options{}).opts.Peers // nothing to wait for
				m := module(counted(3), func(m *config.Module) {
					m.Timeout = 19*time.Millisecond + time.Duration(rand.IntN(3000))*time.Microsecond
				})
				var r *Result
				if err := lab.A.Do(func() error {
					r = p.Run(t.Context(), &Job{Module: m, Addr: s.Addr()})
					return nil
				}); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				switch {
				case r.Connect != nil:
					gotThrough++
				case r.Phases[PhaseConnect].OK:
					given++
				}
				mu.Unlock()
				// On a busy machine the time may be over before anything began.
				if r.Err == nil || r.Phases[PhaseConnect].OK && r.Err.Reason != ReasonConnectTimeout && r.Err.Reason != ReasonSilent {
					t.Errorf("%v", r.Err)
				}
				idle(t, p, 10*time.Second)
			}
		})
	}
	all.Wait()
	// What the kernel of the far host repeats, it repeats after a second.
	time.Sleep(1300 * time.Millisecond)
	j := checkJournal(t, s, gotThrough)
	t.Logf("%d connects given up, %d got through, %d connections came into being", given, gotThrough, len(j))
	if given < 20 || gotThrough < 20 {
		t.Errorf("the deadlines did not fall around the answer: %d connects given up, %d got through", given, gotThrough)
	}
	if len(j) < gotThrough {
		t.Errorf("%d connections, but %d probes were connected", len(j), gotThrough)
	}
}

// A SYN that is still under way when we give up finds nobody who would answer.
func TestGivingUpAConnectLongBefore(t *testing.T) {
	netlab.Require(t)
	t.Parallel()
	lab := netlab.New(t, netlab.Config{AtoB: netlab.Link{Delay: 600 * time.Millisecond}})
	s := labServer(t, lab, fakeserver.Script{})
	p := New(Options{})
	for range 3 {
		m := module(counted(3), func(m *config.Module) { m.Timeout = 500 * time.Millisecond })
		var r *Result
		fromHost(t, lab.A, func() { r = p.Run(t.Context(), &Job{Module: m, Addr: s.Addr()}) })
		want(t, r, ReasonConnectTimeout)
	}
	idle(t, p, 100*time.Millisecond+lateness)
	time.Sleep(2 * time.Second)
	if j := s.Journal(); len(j) != 0 {
		t.Errorf("connections came into being after they were given up: %+v", j)
	}
}

// On loopback a connect takes some tens of microseconds; probes cancelled before,
// while and after never leave a mute connection.
func TestCancelAroundConnect(t *testing.T) {
	t.Parallel()
	s := fakeserver.Start(t, fakeserver.Script{Version: wire.V2_1_9})
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			p := New(Options{})
			for range 250 {
				ctx, cancel := context.WithCancel(t.Context())
				delay := time.Duration(rand.IntN(150)) * time.Microsecond
				go func() {
					for begin := time.Now(); time.Since(begin) < delay; {
					}
					cancel()
				}()
				p.opts.Peers = New(Options{}).opts.Peers
				r := p.Run(ctx, &Job{Module: module(counted(config.MaxCount), held(time.Duration(i)*time.Millisecond)), Addr: s.Addr()})
				want(t, r, ReasonCancelled)
				cancel()
				idle(t, p, 10*time.Second)
			}
		})
	}
	all.Wait()
	checkJournal(t, s, 1)
}

// A process that has to go at once half-closes every connection first, in whatever
// state it is.
func TestHalfCloseAll(t *testing.T) {
	t.Parallel()
	p := New(Options{})
	scripts := []fakeserver.Script{
		{Version: wire.V2_1_9, Fault: fakeserver.Fault{Action: fakeserver.Stop, Reply: 1}}, // in the handshake
		{Version: wire.V2_1_9, Fault: fakeserver.Fault{Action: fakeserver.Stop, Reply: 3}}, // in the loop
		{Version: wire.V2_1_9, NeverClose: true},                                           // in the drain
	}
	var servers []*fakeserver.Server
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	probe := func(addr netip.AddrPort) {
		all.Go(func() { p.Run(ctx, &Job{Module: module(counted(5)), Addr: addr}) })
	}
	for _, script := range scripts {
		s := fakeserver.Start(t, script)
		servers = append(servers, s)
		probe(s.Addr())
	}
	nobody := deaf(t)
	probe(nobody) // in the connect
	begun := time.Now()
	for i, s := range servers {
		for j := s.Journal(); len(j) == 0 || !j[0].FirstComplete || p.DrainsInFlight() == 0; j = s.Journal() {
			if time.Since(begun) > 5*time.Second {
				t.Fatalf("server %d: %+v", i, j)
			}
			time.Sleep(time.Millisecond)
		}
	}
	time.Sleep(50 * time.Millisecond)
	p.HalfCloseAll()
	for i, s := range servers {
		deadline := time.Now().Add(2 * time.Second)
		for s.Journal()[0].End == fakeserver.Open && time.Now().Before(deadline) {
			time.Sleep(time.Millisecond)
		}
		if c := s.Journal()[0]; c.End != fakeserver.FIN {
			t.Errorf("server %d: the client's end was %v: %+v", i, c.End, c)
		}
	}
	cancel()
	all.Wait()
	for _, s := range servers {
		s.Close()
	}
	idle(t, p, 10*time.Second)
}
