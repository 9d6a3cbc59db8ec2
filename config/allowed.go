package config

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// AllowedTargets says who may be probed. The zero value allows everything.
type AllowedTargets struct {
	// Networks that may be probed; empty: all.
	Networks []netip.Prefix
	// Ports that may be probed; empty: all.
	Ports []uint16
}

// Empty tells whether there is no restriction at all.
func (a *AllowedTargets) Empty() bool { return a == nil || len(a.Networks) == 0 && len(a.Ports) == 0 }

// Check tests the one literal address that is about to be dialled. A v4-mapped
// IPv6 address is tested as the IPv4 address it stands for, since that is where
// the kernel connects to, and so is a network of such addresses. A zone does not
// hide an address from its network. The error says what is allowed; nil
// AllowedTargets allow every address there is.
func (a *AllowedTargets) Check(addr netip.AddrPort) error {
	if !addr.Addr().IsValid() {
		return errors.New("there is no address to be tested against allowed_targets")
	}
	if a.Empty() {
		return nil
	}
	if len(a.Ports) > 0 && !slices.Contains(a.Ports, addr.Port()) {
		return fmt.Errorf("port %d is not in allowed_targets.ports (%s)", addr.Port(), some(portRanges(a.Ports)))
	}
	if len(a.Networks) == 0 {
		return nil
	}
	ip := addr.Addr().Unmap().WithZone("")
	for _, n := range a.Networks {
		if unmapPrefix(n).Contains(ip) {
			return nil
		}
	}
	return fmt.Errorf("address %s is not in allowed_targets.networks (%s)", ip, some(a.Networks))
}

// some lists the first few of what may be a long list.
func some[T any](items []T) string {
	const few = 8
	var out []string
	for _, v := range items[:min(few, len(items))] {
		out = append(out, fmt.Sprint(v))
	}
	if more := len(items) - few; more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(out, ", ")
}
