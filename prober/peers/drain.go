package peers

import (
	"net/netip"
	"time"
)

// Drain is a connection that is being ended in the background.
type Drain struct {
	t     *Table
	e     *entry
	alone bool
	done  bool
}

// DrainStarted counts a connection that is to be ended in the background.
func (t *Table) DrainStarted(addr netip.AddrPort) *Drain {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drains++
	return &Drain{t: t, e: t.get(addr)}
}

// Alone waits, at most for limit, until no handshake of ours is under way at the
// address, and then keeps handshakes away (Slot.Pace) until Ended. It is for the
// time between our FIN and the peer's: up to 2.1.8, a server whose connection ends
// while it takes another one from the same host dies, or never answers again,
// once in some ten to a hundred times.
func (d *Drain) Alone(limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	d.t.mu.Lock()
	defer d.t.mu.Unlock()
	for late := false; d.e.opening && !late; {
		changed := d.e.watch()
		d.t.mu.Unlock()
		select {
		case <-changed:
		case <-timer.C:
			late = true
		}
		d.t.mu.Lock()
	}
	if !d.alone && !d.done {
		d.alone = true
		d.e.ending++
	}
}

// Ended notes that the connection has ended. A second call does nothing.
func (d *Drain) Ended() {
	d.t.mu.Lock()
	defer d.t.mu.Unlock()
	if d.done {
		return
	}
	d.done = true
	d.e.lastEnd = d.t.now()
	d.t.drains--
	if d.alone {
		d.e.ending--
		d.e.wake()
	}
	d.t.put(d.e)
}

// Drains is the number of connections being ended in the background.
func (t *Table) Drains() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.drains
}
