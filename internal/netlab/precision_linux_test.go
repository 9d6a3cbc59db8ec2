package netlab

import (
	"slices"
	"testing"
	"time"
)

func TestDelayIsExact(t *testing.T) {
	Require(t)
	out, back := 5*time.Millisecond, 15*time.Millisecond
	l := New(t, Config{AtoB: Link{Delay: out}, BtoA: Link{Delay: back}})
	trips := (&echo{n: 500, ipLength: 128, gap: 4 * time.Millisecond}).run(t, l)
	var o, b []time.Duration
	for _, x := range trips {
		if x.lost {
			t.Fatal("lost")
		}
		o, b = append(o, x.out-out), append(b, x.back-back)
	}
	slices.Sort(o)
	slices.Sort(b)
	for _, e := range [][]time.Duration{o, b} {
		t.Log("min", e[0], "p50", e[len(e)/2], "p99", e[len(e)*99/100], "max", e[len(e)-1])
	}
	t.Logf("%+v\n%+v cpu %v rt %v", l.Link(AtoB).Stats(), l.Link(BtoA).Stats(), l.LinkCPU(), l.Realtime())
}
