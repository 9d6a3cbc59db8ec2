// Package peers is all that is remembered about a server address, in one capped
// table with an injected clock: pacing, the handshake slot, load exclusivity,
// drains and version.
//
// It exists because a prober must not hurt the server it watches: some releases
// of iperf 2 are damaged by two connections that come too close together, and a
// load on a path falsifies everybody else's figures on it.
package peers

import (
	"container/list"
	"context"
	"net/netip"
	"sync"
	"time"
)

// DefaultMax is the number of addresses a Table remembers.
const DefaultMax = 10000

// VersionTTL is how long a version is believed.
const VersionTTL = 10 * time.Minute

// idleAfter is how long an address must have been quiet before it may be
// forgotten: longer than any pacing gap.
const idleAfter = time.Second

// Version is an iperf 2 release as an ack tells it.
type Version struct{ Upper, Lower, Patch, Stage uint16 }

// Options of a Table; zero values are sensible defaults.
type Options struct {
	Max int              // addresses remembered; DefaultMax
	Now func() time.Time // time.Now
}

// Table remembers server addresses. It is safe for concurrent use.
//
// At most Max addresses are kept; beyond that the least recently used one that
// nothing is going on at is forgotten. Addresses in use are never forgotten, so
// the table can exceed Max only by what the limits on probes and drains allow.
type Table struct {
	now func() time.Time
	max int

	mu     sync.Mutex
	m      map[netip.AddrPort]*entry
	lru    *list.List // of *entry, most recently used first
	drains int
}

type entry struct {
	addr netip.AddrPort
	elem *list.Element
	used time.Time
	refs int // leases, slots and drains, and those who wait for them

	shared    int // plain probes that have entered
	exclusive bool
	entering  []*waiter // in order of arrival

	slot    bool
	slotted []*waiter

	opening bool          // the slot's owner connects, or its first reply is not back
	ending  int           // connections between our FIN and the peer's
	changed chan struct{} // closed when one of the two changes; nil: nobody waits

	lastEnd time.Time
	version Version
	learned time.Time
}

// waiter waits for its turn; ready is closed by whoever grants it.
type waiter struct {
	exclusive bool
	ready     chan struct{}
}

// New makes a Table.
func New(o Options) *Table {
	if o.Max <= 0 {
		o.Max = DefaultMax
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Table{now: o.Now, max: o.Max, m: make(map[netip.AddrPort]*entry), lru: list.New()}
}

// Len is the number of addresses remembered.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.m)
}

// get finds or makes the entry of an address and counts a reference to it.
func (t *Table) get(addr netip.AddrPort) *entry {
	e := t.m[addr]
	if e != nil {
		t.lru.MoveToFront(e.elem)
		e.refs++
		e.used = t.now()
		return e
	}
	// Referenced before the others are looked at: those that are busy move to the
	// front, and so the new one may be looked at too.
	e = &entry{addr: addr, refs: 1, used: t.now()}
	e.elem = t.lru.PushFront(e)
	t.m[addr] = e
	t.evict()
	return e
}

func (t *Table) put(e *entry) {
	e.refs--
	e.used = t.now()
}

// evict forgets idle entries from the least recently used end. It looks at a few
// entries only, so that one call is cheap however many are busy.
func (t *Table) evict() {
	now := t.now()
	looked := 0
	for el := t.lru.Back(); el != nil && len(t.m) > t.max && looked < 64; looked++ {
		e, prev := el.Value.(*entry), el.Prev()
		if e.refs == 0 && now.Sub(e.lastEnd) >= idleAfter {
			t.lru.Remove(el)
			delete(t.m, e.addr)
		} else {
			t.lru.MoveToFront(el)
		}
		el = prev
	}
}

// await waits for w's turn. If ctx ends first it withdraws w through cancel,
// which is called with the lock held, unless the turn was granted meanwhile; then
// the turn is given back through undo.
func (t *Table) await(ctx context.Context, w *waiter, cancel, undo func()) error {
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-w.ready:
		undo()
	default:
		cancel()
	}
	return context.Cause(ctx)
}

func remove(ws []*waiter, w *waiter) []*waiter {
	for i := range ws {
		if ws[i] == w {
			return append(ws[:i:i], ws[i+1:]...)
		}
	}
	return ws
}
