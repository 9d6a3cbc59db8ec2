package peers

import (
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock is a table's clock that tests set.
type clock struct{ t time.Time }

func (c *clock) now() time.Time          { return c.t }
func (c *clock) advance(d time.Duration) { c.t = c.t.Add(d) }
func newClock() *clock                   { return &clock{time.Unix(1_700_000_000, 0)} }

var v218 = Version{Upper: 2, Lower: 1, Patch: 8, Stage: 3}

func TestVersionIsBelievedForAWhile(t *testing.T) {
	c := newClock()
	tab := New(Options{Now: c.now})
	if _, ok := tab.Version(addr(1)); ok {
		t.Error("a version of a server never seen")
	}
	tab.Learn(addr(1), v218)
	if v, ok := tab.Version(addr(1)); !ok || v != v218 {
		t.Errorf("got %v, %v", v, ok)
	}
	if _, ok := tab.Version(addr(2)); ok {
		t.Error("a version of another server")
	}
	c.advance(VersionTTL - 1)
	if _, ok := tab.Version(addr(1)); !ok {
		t.Error("forgotten before its time")
	}
	tab.Learn(addr(1), v218) // renews
	c.advance(VersionTTL - 1)
	if _, ok := tab.Version(addr(1)); !ok {
		t.Error("learning again did not renew")
	}
	c.advance(1)
	if _, ok := tab.Version(addr(1)); ok {
		t.Error("still believed after its time")
	}
}

func TestForget(t *testing.T) {
	tab := New(Options{})
	tab.Learn(addr(1), v218)
	tab.Forget(addr(1))
	tab.Forget(addr(2)) // never seen
	if _, ok := tab.Version(addr(1)); ok {
		t.Error("not forgotten")
	}
	tab.Learn(addr(1), v218)
	if _, ok := tab.Version(addr(1)); !ok {
		t.Error("can't be learnt again")
	}
}

// 100 000 addresses leave no more behind than the cap allows.
func TestCap(t *testing.T) {
	const limit = 1000
	c := newClock()
	tab := New(Options{Max: limit, Now: c.now})
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	visit := func(from, to int) {
		for i := from; i < to; i++ {
			s := mustHandshake(t, tab, addr(i))
			s.Release()
			tab.Learn(addr(i), v218)
			end(tab, addr(i))
			c.advance(10 * time.Millisecond)
			if n := tab.Len(); n > limit {
				t.Fatalf("%d addresses remembered after %d, the cap is %d", n, i, limit)
			}
		}
	}
	visit(0, 10_000)
	before := heap()
	visit(10_000, 100_000)
	if after := heap(); after > before+before/4+1<<20 {
		t.Errorf("heap grew from %d to %d bytes over 90 000 addresses", before, after)
	}
	if _, ok := tab.Version(addr(99_999)); !ok {
		t.Error("the latest address was forgotten")
	}
	if _, ok := tab.Version(addr(0)); ok {
		t.Error("the first address is still known")
	}
	runtime.KeepAlive(tab)
}

// What something is going on at is never forgotten, however many others come.
func TestBusyEntriesStay(t *testing.T) {
	c := newClock()
	tab := New(Options{Max: 10, Now: c.now})
	slot := mustHandshake(t, tab, addr(1))
	lease, err := tab.Enter(t.Context(), addr(2), false)
	if err != nil {
		t.Fatal(err)
	}
	drain := tab.DrainStarted(addr(3))
	kept := []*entry{tab.m[addr(1)], tab.m[addr(2)], tab.m[addr(3)]}
	for i := range 5000 {
		tab.Learn(addr(100+i), v218)
		c.advance(time.Second)
	}
	for i, e := range kept {
		if tab.m[addr(i+1)] != e {
			t.Errorf("busy entry %d was forgotten", i+1)
		}
	}
	slot.Release()
	lease.Release()
	drain.Ended()
	c.advance(time.Second)
	for i := range 5000 {
		tab.Learn(addr(10_000+i), v218)
		c.advance(time.Second)
	}
	for i := range kept {
		if tab.m[addr(i+1)] != nil {
			t.Errorf("entry %d stayed when nothing was going on any more", i+1)
		}
	}
}

// A table full of busy addresses takes new ones all the same, and both of two
// users of a new one mean the same entry.
func TestFullOfBusyEntries(t *testing.T) {
	c := newClock()
	tab := New(Options{Max: 1, Now: c.now})
	for i := range 3 {
		mustHandshake(t, tab, addr(i))
	}
	d := tab.DrainStarted(addr(50))
	d.Alone(time.Second)
	if e := tab.m[addr(50)]; e == nil || e.ending != 1 {
		t.Fatalf("the newest entry was forgotten in its first moment: %+v", e)
	}
	d.Ended()
	if n := tab.Len(); n != 4 {
		t.Errorf("%d addresses remembered, 4 are or were just busy", n)
	}
}

// An address whose connection ended a moment ago is remembered at least as long
// as pacing needs it.
func TestPacingSurvivesEviction(t *testing.T) {
	c := newClock()
	tab := New(Options{Max: 5, Now: c.now})
	end(tab, addr(1))
	for i := range 60 {
		tab.Learn(addr(100+i), v218)
	}
	if tab.m[addr(1)] == nil {
		t.Error("forgotten right after the end of its connection")
	}
	c.advance(idleAfter)
	tab.Learn(addr(1000), v218)
	if n := tab.Len(); n > 5 {
		t.Errorf("%d remembered, all idle, the cap is 5", n)
	}
}
