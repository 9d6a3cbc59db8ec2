package main

import (
	"context"
	"net/netip"
	"slices"
	"testing"

	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/prober"
)

// oneAnswer resolves every name to one address.
type oneAnswer struct{ addr netip.Addr }

func (o oneAnswer) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{o.addr}, nil
}

// inside tells, bit by bit, whether an address is in a network, both as 16 bytes with
// IPv4 in its mapped form.
func inside(addr netip.Addr, network netip.Prefix) bool {
	a, n := addr.As16(), network.Addr().As16()
	bits := network.Bits()
	if network.Addr().Is4() {
		bits += 96
	}
	for i := range bits {
		if (a[i/8]^n[i/8])>>(7-i%8)&1 != 0 {
			return false
		}
	}
	return network.Addr().Is4() || network.Addr().Is4In6() || !addr.Unmap().Is4()
}

// Whatever the target, whatever a name server answers and whatever the list: what
// would be dialled is on the list, and what is on the list is not denied.
func FuzzAllowedTargets(f *testing.F) {
	loopback4, loopback6 := netip.MustParseAddr("127.0.0.1").AsSlice(), netip.IPv6Loopback().AsSlice()
	mapped := netip.MustParseAddr("::ffff:127.0.0.1").AsSlice()
	for _, target := range []string{"name", "127.0.0.1", "127.0.0.1:22", "[::1]:5001", "::ffff:7f00:1", "fe80::1%lo", "::ffff:127.0.0.1%lo",
		"0x7f.1", "2130706433", "0.0.0.0", "[::]:1", "name.:5001", "10.255.255.255"} {
		for _, answer := range [][]byte{loopback4, loopback6, mapped} {
			f.Add(target, answer, "", []byte{10, 0, 0, 0}, uint8(8), uint16(5001))
			f.Add(target, answer, "lo", answer, uint8(127), uint16(0))
		}
	}
	f.Fuzz(func(t *testing.T, text string, answer []byte, zone string, network []byte, bits uint8, port uint16) {
		target, err := prober.ParseTarget(text)
		if err != nil {
			return
		}
		resolved, ok := netip.AddrFromSlice(answer)
		at, ok2 := netip.AddrFromSlice(network)
		if !ok || !ok2 {
			return
		}
		prefix, err := at.Prefix(int(bits) % (at.BitLen() + 1))
		if err != nil || prefix.Addr().Is4In6() && prefix.Bits() < 96 {
			return // the configuration takes neither
		}
		if resolved.Is6() {
			resolved = resolved.WithZone(zone)
		}
		allowed := &config.AllowedTargets{Networks: []netip.Prefix{prefix}}
		if port != 0 {
			allowed.Ports = []uint16{port}
		}
		job := &prober.Job{Target: target, Allowed: allowed, Module: &config.Module{PreferredIPProtocol: "ip6", IPProtocolFallback: true, Size: 100}}
		res := prober.New(prober.Options{Resolver: oneAnswer{resolved}}).Resolve(t.Context(), job)
		onList := job.Addr.IsValid() && inside(job.Addr.Addr(), prefix) &&
			(port == 0 || slices.Contains(allowed.Ports, job.Addr.Port()))
		switch {
		case res == nil && !onList:
			t.Fatalf("%q, answered by %v, would dial %v, which is not in %v port %d", text, resolved, job.Addr, prefix, port)
		case res != nil && res.Err.Reason == prober.ReasonTargetDenied && onList:
			t.Fatalf("%q, answered by %v, is denied, though %v is in %v port %d", text, resolved, job.Addr, prefix, port)
		case res == nil && job.Addr.Port() != target.Port:
			t.Fatalf("%q would dial %v", text, job.Addr)
		}
	})
}
