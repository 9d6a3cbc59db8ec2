package prober

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/prober/fakeserver"
)

// answers is a resolver whose answers to a name are given in turn; the last one
// is repeated.
type answers struct {
	turns    [][]netip.Addr
	err      error
	asked    int
	networks []string
}

func (a *answers) LookupNetIP(_ context.Context, network, _ string) ([]netip.Addr, error) {
	a.networks = append(a.networks, network)
	i := min(a.asked, len(a.turns)-1)
	a.asked++
	if a.err != nil {
		return nil, a.err
	}
	return a.turns[i], nil
}

func addrs(s ...string) []netip.Addr {
	var out []netip.Addr
	for _, a := range s {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

func family(preferred string, fallback bool) func(*config.Module) {
	return func(m *config.Module) { m.PreferredIPProtocol, m.IPProtocolFallback = preferred, fallback }
}

func TestResolveFamilies(t *testing.T) {
	both := "192.0.2.1 2001:db8::1 192.0.2.2 2001:db8::2"
	for _, tc := range []struct {
		host, answer, preferred string
		fallback                bool
		want, network           string
	}{
		{"name", both, "ip6", true, "2001:db8::1", "ip"},
		{"name", both, "ip4", true, "192.0.2.1", "ip"},
		{"name", "192.0.2.1 192.0.2.2", "ip6", true, "192.0.2.1", "ip"},
		{"name", "2001:db8::1", "ip4", true, "2001:db8::1", "ip"},
		{"name", "2001:db8::1", "ip6", false, "2001:db8::1", "ip6"},
		{"name", "192.0.2.1", "ip4", false, "192.0.2.1", "ip4"},
		// A resolver that ignores what family it was asked for.
		{"name", "192.0.2.1", "ip6", false, "", "ip6"},
		{"name", "2001:db8::1", "ip4", false, "", "ip4"},
		{"name", "::ffff:192.0.2.1", "ip6", false, "", "ip6"},
		{"name", "::ffff:192.0.2.1", "ip4", true, "192.0.2.1", "ip"},
		{"name", "::ffff:192.0.2.1", "ip6", true, "192.0.2.1", "ip"},
		{"name", "fe80::1%lo", "ip6", true, "fe80::1%lo", "ip"},
		{"name", "", "ip6", true, "", "ip"},
		// Literal addresses are not looked up.
		{"192.0.2.9", "", "ip6", true, "192.0.2.9", ""},
		{"192.0.2.9", "", "ip6", false, "", ""},
		{"2001:db8::9", "", "ip4", true, "2001:db8::9", ""},
		{"2001:db8::9", "", "ip4", false, "", ""},
		{"::ffff:192.0.2.9", "", "ip4", false, "192.0.2.9", ""},
		{"::ffff:192.0.2.9", "", "ip6", false, "", ""},
		// What is no host's: the kernel takes the first two for loopback.
		{"0.0.0.0", "", "ip4", true, "", ""},
		{"::", "", "ip6", true, "", ""},
		{"::ffff:0.0.0.0", "", "ip6", true, "", ""},
		{"name", "0.0.0.0", "ip4", true, "", "ip"},
		{"224.0.0.1", "", "ip4", true, "", ""},
		{"ff02::1%lo", "", "ip6", true, "", ""},
		{"255.255.255.255", "", "ip4", true, "", ""},
	} {
		res := &answers{turns: [][]netip.Addr{addrs(strings.Fields(tc.answer)...)}}
		p := New(Options{Resolver: res})
		job := &Job{Module: module(family(tc.preferred, tc.fallback)), Target: Target{tc.host, 5001}}
		r := p.Resolve(t.Context(), job)
		name := fmt.Sprintf("%s=%q, preferred %s, fallback %v", tc.host, tc.answer, tc.preferred, tc.fallback)
		switch {
		case tc.want == "" && r == nil:
			t.Errorf("%s: %v", name, job.Addr)
		case tc.want == "":
			if r.Err == nil || r.Err.Reason != ReasonResolve || r.Err.Phase != PhaseResolve {
				t.Errorf("%s: %v", name, r.Err)
			}
		case r != nil:
			t.Errorf("%s: %v", name, r.Err)
		case job.Addr != netip.AddrPortFrom(netip.MustParseAddr(tc.want), 5001):
			t.Errorf("%s: %v, want %s", name, job.Addr, tc.want)
		}
		if !job.ResolveTook.OK {
			t.Errorf("%s: the phase was not measured", name)
		}
		if got := strings.Join(res.networks, " "); got != tc.network {
			t.Errorf("%s: asked for %q, want %q", name, got, tc.network)
		}
	}
}

func TestResolveFailures(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel2 := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel2()
	for _, tc := range []struct {
		ctx  context.Context
		err  error
		want Reason
	}{
		{t.Context(), &net.DNSError{Err: "no such host", Name: "name", IsNotFound: true}, ReasonResolve},
		{gone, context.Canceled, ReasonCancelled},
		{late, context.DeadlineExceeded, ReasonResolve},
	} {
		p := New(Options{Resolver: &answers{err: tc.err, turns: [][]netip.Addr{nil}}})
		r := p.Resolve(tc.ctx, &Job{Module: module(), Target: Target{"name", 5001}})
		if r == nil {
			t.Fatalf("%v: success", tc.err)
		}
		want(t, r, tc.want)
		if !errors.Is(r.Err, tc.err) {
			t.Errorf("the cause %v got lost: %v", tc.err, r.Err)
		}
		if r.Phases[PhaseConnect].OK || r.Phases[PhaseWait].OK || !r.Phases[PhaseResolve].OK {
			t.Errorf("phases %v", r.Phases)
		}
		if len(r.Log) == 0 {
			t.Error("nothing in the log")
		}
	}
}

func allow(ports []uint16, networks ...string) *config.AllowedTargets {
	a := &config.AllowedTargets{Ports: ports}
	for _, n := range networks {
		a.Networks = append(a.Networks, netip.MustParsePrefix(n))
	}
	return a
}

// However a target is written: what counts is the address it comes to.
func TestAllowedTargetsAndSpellings(t *testing.T) {
	list := allow([]uint16{5001}, "192.0.2.0/24", "2001:db8::/32")
	ok, denied, refused := Reason(""), ReasonTargetDenied, Reason("refused when parsed")
	for _, tc := range []struct {
		target, answer string
		want           Reason
	}{
		{"192.0.2.1", "", ok},
		{"192.0.2.1:5001", "", ok},
		{"[2001:db8::1]:5001", "", ok},
		{"::ffff:192.0.2.1", "", ok},
		{"[::ffff:c000:201]:5001", "", ok},
		{"name", "192.0.2.1", ok},
		{"name.", "192.0.2.1", ok},
		{"192.0.2.1:5002", "", denied},
		{"name:22", "192.0.2.1", denied},
		{"127.0.0.1", "", denied},
		{"::1", "", denied},
		{"fe80::1%lo", "", denied},
		{"::ffff:127.0.0.1", "", denied},
		{"::ffff:7f00:1", "", denied},
		{"::127.0.0.1", "", denied},
		{"64:ff9b::c000:201", "", denied}, // NAT64 is a route like any other
		{"localhost", "127.0.0.1", denied},
		{"localhost.", "::1", denied},
		{"name", "::ffff:127.0.0.1", denied},
		{"name", "fe80::1%lo", denied},
		// The second address is allowed, but the first one would be dialled.
		{"name", "127.0.0.1 192.0.2.1", denied},
		{"0.0.0.0", "", ReasonResolve},
		{"::", "", ReasonResolve},
		{"2130706433", "", refused},
		{"0x7f000001", "", refused},
		{"0177.0.0.1", "", refused},
		{"127.1", "", refused},
		{"127.0.0.1.", "", refused},
		{"192.0.2.1.", "", refused},
		{"192.0.2.1%lo", "", refused},
		{"::ffff:127.0.0.1%lo", "", refused},
		{":5001", "", refused},
		{"", "", refused},
	} {
		target, err := ParseTarget(tc.target)
		if (err != nil) != (tc.want == refused) {
			t.Errorf("%q: parsed with %v", tc.target, err)
		}
		if err != nil {
			continue
		}
		p := New(Options{Resolver: &answers{turns: [][]netip.Addr{addrs(strings.Fields(tc.answer)...)}}})
		job := &Job{Module: module(), Target: target, Allowed: list}
		r := p.Resolve(t.Context(), job)
		if r == nil {
			r = &Result{}
		}
		if got := r.Err; (got == nil) != (tc.want == ok) || got != nil && got.Reason != tc.want {
			t.Errorf("%q (%s): %v, want %q", tc.target, tc.answer, got, tc.want)
		}
	}
}

// pair is an honest peer at the same port of two loopback addresses.
func pair(t *testing.T) (a, b *fakeserver.Server) {
	t.Helper()
	for range 20 {
		a = fakeserver.Start(t, fakeserver.Script{})
		at := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), a.Addr().Port()).String()
		if l, err := net.Listen("tcp", at); err == nil {
			l.Close()
			return a, fakeserver.StartAt(t, at, fakeserver.Script{})
		}
	}
	t.Skip("needs one free port at two loopback addresses")
	return
}

// A name whose answer changes between two lookups gains nothing: there is one
// lookup, and what it told is what is checked and dialled.
func TestAnswerChangesBetweenLookups(t *testing.T) {
	forbidden, allowed := pair(t)
	for _, first := range []netip.Addr{allowed.Addr().Addr(), forbidden.Addr().Addr()} {
		second := forbidden.Addr().Addr()
		if first == second {
			second = allowed.Addr().Addr()
		}
		res := &answers{turns: [][]netip.Addr{{first}, {second}}}
		p := New(Options{Resolver: res})
		job := &Job{
			Module: module(func(m *config.Module) { m.Count = 2; m.Duration = 0 }),
			Target: Target{"rebinding.example", allowed.Addr().Port()}, Allowed: allow(nil, "127.0.0.2/32"),
		}
		r := p.Resolve(t.Context(), job)
		if r == nil {
			r = p.Run(t.Context(), job)
		}
		idle(t, p, 5*time.Second)
		if first == forbidden.Addr().Addr() {
			want(t, r, ReasonTargetDenied)
		} else {
			want(t, r, "")
			if r.Addr.Addr() != first {
				t.Errorf("dialled %v, checked %v", r.Addr, first)
			}
		}
		if res.asked != 1 {
			t.Errorf("%d lookups", res.asked)
		}
	}
	if n := len(forbidden.Journal()); n != 0 {
		t.Errorf("%d connections to the forbidden address", n)
	}
	if n := len(allowed.Journal()); n != 1 {
		t.Errorf("%d connections to the allowed address, want 1", n)
	}
}

// The check is right before the dial: a Run without Resolve does not get around it.
func TestRunChecksWhatItDials(t *testing.T) {
	s := fakeserver.Start(t, fakeserver.Script{})
	p := New(Options{})
	for _, a := range []netip.AddrPort{s.Addr(), netip.AddrPortFrom(netip.MustParseAddr("::ffff:127.0.0.1"), s.Addr().Port())} {
		r := p.Run(t.Context(), &Job{Module: module(), Addr: a, Allowed: allow(nil, "192.0.2.0/24")})
		want(t, r, ReasonTargetDenied)
		if r.Connect != nil || r.Phases[PhaseConnect].OK {
			t.Error("connected")
		}
	}
	if n := len(s.Journal()); n != 0 {
		t.Errorf("%d connections", n)
	}
}

func TestReasonsAreClosed(t *testing.T) {
	all := Reasons()
	for i, r := range all {
		if r == "" || slices.Contains(all[:i], r) {
			t.Errorf("reason %q is empty or twice in the list", r)
		}
	}
}
