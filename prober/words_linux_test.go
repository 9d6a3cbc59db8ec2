package prober

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/prober/fakeserver"
)

func TestErrorWords(t *testing.T) {
	cause := errors.New("no such host")
	for e, want := range map[*Error]string{
		{PhaseResolve, ReasonResolve, cause}:      "resolve: no such host",
		{PhaseResolve, ReasonTargetDenied, cause}: "target_denied: no such host",
		{PhaseConnect, ReasonSilent, cause}:       "connect: silent: no such host",
		{PhaseBounce, ReasonTimeout, nil}:         "bounce: timeout",
	} {
		if got := e.Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A kernel without the algorithm is told from one that does not let us have it.
func TestCongestionControlThatIsNot(t *testing.T) {
	s := fakeserver.Start(t, fakeserver.Script{})
	r := New(Options{}).Run(t.Context(), &Job{Addr: s.Addr(),
		Module: module(func(m *config.Module) { m.CongestionControl = "nonesuch" })})
	want(t, r, ReasonUnsupported)
	if got := r.Err.Error(); !strings.Contains(got, `"nonesuch": this kernel does not have it; net.ipv4.tcp_available_`) {
		t.Error(got)
	}
	if n := len(s.Journal()); n != 0 {
		t.Errorf("%d connections", n)
	}
}

// Who waited long for admission hears of it where the rest is too little.
func TestWaitIsInTheCause(t *testing.T) {
	job := &Job{Module: module(func(m *config.Module) { m.Duration, m.Timeout = 2*time.Second, 4*time.Second }),
		Start: time.Now().Add(-3500 * time.Millisecond), Waited: 3460 * time.Millisecond}
	job.Addr = addrOf(listen(t))
	r := New(Options{}).Run(t.Context(), job)
	want(t, r, ReasonTimeoutTooShort)
	if got := r.Err.Error(); !strings.Contains(got, "after a wait of 3.46s for limits or for a load") {
		t.Error(got)
	}
	job.Waited = 0
	if got := New(Options{}).Run(t.Context(), job).Err.Error(); strings.Contains(got, "after a wait") {
		t.Error(got)
	}
}
