package prober

import (
	"context"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/config"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// module is the built-in module with changes.
func module(change ...func(*config.Module)) *config.Module {
	m := &config.Module{
		Name: "test", Size: 100, Burst: 1, Duration: 300 * time.Millisecond, Count: 1000, QuickAck: true,
		Timeout: 10 * time.Second, PreferredIPProtocol: "ip6", IPProtocolFallback: true,
	}
	for _, f := range change {
		f(m)
	}
	return m
}

// idle waits until nothing of p goes on in the background.
func idle(t testing.TB, p *Prober, limit time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := p.Wait(ctx); err != nil {
		t.Errorf("%d connections were still being ended after %v", p.DrainsInFlight(), limit)
	}
}

// want fails the test unless r failed for the reason ("" for success).
func want(t testing.TB, r *Result, reason Reason) {
	t.Helper()
	got := Reason("")
	if r.Err != nil {
		got = r.Err.Reason
	}
	if got != reason {
		t.Errorf("reason %q, want %q: %v%s", got, reason, r.Err, logOf(r))
	}
}

func logOf(r *Result) string {
	s := ""
	for _, l := range r.Log {
		s += "\n\t" + l.At.String() + " " + l.Message
	}
	return s
}

// counted makes a module that only its count ends.
func counted(n int) func(*config.Module) {
	return func(m *config.Module) { m.Count, m.Duration = n, 0 }
}

// timed makes one that only its duration ends.
func timed(d time.Duration) func(*config.Module) {
	return func(m *config.Module) { m.Count, m.Duration = config.MaxCount, d }
}

// every gives a module a schedule.
func every(period time.Duration, burst int) func(*config.Module) {
	return func(m *config.Module) { m.Period, m.Burst = period, burst }
}

// checkComplete states what is true of every successful probe.
func checkComplete(t *testing.T, r *Result) {
	t.Helper()
	want(t, r, "")
	if r.First == nil || r.Connect == nil || len(r.Windows) == 0 {
		t.Fatalf("something is missing: first %v, connect %v, %d windows", r.First, r.Connect, len(r.Windows))
	}
	for ph := PhaseWait; ph < NumPhases; ph++ {
		if !r.Phases[ph].OK || r.Phases[ph].V < 0 || r.Phases[ph].V > r.Elapsed {
			t.Errorf("phase %v: %+v of %v", ph, r.Phases[ph], r.Elapsed)
		}
	}
	if !r.Local.IsValid() || r.Local.Port() == 0 {
		t.Errorf("local address %v", r.Local)
	}
	last := r.First
	for _, w := range r.Windows {
		if w.Requests != len(w.Samples) || w.Requests == 0 {
			t.Errorf("%d requests, %d replies", w.Requests, len(w.Samples))
		}
		for i := range w.Samples {
			s := &w.Samples[i]
			if s.Sent < last.Received || s.Received <= s.Sent || s.Sent < w.Start || s.Received > w.End {
				t.Fatalf("sample %d out of order: %+v after %+v in a window from %d to %d", i, *s, *last, w.Start, w.End)
			}
			if s.ServerSend < s.ServerReceive || s.ServerReceive%1000 != 0 {
				t.Fatalf("server stamps of sample %d: %+v", i, *s)
			}
			last = s
		}
		if w.TCP == nil || !w.TCP.RTT.OK || w.TCP.RTT.V <= 0 || !w.TCP.CongestionWindow.OK || w.TCP.CongestionWindow.V == 0 || !w.TCPRetransmits.OK {
			t.Errorf("tcp_info at the end of the window: %+v, retransmits %+v", w.TCP, w.TCPRetransmits)
		}
	}
	if c := r.Connect; c.Duration <= 0 || !c.TCP.MSS.OK || c.TCP.MSS.V < 500 || c.TCP.TotalRetransmits.V != 0 {
		t.Errorf("connect %+v", c)
	}
}

// held asks the server to hold.
func held(d time.Duration) func(*config.Module) { return func(m *config.Module) { m.Hold = d } }
