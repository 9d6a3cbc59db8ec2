package config

import (
	"fmt"
	"net/netip"
	"slices"
)

// AllowedTargets says who may be probed. The zero value allows everything.
type AllowedTargets struct {
	// Networks that may be probed; empty: all.
	Networks []netip.Prefix
	// Ports that may be probed; empty: all.
	Ports []uint16
}

// Empty tells whether there is no restriction at all.
func (a *AllowedTargets) Empty() bool { return len(a.Networks) == 0 && len(a.Ports) == 0 }

// Check tests the one literal address that is about to be dialled. A v4-mapped
// IPv6 address is tested as the IPv4 address it stands for, and a zone does not
// hide an address from its network. The error says what is allowed.
func (a *AllowedTargets) Check(addr netip.AddrPort) error {
	if len(a.Ports) > 0 && !slices.Contains(a.Ports, addr.Port()) {
		return fmt.Errorf("port %d is not in allowed_targets.ports %v", addr.Port(), a.Ports)
	}
	if len(a.Networks) == 0 {
		return nil
	}
	ip := addr.Addr().Unmap().WithZone("")
	for _, n := range a.Networks {
		if n.Contains(ip) {
			return nil
		}
	}
	return fmt.Errorf("address %s is not in allowed_targets.networks %v", ip, a.Networks)
}
