package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"github.com/bounceback-exporter/bounceback_exporter/prober"
)

func sprintf(format string, a ...any) string { return fmt.Sprintf(format, a...) }

func TestMask(t *testing.T) {
	m := masker{on: true}
	m.add("server.example")
	m.add("db")
	m.add("fe80::1%eth0")
	m.add("wei rd")
	for in, want := range map[string]string{
		"dial tcp 10.0.0.1:5001: connect: connection refused": "dial tcp (hidden):5001: connect: connection refused",
		"read 10.0.0.5:41234->10.0.0.6:5001: reset":           "read (hidden):41234->(hidden):5001: reset",
		"[2001:db8::1]:5001 is mute.":                         "(hidden):5001 is mute.",
		"2001:db8::1":                                         "(hidden)",
		"fd00::: no route":                                    "(hidden): no route",
		"fe80::1%eth0 and [fe80::1%eth0]:5001":                "(hidden) and (hidden):5001",
		"address 10.1.2.3 is not in [10.0.0.0/8 fd00::/8]":    "address (hidden) is not in [(hidden)]",
		"lookup SERVER.example. on 10.0.0.53:53":              "lookup (hidden) on (hidden):53",
		"server.example.corp.internal:5001":                   "(hidden):5001",
		"db: no such host; dbx stays":                         "(hidden): no such host; dbx stays",
		"a wei rd name":                                       "a (hidden) name",
		"::ffff:10.0.0.1":                                     "(hidden)",
		"iperf 2.1.8 took 1.234 ms at 12:30":                  "iperf 2.1.8 took 1.234 ms at 12:30",
		"addr=10.0.0.1, (10.0.0.2)":                           "addr=(hidden), (hidden)",
		"address 10.1.2.3 is not in allowed_targets.networks (10.0.0.0/8, fd00::/8, ::1/128)": "address (hidden) is not in allowed_targets.networks (hidden)",
		"10.0.0.0/8.":                        "(hidden).",
		"10.0.0.1/tmp and 10.0.0.2/24/x":     "(hidden)/tmp and (hidden)/24/x",
		"10.0.0.1/8-bit, 10.0.0.2/1234 (db)": "(hidden)/8-bit, (hidden)/1234 (hidden)",
		"10.0.0.1.":                          "(hidden).",
		"fe80::1%x: no, fe80::1%: no":        "(hidden): no, (hidden) no",
		"::::":                               "(hidden)(hidden)",
		"::[10.0.0.1]":                       "(hidden)(hidden)",
		"":                                   "",
	} {
		if got := m.text(in); got != want {
			t.Errorf("%q\nbecame %q\nwant   %q", in, got, want)
		}
	}
	off := masker{}
	if got := off.text("10.0.0.1"); got != "10.0.0.1" {
		t.Errorf("a masker that is off made %q", got)
	}
}

// TestNothingLeaks looks for every address and name of a fixture in everything
// that can be written of it.
func TestNothingLeaks(t *testing.T) {
	address := regexp.MustCompile(`\d+\.\d+\.\d+\.\d+|[0-9a-f]*:[0-9a-f]*:[0-9a-f:]+`)
	clock := regexp.MustCompile(`"start_time": ?"[^"]*"`)
	all := fixtures()
	all["dns server"] = func() *prober.Result {
		r := resolveFailed()
		r.Err.Cause = fmt.Errorf("wrapped: %w", &net.DNSError{Err: "server misbehaving", Name: "alias.example", Server: "[2001:db8::53]:53"})
		return r
	}()
	for name, r := range all {
		for form, write := range map[string]func(io.Writer, *prober.Result, Options) error{"text": Text, "json": JSON, "raw": Raw} {
			var b bytes.Buffer
			if err := write(&b, r, Options{HideIPs: true, Log: true}); err != nil {
				t.Fatal(err)
			}
			out := clock.ReplaceAllString(b.String(), "")
			if m := address.FindString(out); m != "" {
				t.Errorf("%s as %s shows %q", name, form, m)
			}
			for _, secret := range []string{"server.example", "alias.example", "eth0", "fe80"} {
				if strings.Contains(out, secret) {
					t.Errorf("%s as %s shows %q", name, form, secret)
				}
			}
		}
	}
}

// The zone of the target is named by itself where there is no such interface.
func TestMaskHidesTheZone(t *testing.T) {
	for host, want := range map[string]string{
		"fe80::1%zone-secret": `zone of (hidden): no network interface is called "(hidden)"`,
		"fe80::1%7":           `zone of (hidden): no network interface is called "7"`,
	} {
		m := newMasker(&prober.Result{Target: prober.Target{Host: host}}, &Options{HideIPs: true})
		_, zone, _ := strings.Cut(host, "%")
		if got := m.text("zone of " + host + ": no network interface is called \"" + zone + "\""); got != want {
			t.Errorf("%s\nbecame %s\nwant   %s", host, got, want)
		}
	}
}

func TestMaskKeepsPorts(t *testing.T) {
	m := newMasker(&prober.Result{Err: &prober.Error{Cause: errors.New("x")}}, &Options{HideIPs: true})
	if got := m.addrPort(netip.MustParseAddrPort("[2001:db8::1]:5002")); got != "(hidden):5002" {
		t.Errorf("got %q", got)
	}
}

func FuzzMask(f *testing.F) {
	f.Add("dial tcp 10.0.0.1:5001: refused", "server.example")
	f.Add("[fe80::1%eth0]:5001", "db")
	f.Add("::::", "0")
	f.Add("fe80::1%:", "x")
	f.Add("fe80::1%x::", "x")
	f.Fuzz(func(t *testing.T, s, name string) {
		m := masker{on: true}
		m.add(name)
		got := m.text(s)
		for _, w := range strings.FieldsFunc(got, func(c rune) bool { return !inWord(c) }) {
			if _, err := netip.ParseAddr(w); err == nil {
				t.Errorf("%q is still in %q", w, got)
			}
			if _, err := netip.ParseAddrPort(w); err == nil {
				t.Errorf("%q is still in %q", w, got)
			}
		}
	})
}
