package peers

import (
	"context"
	"net/netip"
	"time"
)

// Slot is the right to have a connection at an address whose first reply is not
// back yet. There is one per address: iperf's accept thread reads each first
// message itself, so two at once wait for each other, and some releases don't
// survive a connection that is accepted the instant another one ends.
type Slot struct {
	t    *Table
	e    *entry
	done bool
}

// Handshake waits for the address's slot. Turns are taken in order of arrival. It
// returns ctx's cause if that takes too long.
func (t *Table) Handshake(ctx context.Context, addr netip.AddrPort) (*Slot, error) {
	t.mu.Lock()
	e := t.get(addr)
	w := &waiter{ready: make(chan struct{})}
	e.slotted = append(e.slotted, w)
	e.grant()
	t.mu.Unlock()

	err := t.await(ctx, w,
		func() { e.slotted = remove(e.slotted, w); t.put(e) },
		func() { e.slot = false; e.grant(); t.put(e) })
	if err != nil {
		return nil, err
	}
	return &Slot{t: t, e: e}, nil
}

func (e *entry) grant() {
	if !e.slot && len(e.slotted) > 0 {
		e.slot = true
		close(e.slotted[0].ready)
		e.slotted = e.slotted[1:]
	}
}

// Pace waits until no connection to the address has ended for gap. It returns
// ctx's cause if that takes too long.
func (s *Slot) Pace(ctx context.Context, gap time.Duration) error {
	for {
		s.t.mu.Lock()
		left := gap - s.t.now().Sub(s.e.lastEnd)
		if s.e.lastEnd.IsZero() || left > gap {
			left = 0 // nothing ended yet; or the clock was set back
		}
		s.t.mu.Unlock()
		if left <= 0 {
			return nil
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

// Release gives the slot back. A second call does nothing.
func (s *Slot) Release() {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	if s.done {
		return
	}
	s.done = true
	s.e.slot = false
	s.e.grant()
	s.t.put(s.e)
}

// Ended notes that a connection of ours to the address has just ended.
func (t *Table) Ended(addr netip.AddrPort) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.get(addr)
	e.lastEnd = t.now()
	t.put(e)
}

// DrainStarted counts a connection that is being ended in the background, and
// DrainEnded that it has ended.
func (t *Table) DrainStarted(addr netip.AddrPort) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.get(addr)
	t.drains++
}

// DrainEnded is DrainStarted's counterpart; it also notes the end for Pace.
func (t *Table) DrainEnded(addr netip.AddrPort) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.m[addr]
	e.lastEnd = t.now()
	t.drains--
	t.put(e)
}

// Drains is the number of connections being ended in the background.
func (t *Table) Drains() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.drains
}

// Learn remembers the version of the server at an address.
func (t *Table) Learn(addr netip.AddrPort, v Version) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.get(addr)
	e.version, e.learned = v, t.now()
	t.put(e)
}

// Forget drops the version: after any failure there the server may be another.
func (t *Table) Forget(addr netip.AddrPort) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.m[addr]; e != nil {
		e.learned = time.Time{}
	}
}

// Version is what was learned within VersionTTL.
func (t *Table) Version(addr netip.AddrPort) (Version, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.m[addr]
	if e == nil || e.learned.IsZero() || t.now().Sub(e.learned) >= VersionTTL {
		return Version{}, false
	}
	return e.version, true
}
