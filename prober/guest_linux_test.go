package prober

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/internal/iperftest"
	"github.com/bounceback-exporter/bounceback_exporter/prober/fakeserver"
	"github.com/bounceback-exporter/bounceback_exporter/prober/wire"
)

// visitor is our prober as a guest of a server that others use too.
type visitor struct {
	t     *testing.T
	s     *iperftest.Server
	p     *Prober
	relay *fakeserver.Relay // forwards slowly, both ways
	rp    *Prober           // what probes through the relay
}

func newVisitor(t *testing.T, s *iperftest.Server) *visitor {
	v := &visitor{t: t, s: s, p: New(Options{}), rp: New(Options{})}
	v.relay = fakeserver.StartRelay(t, s.Addr, fakeserver.RelayOptions{UpRate: 1 << 20, DownRate: 1 << 20, SmallBuffers: true})
	return v
}

// visit is one probe that ends in some way. It tells whether that was the way it
// was meant to end.
type visit func(v *visitor, ctx context.Context) bool

// after is a probe that is cancelled after some time.
func (v *visitor) after(ctx context.Context, d time.Duration, change ...func(*config.Module)) *Result {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.AfterFunc(d, cancel)
	defer timer.Stop()
	return v.p.Run(ctx, &Job{Module: module(change...), Addr: v.s.Addr})
}

// relayed is a probe through the relay with the largest message. To our own rules
// the relay is another server, so nothing else of ours may go on meanwhile.
func (v *visitor) relayed(ctx context.Context, timeout, cancelAfter time.Duration) *Result {
	v.rest()
	defer v.rest()
	v.rp.opts.Peers.Learn(v.relay.Addr(), peerVersion(wire.V2_1_8)) // no version request first
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if cancelAfter > 0 {
		timer := time.AfterFunc(cancelAfter, cancel)
		defer timer.Stop()
	}
	m := module(counted(2), func(m *config.Module) { m.Size, m.Timeout = 131072, timeout })
	return v.rp.Run(ctx, &Job{Module: m, Addr: v.relay.Addr()})
}

// rest waits until nothing of ours goes on, and then as long as a 2.1.8 needs.
func (v *visitor) rest() {
	idle(v.t, v.p, 20*time.Second)
	idle(v.t, v.rp, 20*time.Second)
	time.Sleep(100 * time.Millisecond)
}

func ended(r *Result, in Phase, reasons ...Reason) bool {
	if r.Err == nil {
		return len(reasons) == 0
	}
	for _, reason := range reasons {
		if r.Err.Reason == reason && r.Err.Phase == in {
			return true
		}
	}
	return false
}

// visits are all the ways in which a probe can end, as far as the prober itself
// knows them.
func visits() map[string]visit {
	return map[string]visit{
		"done": func(v *visitor, ctx context.Context) bool {
			return ended(v.p.Run(ctx, &Job{Module: module(counted(5)), Addr: v.s.Addr}), 0)
		},
		// Some tens of microseconds lie between the start of the connect and the end of
		// the first write: the cancellations fall before, between and after.
		"cancelled around connect and first write": func(v *visitor, ctx context.Context) bool {
			v.rest() // so that there is nothing to wait for
			r := v.after(ctx, time.Duration(rand.IntN(300))*time.Microsecond, held(20*time.Millisecond))
			return ended(r, PhaseConnect, ReasonCancelled) || ended(r, PhaseHandshake, ReasonCancelled) || ended(r, PhaseWait, ReasonCancelled)
		},
		"cancelled in the first write": func(v *visitor, ctx context.Context) bool {
			return ended(v.relayed(ctx, 10*time.Second, 30*time.Millisecond), PhaseHandshake, ReasonCancelled)
		},
		"deadline in the first write": func(v *visitor, ctx context.Context) bool {
			return ended(v.relayed(ctx, 40*time.Millisecond, 0), PhaseHandshake, ReasonSilent)
		},
		"cancelled in the first reply": func(v *visitor, ctx context.Context) bool {
			return ended(v.relayed(ctx, 10*time.Second, 220*time.Millisecond), PhaseHandshake, ReasonCancelled)
		},
		"cancelled in the hold of the first reply": func(v *visitor, ctx context.Context) bool {
			return ended(v.after(ctx, 130*time.Millisecond, held(200*time.Millisecond)), PhaseHandshake, ReasonCancelled)
		},
		"cancelled in a later reply": func(v *visitor, ctx context.Context) bool {
			return ended(v.after(ctx, 300*time.Millisecond, held(50*time.Millisecond), counted(100)), PhaseBounce, ReasonCancelled)
		},
		"deadline in a reply": func(v *visitor, ctx context.Context) bool {
			m := module(held(50*time.Millisecond), counted(100), func(m *config.Module) { m.Timeout = 300 * time.Millisecond })
			return ended(v.p.Run(ctx, &Job{Module: m, Addr: v.s.Addr}), PhaseBounce, ReasonTimeout)
		},
		"client gone, back to back": func(v *visitor, ctx context.Context) bool {
			return ended(v.after(ctx, 200*time.Millisecond, counted(config.MaxCount)), PhaseBounce, ReasonCancelled)
		},
		"client gone between two ticks": func(v *visitor, ctx context.Context) bool {
			return ended(v.after(ctx, 200*time.Millisecond, every(time.Second, 1), counted(5)), PhaseBounce, ReasonCancelled)
		},
		"drain abandoned within the hold": func(v *visitor, ctx context.Context) bool {
			v.rest()
			const hold = 300 * time.Millisecond
			v.p.opts.Bounds.Drain = 50*time.Millisecond - hold // the drain's limit is the sum
			defer func() { v.p.opts.Bounds.Drain = 5 * time.Second }()
			before := v.p.DrainsAbandoned()
			r := v.after(ctx, 100*time.Millisecond, held(hold))
			idle(v.t, v.p, 5*time.Second)
			return ended(r, PhaseHandshake, ReasonCancelled) && v.p.DrainsAbandoned() == before+1
		},
		"load called off": func(v *visitor, ctx context.Context) bool {
			r := v.after(ctx, 250*time.Millisecond, func(m *config.Module) {
				m.Duration, m.Count, m.Period = 500*time.Millisecond, config.MaxCount, 10*time.Millisecond
				m.Congest = &config.Congest{Direction: []string{"up", "down", "both"}[rand.IntN(3)], Streams: 1}
			})
			idle(v.t, v.p, 20*time.Second)
			return ended(r, PhaseBounce, ReasonCancelled)
		},
		"refused for want of time": func(v *visitor, ctx context.Context) bool {
			m := module(timed(2*time.Second), func(m *config.Module) { m.Timeout = 500 * time.Millisecond })
			return ended(v.p.Run(ctx, &Job{Module: m, Addr: v.s.Addr}), PhaseWait, ReasonTimeoutTooShort)
		},
		"several at once": func(v *visitor, ctx context.Context) bool {
			done := make(chan *Result)
			for i := range 4 {
				go func() {
					done <- v.after(ctx, time.Duration(50+100*i)*time.Millisecond, counted(40), every(10*time.Millisecond, 1))
				}()
			}
			for range 4 {
				<-done
			}
			return true
		},
	}
}

// A stock client's test survives each kind of end of ours, and so does the server.
func TestStockTestSurvivesUs(t *testing.T) {
	t.Parallel()
	all := visits()
	atOnce(t, 5, slices.Collect(maps.Keys(all)), func(t *testing.T, name string) {
		s := iperftest.Start(t)
		defer s.Stop()
		v := newVisitor(t, s)
		length := 3 * time.Second
		if needs(name) > time.Second {
			length = 5 * time.Second
		}
		problem := s.WhileStockRuns(length, iperftest.Late, func(ctx context.Context) {
			n, good := 0, 0
			for deadline, _ := ctx.Deadline(); n < 12 && time.Until(deadline) > needs(name); n++ {
				if all[name](v, context.WithoutCancel(ctx)) {
					good++
				}
			}
			v.rest()
			if good == 0 {
				t.Errorf("%s: none of %d probes ended as meant", name, n)
			}
		})
		if problem != nil {
			t.Errorf("%s: %v", name, problem)
		}
	})
}

// needs is how much time must be left for one more visit.
func needs(name string) time.Duration {
	if name == "load called off" {
		return 2500 * time.Millisecond // the server sends until its own time is up, and is left alone then
	}
	return time.Second
}
