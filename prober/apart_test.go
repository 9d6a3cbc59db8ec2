package prober

import (
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/prober/fakeserver"
	"github.com/bounceback-exporter/bounceback_exporter/prober/wire"
)

// Probes of one server that begin and end as they like: no end of a connection
// falls into the handshake of another one. (Up to iperf 2.1.8 the server dies of
// it, or answers nobody any more.)
func TestEndsAndHandshakesStayApart(t *testing.T) {
	t.Parallel()
	s := fakeserver.Start(t, fakeserver.Script{
		Version: wire.V2_1_8, CloseDelay: 15 * time.Millisecond,
		Delay: func(n int) time.Duration { return time.Duration(n%3) * time.Millisecond },
	})
	p := New(Options{})
	done := make(chan *Result)
	const runners, each = 8, 5
	for i := range runners {
		go func() {
			for k := range each {
				m := module(counted(2+3*i+7*k), func(m *config.Module) { m.Timeout = 30 * time.Second })
				done <- p.Run(t.Context(), &Job{Module: m, Addr: s.Addr()})
			}
		}()
	}
	for range runners * each {
		if r := <-done; !r.Success() {
			t.Errorf("%v%s", r.Err, logOf(r))
		}
	}
	idle(t, p, 5*time.Second)
	j := checkJournal(t, s, runners*each)
	if len(j) != runners*each {
		t.Errorf("%d connections, want %d", len(j), runners*each)
	}
	checkApart(t, j)
}

// One handshake at a time, whatever the release.
func TestOneHandshakeAtATime(t *testing.T) {
	t.Parallel()
	s := fakeserver.Start(t, fakeserver.Script{Version: wire.V2_2_0, Delay: func(n int) time.Duration {
		if n == 1 {
			return 30 * time.Millisecond
		}
		return 0
	}})
	p := New(Options{})
	results := make(chan *Result)
	for range 10 {
		go func() { results <- p.Run(t.Context(), &Job{Module: module(counted(3)), Addr: s.Addr()}) }()
	}
	waited := 0
	for range 10 {
		r := <-results
		want(t, r, "")
		if r.Phases[PhaseWait].V > 20*time.Millisecond {
			waited++
		}
	}
	if waited < 9 {
		t.Errorf("%d of 10 probes waited for the others", waited)
	}
	idle(t, p, 5*time.Second)
	j := checkHandshakes(t, s)
	if len(j) != 10 {
		t.Errorf("%d connections", len(j))
	}
}

// checkHandshakes: no connection was accepted while an earlier one had not got its
// first reply, which takes this peer 30 ms from the first message on.
func checkHandshakes(t *testing.T, s *fakeserver.Server) []fakeserver.Conn {
	t.Helper()
	j := s.WaitEnded(t, 1, 3*time.Second)
	for i := 1; i < len(j); i++ {
		if d := j[i].Accepted.Sub(j[i-1].FirstCompleteAt); d < 25*time.Millisecond {
			t.Errorf("connection %d was opened %v after the message of the one before, whose reply took 30 ms", i, d)
		}
	}
	return j
}

// A probe that waits for a handshake slot until its time is up is busy.
func TestBusy(t *testing.T) {
	t.Parallel()
	s := fakeserver.Start(t, fakeserver.Script{Mode: fakeserver.Silent})
	p := New(Options{Bounds: shortBounds})
	first := make(chan *Result)
	go func() {
		m := module(counted(1), func(m *config.Module) { m.Timeout = 1500 * time.Millisecond })
		first <- p.Run(t.Context(), &Job{Module: m, Addr: s.Addr()})
	}()
	for len(s.Journal()) == 0 {
		time.Sleep(time.Millisecond)
	}
	m := module(counted(1), func(m *config.Module) { m.Timeout = 300 * time.Millisecond })
	r := p.Run(t.Context(), &Job{Module: m, Addr: s.Addr()})
	want(t, r, ReasonBusy)
	if r.Err.Phase != PhaseWait || r.Phases[PhaseConnect].OK || r.Phases[PhaseWait].V < 250*time.Millisecond {
		t.Errorf("%v, phases %v", r.Err, r.Phases)
	}
	want(t, <-first, ReasonSilent)
	idle(t, p, 3*time.Second)
	if n := len(s.Journal()); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// Nothing is sent where less than half of the test would fit.
func TestTimeoutTooShort(t *testing.T) {
	t.Parallel()
	s := fakeserver.Start(t, fakeserver.Script{})
	p := New(Options{})
	for _, tc := range []struct{ timeout, duration time.Duration }{
		{900 * time.Millisecond, 2 * time.Second},
		{time.Millisecond, 400 * time.Millisecond},
	} {
		m := module(timed(tc.duration), every(50*time.Millisecond, 1), func(m *config.Module) { m.Timeout = tc.timeout })
		r := p.Run(t.Context(), &Job{Module: m, Addr: s.Addr()})
		want(t, r, ReasonTimeoutTooShort)
		if r.Phases[PhaseConnect].OK || r.Connect != nil {
			t.Errorf("timeout %v: connected", tc.timeout)
		}
	}
	if n := len(s.Journal()); n != 0 {
		t.Errorf("%d connections", n)
	}
}

// A test of which more than half fits is shortened, and ends before the deadline.
// On a busy machine its last bounce may be late, so the best of a few counts.
func TestShortenedToFit(t *testing.T) {
	t.Parallel()
	s := fakeserver.Start(t, fakeserver.Script{})
	p := New(Options{})
	var r *Result
	for range 4 {
		m := module(timed(2*time.Second), every(50*time.Millisecond, 1), func(m *config.Module) { m.Timeout = 1500 * time.Millisecond })
		r = p.Run(t.Context(), &Job{Module: m, Addr: s.Addr()})
		idle(t, p, 3*time.Second)
		if r.Success() {
			break
		}
	}
	checkComplete(t, r)
	// A first bounce that was slow makes it leave more room for the last.
	if r.Elapsed >= r.Timeout || r.Elapsed < time.Second {
		t.Errorf("took %v of %v", r.Elapsed, r.Timeout)
	}
}

// Where the round trips grow after the first, the test ends while the next one
// still fits: a bounce that the deadline cuts off would make it a failure.
func TestRoomForTheLastBounce(t *testing.T) {
	t.Parallel()
	s := fakeserver.Start(t, fakeserver.Script{Delay: func(n int) time.Duration {
		if n == 1 {
			return 0
		}
		return 300 * time.Millisecond
	}})
	p := New(Options{})
	for _, how := range []func(*config.Module){every(0, 1), every(150*time.Millisecond, 1)} {
		m := module(timed(2*time.Second), how, func(m *config.Module) { m.Timeout = 1500 * time.Millisecond })
		r := p.Run(t.Context(), &Job{Module: m, Addr: s.Addr()})
		want(t, r, "")
		idle(t, p, 3*time.Second)
		if n := len(r.Windows[0].Samples); n < 2 || n > 4 {
			t.Errorf("%d replies of 300 ms in %v", n, r.Timeout)
		}
	}
}
