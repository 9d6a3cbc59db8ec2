package prober

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// DefaultPort is iperf 2's.
const DefaultPort = 5001

// Target is what a user asks for: a host, which may be a name or a literal
// address with a zone, and a port.
type Target struct {
	Host string
	Port uint16
}

// String is the target as host:port, a v6 host in brackets.
func (t Target) String() string { return net.JoinHostPort(t.Host, strconv.Itoa(int(t.Port))) }

// maxTargetLen bounds a target: a name has at most 253 bytes, a zone is short.
const maxTargetLen = 320

// ParseTarget reads host, host:port, [v6], [v6]:port, a bare v6 address or
// v6%zone. The port is DefaultPort unless given.
//
// A host is a name or an address as RFC 4291 and dotted decimal have it. The
// other spellings of an IPv4 address that C libraries take (octal, hexadecimal,
// one number, a trailing dot) are refused: what they mean differs from resolver
// to resolver. The error says what is allowed.
func ParseTarget(s string) (Target, error) {
	fail := func(why string) (Target, error) {
		if len(s) > 80 {
			s = s[:80] + "..."
		}
		return Target{}, fmt.Errorf("target %q: %s (allowed: host, host:port, [v6], [v6]:port, v6%%zone)", s, why)
	}
	if s == "" {
		return fail("empty")
	}
	if len(s) > maxTargetLen {
		return fail(fmt.Sprintf("longer than %d bytes", maxTargetLen))
	}
	host, port := s, ""
	bracketed := s[0] == '['
	switch {
	case bracketed:
		end := strings.IndexByte(s, ']')
		if end < 0 {
			return fail("no ] after [")
		}
		host = s[1:end]
		switch rest := s[end+1:]; {
		case rest == "":
		case rest[0] == ':':
			if port = rest[1:]; port == "" {
				return fail("no port after the colon")
			}
		default:
			return fail("only :port may follow ]")
		}
	case strings.Count(s, ":") == 1:
		host, port, _ = strings.Cut(s, ":")
		if port == "" {
			return fail("no port after the colon")
		}
	}
	t := Target{Host: host, Port: DefaultPort}
	if port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 || port[0] == '+' {
			return fail("port must be a number from 1 to 65535")
		}
		t.Port = uint16(n)
	}
	if host == "" {
		return fail("no host")
	}
	isV6 := strings.Contains(host, ":")
	if bracketed && !isV6 {
		return fail("only an IPv6 address belongs in brackets")
	}
	if isV6 || strings.Contains(host, "%") {
		a, err := netip.ParseAddr(host)
		if err != nil || !a.Is6() {
			return fail("not an IPv6 address")
		}
		if a.Is4In6() && a.Zone() != "" {
			return fail("an IPv4 address has no zone")
		}
		if !isZone(a.Zone()) {
			return fail("a zone is the name or number of an interface")
		}
		return t, nil
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return t, nil
	}
	if why := badName(host); why != "" {
		return fail(why)
	}
	return t, nil
}

// isZone tells whether a zone, where there is one, can name an interface: the
// kernel takes nearly every byte, but what would have to be quoted is of no use.
func isZone(zone string) bool {
	return strings.IndexFunc(zone, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune("[]:/%", r)
	}) < 0
}

// badName says what keeps a host from being a DNS name; "" if nothing does.
func badName(host string) string {
	name := strings.TrimSuffix(host, ".")
	if len(name) > 253 {
		return "host name longer than 253 bytes"
	}
	labels := strings.Split(name, ".")
	for _, l := range labels {
		if l == "" || len(l) > 63 {
			return "host name with a part that is empty or longer than 63 bytes"
		}
		for i := 0; i < len(l); i++ {
			c := l[i]
			if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
				return "host name may have letters, digits, hyphens, underscores and dots only"
			}
		}
	}
	last := labels[len(labels)-1]
	if last[0] >= '0' && last[0] <= '9' && isNumber(last) {
		return "a host that ends in a number must be an IPv4 address in dotted decimal"
	}
	return ""
}

func isNumber(s string) bool {
	if len(s) > 1 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X') {
		return strings.Trim(s[2:], "0123456789abcdefABCDEF") == ""
	}
	return strings.Trim(s, "0123456789") == ""
}
