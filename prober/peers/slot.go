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

// Pace waits until a connection may be opened: none of ours to the address is
// being ended, and none has ended for gap. From its return to Release none will be
// ended either (see Drain.Alone). A gap of 0 or less is that of a server which
// needs no such care. It returns ctx's cause if ctx ends, or has ended, before.
func (s *Slot) Pace(ctx context.Context, gap time.Duration) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		s.t.mu.Lock()
		left := gap - s.t.now().Sub(s.e.lastEnd)
		if s.e.lastEnd.IsZero() || left > gap {
			left = 0 // nothing ended yet; or the clock was set back
		}
		if gap <= 0 || left <= 0 && s.e.ending == 0 {
			s.e.opening = true
			s.t.mu.Unlock()
			return nil
		}
		changed := s.e.watch()
		if s.e.ending > 0 {
			left = time.Hour // the end of that one is to be waited for
		}
		s.t.mu.Unlock()
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-changed:
		case <-ctx.Done():
		}
		timer.Stop()
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
	s.e.opening = false
	s.e.wake()
	s.e.grant()
	s.t.put(s.e)
}

// watch is closed at the next wake.
func (e *entry) watch() <-chan struct{} {
	if e.changed == nil {
		e.changed = make(chan struct{})
	}
	return e.changed
}

func (e *entry) wake() {
	if e.changed != nil {
		close(e.changed)
		e.changed = nil
	}
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
