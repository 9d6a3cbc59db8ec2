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
