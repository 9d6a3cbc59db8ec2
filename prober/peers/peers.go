// Package peers is all that is remembered about a server address, in one capped
// table with an injected clock: pacing, the handshake slot, load exclusivity,
// drains and version.
package peers

import (
	"context"
	"net/netip"
)

// Table remembers server addresses. It is safe for concurrent use.
type Table struct{}

// Lease is the right to probe an address: shared by plain probes, exclusive for
// one with a load.
type Lease struct{}

// Enter waits until the address may be probed: a plain probe while no load runs
// there, an exclusive one while nothing else does. It returns ctx's error if that
// takes too long.
func (t *Table) Enter(ctx context.Context, addr netip.AddrPort, exclusive bool) (*Lease, error) {
	return &Lease{}, nil
}

// Hold keeps the lease for something that goes on after its owner's Release; each
// Hold needs a Release of its own.
func (l *Lease) Hold() {}

// Release gives the lease back; the last one ends it.
func (l *Lease) Release() {}
