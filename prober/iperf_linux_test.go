package prober

import (
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/internal/iperftest"
	"github.com/bounceback-exporter/bounceback_exporter/prober/wire"
)

func TestRealServer(t *testing.T) {
	dscp := func(m *config.Module) { m.DSCP = 46 } // ef
	noQuick := func(m *config.Module) { m.QuickAck = false }
	trip := func(m *config.Module) { m.TripTimes = true }
	size := func(n int) func(*config.Module) { return func(m *config.Module) { m.Size = n } }
	for name, tc := range map[string]struct {
		module *config.Module
		inLog  string
		check  func(t *testing.T, r *Result)
	}{
		"default": {module(), "(bb w/quickack len/hold=100/0) (icwnd", func(t *testing.T, r *Result) {
			if r.Peer.Kind != PeerBounceback || r.Peer.Layout != wire.LayoutC || r.Peer.Version.V.String() != "2.1.8" {
				t.Errorf("peer %+v", r.Peer)
			}
			if r.Clock != nil || r.OWDValid() {
				t.Error("clocks were compared without trip_times")
			}
			stamped := 0
			for i := range r.Windows[0].Samples {
				if late, ok := r.Windows[0].Samples[i].ReceiveLateness(); ok && late >= 0 {
					stamped++
				}
			}
			if n := len(r.Windows[0].Samples); stamped < n*9/10 {
				t.Errorf("%d of %d replies have a kernel receive stamp", stamped, n)
			}
		}},
		"quickack off": {module(noQuick), "(bb len/hold=100/0) (icwnd", nil},
		"dscp":         {module(dscp), "(tos rx/tx=0xb8/0xb8)", nil},
		"trip_times": {module(trip), "(trip-times)", func(t *testing.T, r *Result) {
			c := r.Clock
			if c == nil || !c.Step.OK || c.LowerBound > c.UpperBound {
				t.Fatalf("clock %+v", c)
			}
			// One host, one clock.
			if c.Step.V == 0 && (!c.OK() || c.LowerBound < -time.Second || c.UpperBound > time.Second) {
				t.Errorf("clock check on one host: %+v", c)
			}
		}},
		"size 68":     {module(size(68)), "len/hold=68/0", nil},
		"size 1470":   {module(size(1470)), "len/hold=1470/0", nil},
		"size 4096":   {module(size(4096)), "len/hold=4096/0", nil},
		"size 4097":   {module(size(4097)), "len/hold=4097/0", nil},
		"size 131072": {module(size(131072)), "len/hold=131072/0", nil},
		"count": {module(counted(37)), "", func(t *testing.T, r *Result) {
			if n := len(r.Windows[0].Samples); n != 37 {
				t.Errorf("%d bounces, want 37", n)
			}
		}},
		"one bounce": {module(counted(1)), "", func(t *testing.T, r *Result) {
			if n := len(r.Windows[0].Samples); n != 1 {
				t.Errorf("%d bounces, want 1", n)
			}
		}},
		"duration": {module(timed(200 * time.Millisecond)), "", func(t *testing.T, r *Result) {
			w := r.Windows[0]
			// A bounce begins only if the one before was back in time.
			d, n := int64(200*time.Millisecond), len(w.Samples)
			if last, end := w.Samples[n-2].Received-w.Start, w.End-w.Start; last >= d || end < d {
				t.Errorf("last but one reply %v after the start, end after %v", time.Duration(last), time.Duration(end))
			}
			if w.ScheduleLateness.OK || w.SkippedTicks != 0 {
				t.Error("back to back has no schedule to be late for")
			}
		}},
		"period and burst":   {module(counted(50), every(20*time.Millisecond, 5)), "", checkBursts},
		"congestion_control": {module(func(m *config.Module) { m.CongestionControl = "reno" }), "", nil},
		"interface":          {module(func(m *config.Module) { m.Interface = "lo" }), "", nil},
		"source_address": {module(func(m *config.Module) { m.SourceAddress = netip.MustParseAddr("127.0.0.5") }),
			"connected with 127.0.0.5 port", func(t *testing.T, r *Result) {
				if r.Local.Addr() != netip.MustParseAddr("127.0.0.5") {
					t.Errorf("local address %v", r.Local)
				}
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := iperftest.Start(t)
			p := New(Options{})
			r := p.Run(t.Context(), &Job{Module: tc.module, Addr: s.Addr})
			checkComplete(t, r)
			idle(t, p, 5*time.Second)
			if !strings.Contains(s.Log(), tc.inLog) {
				t.Errorf("not in the server's log: %q\n%s", tc.inLog, s.Log())
			}
			if tc.check != nil && !t.Failed() {
				tc.check(t, r)
			}
			if n := p.DrainsAbandoned(); n != 0 {
				t.Errorf("%d connections did not end by the server's FIN", n)
			}
			s.CheckClean()
			s.CheckNoCloseWait(time.Second)
		})
	}
}

// checkBursts: five bounces at once on each tick that was not skipped, none before
// its tick, and the schedule does not wander.
func checkBursts(t *testing.T, r *Result) {
	const period, burst = int64(20 * time.Millisecond), 5
	w := r.Windows[0]
	if len(w.Samples) != 50 {
		t.Fatalf("%d bounces, want 50", len(w.Samples))
	}
	if !w.ScheduleLateness.OK {
		t.Fatal("no lateness of the schedule")
	}
	tick, worst := int64(-1), int64(0)
	for i := range w.Samples {
		at := w.Samples[i].Sent - w.Start
		if i%burst != 0 {
			continue
		}
		if at < int64(i/burst)*period {
			t.Fatalf("burst %d began %v after the start, before its tick", i/burst, time.Duration(at))
		}
		if int64(w.ScheduleLateness.V) >= period {
			continue // a machine so busy that one can't tell which tick this was
		}
		if at/period <= tick {
			t.Fatalf("burst %d began at %v: the tick before it was %d", i/burst, time.Duration(at), tick)
		}
		tick = at / period
		worst = max(worst, at%period)
	}
	if tick < 0 {
		return
	}
	if left := int(tick) + 1 - len(w.Samples)/burst; w.SkippedTicks != left {
		t.Errorf("%d ticks skipped, %d were left out", w.SkippedTicks, left)
	}
	if int64(w.ScheduleLateness.V) != worst {
		t.Errorf("worst lateness %v, seen %v", w.ScheduleLateness.V, time.Duration(worst))
	}
}

func TestRealServerV6(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/sys/net/ipv6"); err != nil {
		t.Skip("needs IPv6")
	}
	port := iperftest.FreePort(t)
	s := iperftest.StartAt(t, iperftest.Direct, netip.AddrPortFrom(netip.IPv6Loopback(), port), "-V")
	p := New(Options{})
	for _, a := range []netip.Addr{netip.IPv6Loopback(), netip.MustParseAddr("::1%lo"), netip.MustParseAddr("127.0.0.1")} {
		m := module(counted(10), func(m *config.Module) { m.DSCP = 8 })
		r := p.Run(t.Context(), &Job{Module: m, Addr: netip.AddrPortFrom(a, port)})
		checkComplete(t, r)
		if r.Local.Addr().Is4() != a.Is4() {
			t.Errorf("to %v from %v", a, r.Local)
		}
		// To our own rules these are different servers, which they are not: the pause
		// that the real one needs is for the test to make.
		idle(t, p, 5*time.Second)
		time.Sleep(100 * time.Millisecond)
	}
	if n := strings.Count(s.Log(), "(tos rx/tx=0x20/0x20)"); n != 3 {
		t.Errorf("the server saw the TOS byte on %d of 3 connections\n%s", n, s.Log())
	}
	s.CheckClean()
	s.CheckNoCloseWait(time.Second)
}

// The server really holds, and the RTT contains it. The margin is for a busy
// machine: the best of a few tries counts, and the median of its bounces.
func TestRealServerHolds(t *testing.T) {
	const hold, margin = 20 * time.Millisecond, time.Millisecond
	s := iperftest.Start(t)
	p := New(Options{})
	var rtt, dwell time.Duration
	for range 8 {
		m := module(counted(25), func(m *config.Module) { m.Hold = hold })
		r := p.Run(t.Context(), &Job{Module: m, Addr: s.Addr})
		checkComplete(t, r)
		if t.Failed() {
			break
		}
		var rtts, dwells []time.Duration
		for i := range r.Windows[0].Samples {
			rtts = append(rtts, r.Windows[0].Samples[i].RTT())
			dwells = append(dwells, r.Windows[0].Samples[i].Dwell())
		}
		slices.Sort(rtts)
		slices.Sort(dwells)
		rtt, dwell = rtts[len(rtts)/2], dwells[len(dwells)/2]
		if dwells[0] < hold-time.Microsecond || rtts[0] < hold {
			t.Errorf("a hold of %v was cut: dwell %v, RTT %v", hold, dwells[0], rtts[0])
		}
		if dwell <= hold+margin && rtt <= hold+margin {
			break
		}
	}
	if dwell > hold+margin || rtt > hold+margin {
		t.Errorf("median dwell %v, median RTT %v, want %v to %v", dwell, rtt, hold, hold+margin)
	}
	idle(t, p, 5*time.Second)
	if !strings.Contains(s.Log(), "len/hold=100/20000") {
		t.Errorf("the server was not asked to hold:\n%s", s.Log())
	}
	s.CheckClean()
}

// What this server or this kernel lacks is refused, and the server is none the
// worse for it.
func TestRealServerUnsupported(t *testing.T) {
	t.Parallel()
	s := iperftest.Start(t)
	for name, tc := range map[string]struct {
		change  func(*config.Module)
		reason  Reason
		phase   Phase
		connect bool
		says    string
	}{
		"reply_size":       {func(m *config.Module) { m.ReplySize = 500 }, ReasonUnsupported, PhaseHandshake, true, "2.2.0"},
		"big reply_size":   {func(m *config.Module) { m.ReplySize = 70000 }, ReasonUnsupported, PhaseHandshake, false, "2.2.0"},
		"no such control":  {func(m *config.Module) { m.CongestionControl = "nosuch" }, ReasonUnsupported, PhaseConnect, false, "nosuch"},
		"no such device":   {func(m *config.Module) { m.Interface = "nosuch0" }, ReasonLocalLimit, PhaseConnect, false, "nosuch0"},
		"no such source":   {func(m *config.Module) { m.SourceAddress = netip.MustParseAddr("192.0.2.1") }, ReasonLocalLimit, PhaseConnect, false, "192.0.2.1"},
		"source of family": {func(m *config.Module) { m.SourceAddress = netip.MustParseAddr("::1") }, ReasonLocalLimit, PhaseConnect, false, "::1"},
	} {
		t.Run(name, func(t *testing.T) {
			p := New(Options{})
			r := p.Run(t.Context(), &Job{Module: module(tc.change), Addr: s.Addr})
			want(t, r, tc.reason)
			if r.Err != nil && (r.Err.Phase != tc.phase || !strings.Contains(r.Err.Error(), tc.says)) {
				t.Errorf("%v, want phase %v and a word of %q", r.Err, tc.phase, tc.says)
			}
			if (r.Connect != nil) != tc.connect || len(r.Windows) != 0 {
				t.Errorf("connect %v, %d windows", r.Connect, len(r.Windows))
			}
			idle(t, p, 5*time.Second)
			if p.DrainsAbandoned() != 0 {
				t.Error("a drain was abandoned")
			}
		})
	}
	p := New(Options{})
	checkComplete(t, p.Run(t.Context(), &Job{Module: module(counted(5)), Addr: s.Addr}))
	idle(t, p, 5*time.Second)
	s.CheckClean()
	s.CheckNoCloseWait(time.Second)
}

// A server that ends the test before we do: what came until then is kept.
func TestRealServerEndsEarly(t *testing.T) {
	for name, schedule := range map[string]func(*config.Module){
		"period 20ms":  every(20*time.Millisecond, 1),
		"back to back": every(0, 1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s *iperftest.Server
			var r *Result
			p := New(Options{})
			for range 5 {
				s = iperftest.Start(t, "-t", "1")
				r = p.Run(t.Context(), &Job{Module: module(timed(4*time.Second), schedule), Addr: s.Addr})
				if len(r.Windows) == 1 && r.Windows[0].Requests > 20 {
					break // else its second was over before a busy machine got to it
				}
			}
			want(t, r, ReasonClosedEarly)
			if len(r.Windows) != 1 || len(r.Windows[0].Samples) < 20 {
				t.Fatalf("samples were not kept: %+v", r.Windows)
			}
			if w := r.Windows[0]; w.Requests-len(w.Samples) > 1 || w.TCP == nil {
				t.Errorf("%d requests, %d replies, tcp_info %v", w.Requests, len(w.Samples), w.TCP)
			}
			if r.Elapsed > 3*time.Second {
				t.Errorf("it took %v to notice", r.Elapsed)
			}
			idle(t, p, 5*time.Second)
			s.CheckNoCloseWait(time.Second)
		})
	}
}
