package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"
)

const (
	maxNetworks = 1000
	// maxPorts bounds the ports that ranges may add up to: the list is searched
	// for every probe.
	maxPorts = 1024
	// maxInterfaceName and maxCongestionControl are the kernel's (IFNAMSIZ and
	// TCP_CA_NAME_MAX, both 16 with the terminating zero).
	maxInterfaceName     = 15
	maxCongestionControl = 15
)

// networks reads a list of networks, sorted and without repetitions.
func (d *decoder) networks(n *yaml.Node, key string, dst *[]netip.Prefix) {
	var out []netip.Prefix
	d.list(n, key, maxNetworks, func(v *yaml.Node, key string) {
		const want = "a network such as 10.0.0.0/8 or fd00::/8, or one address"
		s, ok := d.text(v, key, want)
		if !ok {
			return
		}
		p, hint := parseNetwork(s)
		if hint != "" {
			d.at(v, key, "must be "+want+"; "+hint)
			return
		}
		out = append(out, p)
	})
	slices.SortFunc(out, netip.Prefix.Compare)
	*dst = slices.Compact(out)
}

// parseNetwork reads a network or a single address. A network of v4-mapped
// addresses is the IPv4 network it stands for, since that is how addresses are
// tested. The hint says what is wrong.
func parseNetwork(s string) (p netip.Prefix, hint string) {
	if !strings.Contains(s, "/") {
		a, err := netip.ParseAddr(s)
		switch {
		case err != nil:
			return p, "names are not looked up here, since what is tested is the address that is dialled"
		case a.Zone() != "":
			return p, "without a zone: it is tested without one"
		}
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), ""
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return p, "this is neither"
	}
	if p.Masked() != p {
		return p, fmt.Sprintf("this has bits beyond its length: the network is %s, the address alone %s", p.Masked(), p.Addr())
	}
	return unmapPrefix(p), ""
}

// unmapPrefix turns a network of v4-mapped addresses into the IPv4 network.
func unmapPrefix(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p
}

// ports reads a list of ports and ranges of ports, sorted and without
// repetitions.
func (d *decoder) ports(n *yaml.Node, key string, dst *[]uint16) {
	const want = "a port from 1 to 65535, or a range such as 5001-5010"
	var out []uint16
	total := 0
	d.list(n, key, maxPorts, func(v *yaml.Node, key string) {
		v, ok := d.scalar(v, key, want)
		if !ok {
			return
		}
		first, last, isRange := strings.Cut(v.Value, "-")
		if !isRange {
			last = first
		}
		low, ok1 := parsePort(first)
		high, ok2 := parsePort(last)
		switch {
		case !ok1 || !ok2:
			d.at(v, key, "must be "+want)
			return
		case quoted(v) && !isRange:
			d.at(v, key, "must be "+want+"; a port without quotes")
			return
		case high < low:
			d.at(v, key, "must be "+want+"; the lower end comes first")
			return
		}
		if total += int(high-low) + 1; total > maxPorts {
			return
		}
		for p := int(low); p <= int(high); p++ {
			out = append(out, uint16(p))
		}
	})
	if total > maxPorts {
		d.mistake(n.Line, key, fmt.Sprintf("%d ports", total), fmt.Sprintf("at most %d; leave the key out to allow every port", maxPorts))
	}
	slices.Sort(out)
	*dst = slices.Compact(out)
}

// parsePort reads 1 to 65535 in decimal, without a sign or leading zeros.
func parsePort(s string) (uint16, bool) {
	p, err := strconv.ParseUint(s, 10, 16)
	return uint16(p), err == nil && p > 0 && strconv.FormatUint(p, 10) == s
}

// source reads the address that probes are sent from; "" leaves it to the kernel.
func (d *decoder) source(n *yaml.Node, key string, dst *netip.Addr) {
	const want = "an address of this host, or empty for the kernel's choice"
	s, ok := d.text(n, key, want)
	if !ok || s == "" {
		return
	}
	a, err := netip.ParseAddr(s)
	if a = a.Unmap(); err != nil || a.IsUnspecified() || a.IsMulticast() || len(a.Zone()) > maxInterfaceName {
		d.at(n, key, "must be "+want)
		return
	}
	*dst = a
}

// iface reads the name of an interface, by the kernel's own rule.
func (d *decoder) iface(n *yaml.Node, key string, dst *string) {
	want := fmt.Sprintf("the name of an interface, at most %d bytes without spaces, / and :", maxInterfaceName)
	s, ok := d.text(n, key, want)
	if !ok {
		return
	}
	odd := strings.ContainsFunc(s, func(r rune) bool {
		return r == '/' || r == ':' || unicode.IsSpace(r) || !unicode.IsPrint(r)
	})
	if odd || len(s) > maxInterfaceName || s == "." || s == ".." {
		d.at(n, key, "must be "+want)
		return
	}
	*dst = s
}

// congestionControl reads the name of a TCP congestion control. Whether this
// kernel has it shows when it is used: modules may be loaded later.
func (d *decoder) congestionControl(n *yaml.Node, key string, dst *string) {
	want := fmt.Sprintf("the name of a congestion control such as cubic: at most %d letters, digits, _ and -", maxCongestionControl)
	s, ok := d.text(n, key, want)
	if !ok {
		return
	}
	if len(s) > maxCongestionControl || strings.ContainsFunc(s, func(r rune) bool { return !isWord(r) && r != '-' }) {
		d.at(n, key, "must be "+want)
		return
	}
	*dst = s
}

// isWord tells ASCII letters, digits and _.
func isWord(r rune) bool {
	return r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
}
