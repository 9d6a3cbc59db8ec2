package web

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/prober"
)

func entry(target string, o Outcome) *Entry {
	e := &Entry{Target: target, Module: "rtt", Outcome: o}
	e.bytes = e.size()
	return e
}

func TestHistoryKeepsFailuresLonger(t *testing.T) {
	h := newHistory(10)
	failed := h.add(entry("bad", Failed))
	rejected := h.add(entry("full", Rejected))
	for i := range 1000 {
		h.add(entry(fmt.Sprint("good", i), Succeeded))
	}
	if _, ok := h.get(failed); !ok {
		t.Error("1000 successes pushed the only failure out")
	}
	if _, ok := h.get(rejected); !ok {
		t.Error("1000 successes pushed the only rejection out")
	}
	if n := len(h.find(filter{Outcome: Succeeded}, 99)); n != 8 {
		t.Errorf("%d successes are left; want 8", n)
	}

	// Failures do not push all successes out either.
	for range 1000 {
		h.add(entry("bad", Failed))
		h.add(entry("full", Rejected))
	}
	if ok, bad, full := len(h.find(filter{Outcome: Succeeded}, 99)), len(h.find(filter{Outcome: Failed}, 99)),
		len(h.find(filter{Outcome: Rejected}, 99)); ok < 4 || bad < 4 || full != 1 {
		t.Errorf("%d successes, %d failures, %d rejections", ok, bad, full)
	}
}

func TestHistoryBounds(t *testing.T) {
	text := strings.Repeat("x", historyBytes/2)
	for _, limit := range []int{0, 1, 2, 3, 100} {
		h := newHistory(limit)
		rnd := rand.New(rand.NewPCG(uint64(limit), 1))
		kinds := []Outcome{Succeeded, Failed, Rejected}
		for i := range 3000 {
			e := entry("t", kinds[rnd.IntN(3)])
			if i%3 == 0 { // larger than the whole history may be together
				e.Report = text[:rnd.IntN(len(text))]
				e.bytes = e.size()
			}
			id := h.add(e)
			if len(h.byID) > limit || h.bytes > historyBytes {
				t.Fatalf("limit %d: %d entries, %d bytes", limit, len(h.byID), h.bytes)
			}
			if _, ok := h.get(id); ok != (limit > 0) {
				t.Fatalf("limit %d: the newest entry is not there", limit)
			}
		}
		bytes, n := 0, 0
		for _, l := range h.lists {
			for el := l.Front(); el != nil; el = el.Next() {
				bytes, n = bytes+el.Value.(*Entry).bytes, n+1
			}
		}
		if bytes != h.bytes || n != len(h.byID) {
			t.Errorf("limit %d: counted %d bytes, %d entries; there are %d, %d", limit, h.bytes, len(h.byID), bytes, n)
		}
	}
}

func TestHistoryFind(t *testing.T) {
	h := newHistory(100)
	for i := range 30 {
		e := entry([]string{"a", "b", "c"}[i%3], []Outcome{Succeeded, Failed}[i%2])
		e.Module = []string{"rtt", "owd"}[i/15]
		h.add(e)
	}
	ids := func(f filter, n int) (out []uint64) {
		for _, e := range h.find(f, n) {
			out = append(out, e.ID)
		}
		return out
	}
	for _, tc := range []struct {
		f    filter
		n    int
		want string
	}{
		{filter{}, 3, "[30 29 28]"},
		{filter{Target: "a"}, 3, "[28 25 22]"},
		{filter{Target: "a", Module: "rtt"}, 2, "[13 10]"},
		{filter{Target: "a", Module: "rtt", Outcome: Failed}, 9, "[10 4]"},
		{filter{Target: "d"}, 9, "[]"},
		{filter{Outcome: Rejected}, 9, "[]"},
		{filter{}, 0, "[]"},
	} {
		if got := fmt.Sprint(ids(tc.f, tc.n)); got != tc.want {
			t.Errorf("%+v: %s; want %s", tc.f, got, tc.want)
		}
	}
}

// An entry is a summary: neither samples nor endless texts.
func TestEntryIsSmall(t *testing.T) {
	res := bounced(&prober.Job{Module: testModule("rtt"), Addr: addr(1), Start: time.Now()})
	res.Err = &prober.Error{Phase: prober.PhaseBounce, Reason: prober.ReasonTimeout, Cause: errors.New(strings.Repeat("e", 1<<20))}
	text := strings.Repeat("é", 1<<20)
	for range 1000 {
		res.Log = append(res.Log, prober.LogLine{Message: text})
	}
	a := &answered{params: &params{targetText: "t", module: res.Module}, outcome: outcome{result: res}}
	e := newEntry(a, func(*prober.Result) string { return strings.Repeat("é", 1<<20) })
	if e.bytes > 512<<10 {
		t.Errorf("%d bytes", e.bytes)
	}
	if e.Outcome != Failed || e.Reason != "timeout" || e.Replies != 3 || e.Addr != "192.0.2.1:5001" {
		t.Errorf("got %+v", e)
	}
	if !strings.HasSuffix(e.Report, "é\n[cut]") {
		t.Errorf("cut in the middle of a character: %q", e.Report[len(e.Report)-20:])
	}
}
