package peers

import (
	"context"
	"net/netip"
)

// Lease is the right to probe an address: shared by plain probes, exclusive for
// one with a load.
type Lease struct {
	t         *Table
	e         *entry
	exclusive bool
	holds     int
}

// Enter waits until the address may be probed: a plain probe while no load runs
// there, an exclusive one while nothing else does. Turns are taken in order of
// arrival, so that plain probes can't keep a load out for ever, nor loads a plain
// probe. It returns ctx's cause if that takes too long.
func (t *Table) Enter(ctx context.Context, addr netip.AddrPort, exclusive bool) (*Lease, error) {
	t.mu.Lock()
	e := t.get(addr)
	l := &Lease{t: t, e: e, exclusive: exclusive, holds: 1}
	w := &waiter{exclusive: exclusive, ready: make(chan struct{})}
	e.entering = append(e.entering, w)
	e.admit()
	t.mu.Unlock()

	err := t.await(ctx, w,
		func() { e.entering = remove(e.entering, w); e.admit(); t.put(e) },
		func() { e.leave(exclusive); t.put(e) })
	if err != nil {
		return nil, err
	}
	return l, nil
}

// admit lets in whoever is first in line and fits.
func (e *entry) admit() {
	for len(e.entering) > 0 {
		w := e.entering[0]
		if e.exclusive || w.exclusive && e.shared > 0 {
			return
		}
		if w.exclusive {
			e.exclusive = true
		} else {
			e.shared++
		}
		e.entering = e.entering[1:]
		close(w.ready)
	}
}

func (e *entry) leave(exclusive bool) {
	if exclusive {
		e.exclusive = false
	} else {
		e.shared--
	}
	e.admit()
}

// Hold keeps the lease for something that goes on after its owner's Release; each
// Hold needs a Release of its own.
func (l *Lease) Hold() {
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	l.holds++
}

// Release gives the lease back; the last one ends it.
func (l *Lease) Release() {
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	l.holds--
	if l.holds == 0 {
		l.e.leave(l.exclusive)
		l.t.put(l.e)
	}
}
