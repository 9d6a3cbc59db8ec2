package prober

import (
	"net/netip"
	"strconv"
	"strings"
	"testing"
)

func TestParseTarget(t *testing.T) {
	for in, want := range map[string]Target{
		"host":                  {"host", 5001},
		"host:80":               {"host", 80},
		"host.example.":         {"host.example.", 5001},
		"HOST.example:65535":    {"HOST.example", 65535},
		"_srv.under_score":      {"_srv.under_score", 5001},
		"1host":                 {"1host", 5001},
		"10.in-addr":            {"10.in-addr", 5001},
		"192.0.2.1":             {"192.0.2.1", 5001},
		"192.0.2.1:5002":        {"192.0.2.1", 5002},
		"::1":                   {"::1", 5001},
		"2001:db8::5002":        {"2001:db8::5002", 5001},
		"[2001:db8::1]":         {"2001:db8::1", 5001},
		"[2001:db8::1]:5002":    {"2001:db8::1", 5002},
		"fe80::1%eth0":          {"fe80::1%eth0", 5001},
		"[fe80::1%eth0]:5002":   {"fe80::1%eth0", 5002},
		"::ffff:192.0.2.1":      {"::ffff:192.0.2.1", 5001},
		strings.Repeat("a", 63): {strings.Repeat("a", 63), 5001},
	} {
		got, err := ParseTarget(in)
		if err != nil || got != want {
			t.Errorf("%q: got %+v, %v", in, got, err)
		}
	}
}

func TestParseTargetRefuses(t *testing.T) {
	for _, in := range []string{
		"", " ", ":", ":5001", "[]", "[]:5001", "%", "%eth0", ".", "..", "a..b", ".a",
		"host:", "host:0", "host:65536", "host:-1", "host:+1", "host:x", "host:1:2", "host: 1", "host:1 ",
		"[::1", "::1]", "[::1]5001", "[::1]:", "[::1]:0", "[host]", "[192.0.2.1]", "[::1]]:5001",
		" host", "host ", "ho st", "host/x", "user@host", "http://host", "host?x", "host#x", "hôst", "ｈost", "host\x00",
		"host\n", "a,b", "$(x)", strings.Repeat("a", 64), strings.Repeat("a.", 127) + "aa", strings.Repeat("x", 1000),
		// Zones.
		"192.0.2.1%eth0", "host%eth0", "::ffff:192.0.2.1%eth0", "[::ffff:192.0.2.1%1]:5001", "fe80::1%", "::1%eth0]:80",
		// The other spellings of 127.0.0.1 and 0.0.0.0.
		"2130706433", "0x7f000001", "0X7F000001", "017700000001", "127.1", "127.0.1", "0177.0.0.1", "0x7f.0.0.1",
		"127.0.0.01", "127.0.0.0x1", "127.0.0.1.", "127.0.0.1.:5001", "0", "0x0", "0x", "00.0.0.0", "127.0.0.256", "1.2.3.4.5", "1.2.3.",
		"١٢٧.0.0.1", "127。0。0。1",
	} {
		if got, err := ParseTarget(in); err == nil {
			t.Errorf("%q was taken for %+v", in, got)
		} else if !strings.Contains(err.Error(), "allowed: host") {
			t.Errorf("%q: the error does not say what is allowed: %v", in, err)
		}
	}
}

// aton is what C libraries make of a host: inet_aton's spellings, a trailing dot
// left aside. It tells whether they would take it for an address.
func aton(host string) bool {
	parts := strings.Split(strings.TrimSuffix(host, "."), ".")
	if len(parts) > 4 {
		return false
	}
	for i, p := range parts {
		max := uint64(255)
		if i == len(parts)-1 {
			max = 1<<(8*(5-len(parts))) - 1
		}
		base := 10
		if l := strings.ToLower(p); strings.HasPrefix(l, "0x") {
			p, base = p[2:], 16
		} else if len(p) > 1 && p[0] == '0' {
			base = 8
		}
		if n, err := strconv.ParseUint(p, base, 64); err != nil || n > max {
			return false
		}
	}
	return true
}

func TestAton(t *testing.T) {
	for _, s := range []string{"2130706433", "0x7f000001", "017700000001", "127.1", "0177.0.0.1", "127.0.0.1", "127.0.0.1."} {
		if !aton(s) {
			t.Errorf("%q is an address for C libraries", s)
		}
	}
	for _, s := range []string{"host", "1host", "1.2.3.4.5", "256.1.1.1", "4294967296", ""} {
		if aton(s) {
			t.Errorf("%q is no address for C libraries", s)
		}
	}
}

func FuzzParseTarget(f *testing.F) {
	for _, s := range []string{"host", "host:80", "[::1]:5001", "fe80::1%eth0", "0x7f.1", "127.0.0.1.", "::ffff:1.2.3.4%1", "[", "a:b", "x.0x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseTarget(s)
		if err != nil {
			if len(err.Error()) > 1000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		if got.Host == "" || got.Port == 0 {
			t.Fatalf("%q: %+v", s, got)
		}
		again, err := ParseTarget(got.String())
		if err != nil || again != got {
			t.Fatalf("%q is %+v, whose own form %q is %+v, %v", s, got, got.String(), again, err)
		}
		a, err := netip.ParseAddr(got.Host)
		if err == nil {
			if a.Is4In6() && a.Zone() != "" {
				t.Fatalf("%q: a zone hides an IPv4 address", s)
			}
			return
		}
		if aton(got.Host) {
			t.Fatalf("%q: C libraries take the name %q for an address", s, got.Host)
		}
		if len(got.Host) > 254 || strings.ContainsAny(got.Host, " \t\r\n%:/@") {
			t.Fatalf("%q: not a name: %q", s, got.Host)
		}
	})
}
