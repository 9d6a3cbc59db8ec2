package config

import (
	"net/netip"
	"strings"
	"testing"
)

func prefixes(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range texts {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func TestCheck(t *testing.T) {
	v4 := &AllowedTargets{Networks: prefixes("10.0.0.0/8")}
	mapped := &AllowedTargets{Networks: prefixes("::ffff:10.0.0.0/104")} // made by hand, not by the loader
	both := &AllowedTargets{Networks: prefixes("10.0.0.0/8", "fe80::/10"), Ports: []uint16{5001, 5002, 5003, 6001}}
	all4, all6 := &AllowedTargets{Networks: prefixes("0.0.0.0/0")}, &AllowedTargets{Networks: prefixes("::/0")}
	for _, c := range []struct {
		name    string
		allowed *AllowedTargets
		addr    string
		want    string // "": allowed; else part of the error
	}{
		{"nil", nil, "10.0.0.1:1", ""},
		{"nothing set", &AllowedTargets{}, "[2001:db8::1]:1", ""},
		{"inside", v4, "10.255.255.255:1", ""},
		{"outside", v4, "11.0.0.0:1", "address 11.0.0.0 is not in allowed_targets.networks (10.0.0.0/8)"},
		{"v4-mapped address, inside", v4, "[::ffff:10.0.0.1]:1", ""},
		{"v4-mapped address, outside", v4, "[::ffff:11.0.0.1]:1", "address 11.0.0.1 is not"},
		{"v4-mapped address with a zone, inside", v4, "[::ffff:10.0.0.1%eth0]:1", ""},
		{"v4-mapped address with a zone, outside", v4, "[::ffff:11.0.0.1%eth0]:1", "address 11.0.0.1 is not"},
		{"v4-mapped network", mapped, "10.0.0.1:1", ""},
		{"v4-mapped network, outside", mapped, "11.0.0.1:1", "is not in"},
		{"both v4-mapped", mapped, "[::ffff:10.0.0.1]:1", ""},
		{"v4-compatible is not v4", v4, "[::10.0.0.1]:1", "is not in"},
		{"NAT64 is not v4", v4, "[64:ff9b::10.0.0.1]:1", "is not in"},
		{"6to4 is not v4", v4, "[2002:a00:1::]:1", "is not in"},
		{"all of IPv6 has no v4-mapped address", all6, "[::ffff:10.0.0.1]:1", "address 10.0.0.1 is not"},
		{"all of IPv6 has no IPv4", all6, "10.0.0.1:1", "is not in"},
		{"all of IPv4 has no IPv6", all4, "[::1]:1", "is not in"},
		{"all of IPv4 has what is v4-mapped", all4, "[::ffff:127.0.0.1]:1", ""},
		{"a zone does not hide an address", both, "[fe80::1%eth0]:5001", ""},
		{"nor lets it in", both, "[fec0::1%fe80]:5001", "address fec0::1 is not"},
		{"port inside", both, "10.0.0.1:6001", ""},
		{"port outside", both, "10.0.0.1:5004", "port 5004 is not in allowed_targets.ports (5001-5003, 6001)"},
		{"port 0", both, "10.0.0.1:0", "port 0 is not"},
		{"ports only", &AllowedTargets{Ports: []uint16{5001}}, "[::1]:5001", ""},
		{"ports only, outside", &AllowedTargets{Ports: []uint16{5001}}, "[::1]:5002", "port 5002 is not"},
		{"one address", &AllowedTargets{Networks: prefixes("192.0.2.1/32")}, "192.0.2.2:1", "is not in"},
	} {
		err := c.allowed.Check(netip.MustParseAddrPort(c.addr))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && err == nil:
			t.Errorf("%s: is allowed", c.name)
		case c.want != "" && !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %q lacks %q", c.name, err, c.want)
		}
	}
}

// TestCheckNoAddress: what is no address can't be dialled, so it is never allowed.
func TestCheckNoAddress(t *testing.T) {
	for _, a := range []*AllowedTargets{nil, {}, {Networks: prefixes("0.0.0.0/0")}, {Ports: []uint16{5001}}} {
		if a.Check(netip.AddrPortFrom(netip.Addr{}, 5001)) == nil {
			t.Errorf("%+v allows an invalid address", a)
		}
	}
}

// TestCheckLongList: the error stays readable however long the lists are.
func TestCheckLongList(t *testing.T) {
	a := &AllowedTargets{}
	for i := range 250 {
		a.Networks = append(a.Networks, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i), 0}), 24))
	}
	err := a.Check(netip.MustParseAddrPort("192.0.2.1:1"))
	if err == nil || !strings.HasSuffix(err.Error(), "10.0.7.0/24, and 242 more)") {
		t.Errorf("got %v", err)
	}
}
