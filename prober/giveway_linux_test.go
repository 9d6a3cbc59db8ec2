package prober

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/prober/fakeserver"
	"github.com/bounceback-exporter/bounceback_exporter/prober/wire"
	"golang.org/x/sys/unix"
)

// deaf is an address at which a connect neither succeeds nor fails: the queue of
// its listener is full, so that the kernel drops what comes.
func deaf(t *testing.T) netip.AddrPort {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the queue takes one more than it was asked to
		c, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(c) })
		_ = unix.Connect(c, sa) // the second may already hang
	}
	time.Sleep(10 * time.Millisecond)
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(sa.(*unix.SockaddrInet4).Port))
}

// A state in which a probe waits: how to get there, and what its end is called.
type waitState struct {
	script  fakeserver.Script
	deaf    bool
	known   wire.Version
	prepare func(t *testing.T, p *Prober, addr netip.AddrPort) // before the probe
	module  func(*config.Module)
	late    Reason // if the deadline ends it
	phase   Phase
}

func waitStates() map[string]waitState {
	plain := func(*config.Module) {}
	silent := fakeserver.Script{Mode: fakeserver.Silent}
	stop := func(reply, at int) fakeserver.Script {
		return fakeserver.Script{Version: wire.V2_1_9, Fault: fakeserver.Fault{Action: fakeserver.Stop, Reply: reply, Byte: at}}
	}
	big := func(m *config.Module) { m.Size = 131072 }
	return map[string]waitState{
		"another's load": {prepare: func(t *testing.T, p *Prober, addr netip.AddrPort) {
			if _, err := p.opts.Peers.Enter(t.Context(), addr, true); err != nil {
				t.Fatal(err)
			}
		}, module: plain, late: ReasonBusy, phase: PhaseWait},
		"the slot": {prepare: func(t *testing.T, p *Prober, addr netip.AddrPort) {
			if _, err := p.opts.Peers.Handshake(t.Context(), addr); err != nil {
				t.Fatal(err)
			}
		}, module: plain, late: ReasonBusy, phase: PhaseWait},
		"another's end": {prepare: func(_ *testing.T, p *Prober, addr netip.AddrPort) {
			p.opts.Peers.DrainStarted(addr).Alone(0)
		}, module: plain, late: ReasonBusy, phase: PhaseWait},
		"connect":              {deaf: true, module: plain, late: ReasonConnectTimeout, phase: PhaseConnect},
		"the ack":              {script: silent, module: plain, late: ReasonSilent, phase: PhaseHandshake},
		"the first reply":      {script: stop(1, 50), module: plain, late: ReasonSilent, phase: PhaseHandshake},
		"a version":            {script: silent, module: big, late: ReasonSilent, phase: PhaseHandshake},
		"the first write":      {script: fakeserver.Script{Mode: fakeserver.NeverReads}, known: wire.V2_1_9, module: big, late: ReasonSilent, phase: PhaseHandshake},
		"the end before 2.1.7": {script: fakeserver.Script{Layout: wire.LayoutA, Version: wire.V2_1_7, CloseDelay: time.Second}, module: plain, late: ReasonSilent, phase: PhaseHandshake},
		"a later reply":        {script: stop(5, 0), module: counted(1000), late: ReasonTimeout, phase: PhaseBounce},
		"half a later reply":   {script: stop(5, 70), module: counted(1000), late: ReasonTimeout, phase: PhaseBounce},
		"a big later reply": {script: fakeserver.Script{Mode: fakeserver.Bounce, Delay: func(n int) time.Duration {
			if n == 3 {
				return time.Hour
			}
			return 0
		}}, known: wire.V2_1_9, module: big, late: ReasonTimeout, phase: PhaseBounce},
		"a tick":                {module: func(m *config.Module) { every(10*time.Second, 1)(m); counted(3)(m) }, late: ReasonTimeout, phase: PhaseBounce},
		"nothing in particular": {module: counted(config.MaxCount), late: ReasonTimeout, phase: PhaseBounce},
	}
}

// Within ten milliseconds of a cancellation, or of the deadline, the answer is
// there, whatever the probe was waiting for. The best of some tries counts, since
// the machine that runs this may be busy for longer than that at any time.
func TestAnswerGivesWay(t *testing.T) {
	const limit, tries = 10 * time.Millisecond, 12
	for name, st := range waitStates() {
		for _, how := range []string{"cancel", "deadline"} {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				best := time.Hour
				for i := 0; i < tries && best > limit && !t.Failed(); i++ {
					best = min(best, giveWay(t, st, how == "cancel"))
				}
				if best > limit {
					t.Errorf("answered %v late, at best of %d tries", best, tries)
				}
			})
		}
	}
}

// giveWay is by how much the answer was late.
func giveWay(t *testing.T, st waitState, cancelled bool) time.Duration {
	t.Helper()
	var addr netip.AddrPort
	var s *fakeserver.Server
	if st.deaf {
		addr = deaf(t)
	} else {
		s = fakeserver.Start(t, st.script)
		defer s.Close()
		addr = s.Addr()
	}
	p := New(Options{Bounds: Bounds{FirstWrite: 200 * time.Millisecond, Drain: 200 * time.Millisecond}})
	if st.known.Upper != 0 {
		p.opts.Peers.Learn(addr, peerVersion(st.known))
	}
	if st.prepare != nil {
		st.prepare(t, p, addr)
	}
	const after = 120 * time.Millisecond // by then the probe has got there
	m := module(func(m *config.Module) { m.Duration, m.Count = 0, 1000 }, st.module)
	m.Timeout = 10 * time.Second
	if !cancelled {
		m.Timeout = after
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var at time.Time
	if cancelled {
		time.AfterFunc(after, func() {
			at = time.Now()
			cancel()
		})
	}
	start := time.Now()
	r := p.Run(ctx, &Job{Module: m, Addr: addr, Start: start})
	end := time.Now()
	if !cancelled {
		at = start.Add(m.Timeout)
	}
	wanted := ReasonCancelled
	if !cancelled {
		wanted = st.late
	}
	switch {
	case r.Err == nil:
		t.Errorf("success%s", logOf(r))
	case end.Before(at) && r.Err.Reason == wanted:
		t.Errorf("ended %v early", at.Sub(end))
	case r.Err.Reason != wanted || r.Err.Phase != st.phase:
		// On a busy machine the probe may not have got that far in time.
		t.Logf("%v, want %v in phase %v%s", r.Err, wanted, st.phase, logOf(r))
		idle(t, p, 5*time.Second)
		return time.Hour
	}
	idle(t, p, 5*time.Second)
	if s == nil {
		return end.Sub(at)
	}
	j := s.Journal()
	if st.script.Mode != fakeserver.NeverReads { // to whom no FIN gets through
		j = s.WaitEnded(t, 0, 3*time.Second)
	}
	for i, c := range j {
		if c.End == fakeserver.RST {
			t.Errorf("connection %d: RST before FIN", i)
		}
	}
	return end.Sub(at)
}
