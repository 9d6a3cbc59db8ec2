package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/bounceback-exporter/bounceback_exporter/prober"
	"github.com/bounceback-exporter/bounceback_exporter/prober/fakeserver"
)

// names is a resolver that a test writes. A name with several answers gives them
// in turn, one per lookup; the last one is repeated.
type names struct {
	mu    sync.Mutex
	zone  map[string][]string
	asked map[string]int
}

func (n *names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	answers := n.zone[strings.ToLower(strings.TrimSuffix(host, "."))]
	if len(answers) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	turn := min(n.asked[host], len(answers)-1)
	if n.asked == nil {
		n.asked = map[string]int{}
	}
	n.asked[host]++
	var found []netip.Addr
	for a := range strings.FieldsSeq(answers[turn]) {
		found = append(found, netip.MustParseAddr(a))
	}
	return found, nil
}

// Whatever is done to get /probe to an address that is not allowed: it is refused,
// nobody is connected to, and each refusal is counted or told as a mistake. The
// forbidden server listens at 127.0.0.1 and ::1; 127.0.0.2 is allowed.
func TestLifeForbiddenTargets(t *testing.T) {
	forbidden := fakeserver.Start(t, fakeserver.Script{})
	port := forbidden.Addr().Port()
	servers := []*fakeserver.Server{forbidden}
	at := func(host string) string { return net.JoinHostPort(host, strconv.Itoa(int(port))) }
	if ln, err := net.Listen("tcp", at("::1")); err == nil { // else there is no IPv6 here, or the port is taken
		ln.Close()
		servers = append(servers, fakeserver.StartAt(t, at("::1"), fakeserver.Script{}))
	}
	w := newWhole(t, "allowed_targets: {networks: [127.0.0.2/32, 192.0.2.0/24]}\nmodules: {rtt: {count: 2, timeout: 5s}}\n",
		prober.Options{Resolver: &names{zone: map[string][]string{
			"localhost": {"127.0.0.1"}, "six": {"::1"}, "mapped": {"::ffff:127.0.0.1"}, "scoped": {"fe80::1%lo"},
			"first-counts": {"127.0.0.1 127.0.0.2"}, "preferred-counts": {"127.0.0.2 ::1"}, "nowhere": {"0.0.0.0"},
			"all-hosts": {"224.0.0.1"}, "broadcast": {"255.255.255.255"},
		}}})

	const denied, badRequest, noAddress = "target_denied", "400", "resolve"
	count := map[string]int{}
	for _, tc := range []struct{ target, want string }{
		{at("127.0.0.1"), denied},
		{at("::1"), denied},
		{at("0:0:0:0:0:0:0:1"), denied},
		{at("::1%lo"), denied},
		{at("::1%1"), denied},
		{at("::ffff:127.0.0.1"), denied},
		{at("::ffff:7f00:1"), denied},
		{at("0:0:0:0:0:ffff:127.0.0.1"), denied},
		{at("::127.0.0.1"), denied},
		{at("64:ff9b::7f00:1"), denied},
		{at("2002:7f00:1::"), denied},
		{at("127.0.0.3"), denied},
		{at("localhost"), denied},
		{at("LOCALHOST"), denied},
		{at("localhost."), denied},
		{at("six"), denied},
		{at("mapped"), denied},
		{at("scoped"), denied},
		{at("first-counts"), denied},
		{at("preferred-counts"), denied},
		{"127.0.0.1", denied}, // also at the default port
		{"::1", denied},

		{at("0.0.0.0"), noAddress},
		{at("::"), noAddress},
		{at("::ffff:0.0.0.0"), noAddress},
		{at("nowhere"), noAddress},
		{at("all-hosts"), noAddress},
		{at("broadcast"), noAddress},
		{at("no-such-name"), noAddress},

		{at("::ffff:127.0.0.1%lo"), badRequest},
		{at("127.0.0.1%lo"), badRequest},
		{at("::1%"), badRequest},
		{at("2130706433"), badRequest},
		{at("0x7f000001"), badRequest},
		{at("0x7f.0.0.1"), badRequest},
		{at("017700000001"), badRequest},
		{at("0177.0.0.1"), badRequest},
		{at("127.0.0.01"), badRequest},
		{at("127.1"), badRequest},
		{at("127.0.1"), badRequest},
		{at("127.0.0.1."), badRequest},
		{at("127.0.0.1.."), badRequest},
		{at("localhost.."), badRequest},
		{at(""), badRequest},
		{at("."), badRequest},
		{at("[]"), badRequest},
		{at("１２７.0.0.1"), badRequest}, // digits of full width
		{at("127。0。0。1"), badRequest}, // dots that some resolvers take for one
		{at("127.0.0.1\x00.example"), badRequest},
		{at("127.0.0.1\n"), badRequest},
		{at(" 127.0.0.1"), badRequest},
		{at("user@127.0.0.1"), badRequest},
		{"http://" + at("127.0.0.1"), badRequest},
		{at("127.0.0.1") + "/", badRequest},
		{at("127.0.0.2") + "@" + at("127.0.0.1"), badRequest},
		{at("127.0.0.2") + "," + at("127.0.0.1"), badRequest},
		{"", badRequest},
		{"[::1", badRequest},
		{"127.0.0.1:+" + strconv.Itoa(int(port)), badRequest},
		{fmt.Sprintf("127.0.0.1:%d", 1<<16+int(port)), badRequest},
	} {
		code, body := w.get("/probe?" + url.Values{"target": {tc.target}}.Encode())
		got := strconv.Itoa(code)
		if code == 200 {
			got = failureReason(body)
		}
		if got != tc.want {
			t.Errorf("%q: %s; want %s\n%s", tc.target, got, tc.want, body)
		}
		count[tc.want]++
	}
	for _, reason := range []string{denied, noAddress} {
		if got := w.metric(fmt.Sprintf(`bounceback_exporter_probe_failures_total{module="rtt",reason=%q}`, reason)); got != strconv.Itoa(count[reason]) {
			t.Errorf("%s failures of %s are counted; there were %d", got, reason, count[reason])
		}
	}
	for _, s := range servers {
		if n := len(s.Journal()); n != 0 {
			t.Errorf("%d connections to %v", n, s.Addr())
		}
	}
}

// failureReason is the reason that an exposition tells; "" is success.
func failureReason(exposition string) string {
	for line := range strings.Lines(exposition) {
		if rest, ok := strings.CutPrefix(line, `probe_failure_reason{reason="`); ok && strings.HasSuffix(line, "} 1\n") {
			reason, _, _ := strings.Cut(rest, `"`)
			return reason
		}
	}
	return ""
}

// A name whose answer changes from one lookup to the next gains nothing: each
// request looks it up once, and what was checked is what is dialled.
func TestLifeRebindingName(t *testing.T) {
	forbidden := fakeserver.Start(t, fakeserver.Script{})
	address := net.JoinHostPort("127.0.0.2", strconv.Itoa(int(forbidden.Addr().Port())))
	if ln, err := net.Listen("tcp", address); err != nil {
		t.Skip("needs a port that is free at two addresses of loopback: ", err)
	} else {
		ln.Close()
	}
	allowed := fakeserver.StartAt(t, address, fakeserver.Script{})
	dns := &names{zone: map[string][]string{"rebinding": {"127.0.0.2", "127.0.0.1", "127.0.0.2", "127.0.0.1"}}}
	w := newWhole(t, "allowed_targets: {networks: [127.0.0.2/32]}\nmodules: {rtt: {count: 2, timeout: 5s}}\n",
		prober.Options{Resolver: dns})
	for i, want := range []string{"", "target_denied", "", "target_denied"} {
		_, body := w.get(fmt.Sprintf("/probe?target=rebinding:%d", allowed.Addr().Port()))
		if got := failureReason(body); got != want {
			t.Errorf("request %d: %q; want %q", i, got, want)
		}
		if n := dns.asked["rebinding"]; n != i+1 {
			t.Errorf("%d lookups for %d requests", n, i+1)
		}
	}
	w.quiet(t)
	if n := len(forbidden.Journal()); n != 0 {
		t.Errorf("%d connections to the forbidden address", n)
	}
	if n := len(allowed.Journal()); n != 2 {
		t.Errorf("%d connections to the allowed address; want 2", n)
	}
	if got := w.metric(`bounceback_exporter_probe_failures_total{module="rtt",reason="target_denied"}`); got != "2" {
		t.Errorf("%s refusals are counted; want 2", got)
	}
}
