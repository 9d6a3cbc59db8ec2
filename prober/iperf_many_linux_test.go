package prober

import (
	"strings"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/internal/iperftest"
)

func TestRealServerFiftyAtOnce(t *testing.T) {
	t.Parallel()
	s := iperftest.Start(t)
	p := New(Options{})
	results := make(chan *Result)
	for range 50 {
		go func() {
			results <- p.Run(t.Context(), &Job{Module: module(timed(time.Second), every(20*time.Millisecond, 1)), Addr: s.Addr})
		}()
	}
	for i := range 50 {
		r := <-results
		if !r.Success() {
			t.Errorf("probe %d: %v%s", i, r.Err, logOf(r))
		}
	}
	idle(t, p, 10*time.Second)
	if n := p.DrainsAbandoned(); n != 0 {
		t.Errorf("%d drains abandoned", n)
	}
	s.CheckClean()
	s.CheckNoCloseWait(time.Second)
	iperftest.StartStock(t, nil, s.Addr, time.Second).CheckUndisturbed(iperftest.Late)
}

// Three hundred probes do the server no harm.
func TestRealServerThreeHundredInARow(t *testing.T) {
	t.Parallel()
	s := iperftest.Start(t)
	p := New(Options{})
	for i := range 300 {
		r := p.Run(t.Context(), &Job{Module: module(counted(3)), Addr: s.Addr})
		if !r.Success() {
			t.Fatalf("probe %d: %v%s", i, r.Err, logOf(r))
		}
	}
	idle(t, p, 5*time.Second)
	if n := p.DrainsAbandoned(); n != 0 {
		t.Errorf("%d drains abandoned", n)
	}
	s.CheckClean()
	s.CheckNoCloseWait(time.Second)
	if n := strings.Count(s.Log(), "(bb w/quickack"); n != 300 {
		t.Errorf("the server saw %d tests, want 300", n)
	}
	iperftest.StartStock(t, nil, s.Addr, time.Second).CheckUndisturbed(iperftest.Late)
	s.CheckClean()
}

// The sequence of logs says what happened, for debug=true.
func TestRealServerLog(t *testing.T) {
	t.Parallel()
	s := iperftest.Start(t)
	p := New(Options{})
	for i, phrases := range [][]string{
		{"connected in", "the server is iperf 2.1.8", "first bounce in", "bounced: 5 requests, 5 replies"},
		{"the server was iperf 2.1.8 a while ago", "connected in", "the server is iperf 2.1.8"},
	} {
		r := p.Run(t.Context(), &Job{Module: module(counted(5)), Addr: s.Addr})
		want(t, r, "")
		log := logOf(r)
		at := 0
		for _, ph := range phrases {
			j := strings.Index(log[at:], ph)
			if j < 0 {
				t.Errorf("probe %d: %q is not in its place in%s", i, ph, log)
				break
			}
			at += j
		}
		if len(r.Log) > 40 {
			t.Errorf("a log of %d lines", len(r.Log))
		}
	}
	idle(t, p, 5*time.Second)
}

// Probes that begin and end beside each other as they like: of those that came
// within a few milliseconds of another one's end, 2.1.8 would survive a few dozen.
func TestRealServerComingsAndGoings(t *testing.T) {
	t.Parallel()
	s := iperftest.Start(t)
	p := New(Options{})
	const runners, each = 6, 12
	results := make(chan *Result)
	for i := range runners {
		go func() {
			for k := range each {
				m := module(counted(1+(7*i+5*k)%40), every(2*time.Millisecond, 1), func(m *config.Module) { m.Timeout = 30 * time.Second })
				results <- p.Run(t.Context(), &Job{Module: m, Addr: s.Addr})
			}
		}()
	}
	for range runners * each {
		if r := <-results; !r.Success() {
			t.Errorf("%v%s", r.Err, logOf(r))
		}
	}
	idle(t, p, 10*time.Second)
	s.CheckClean()
	s.CheckNoCloseWait(time.Second)
	iperftest.StartStock(t, nil, s.Addr, time.Second).CheckUndisturbed(iperftest.Late)
	s.CheckClean()
}
