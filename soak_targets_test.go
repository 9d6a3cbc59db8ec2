package main

import (
	"fmt"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/internal/race"
	"github.com/bounceback-exporter/bounceback_exporter/prober"
	"github.com/bounceback-exporter/bounceback_exporter/prober/peers"
)

// strangeTarget is the i-th of very many targets of which none is an iperf server:
// names that don't exist, some of them as long as they may be, addresses where
// nobody listens, and what is no target at all.
func strangeTarget(i int) string {
	switch i % 8 {
	case 0, 1, 2:
		return fmt.Sprintf("no-such-host-%d.example:%d", i, 1+i%65535)
	case 3:
		return fmt.Sprintf("%d%s.example", i, strings.Repeat("."+strings.Repeat("x", 60), 3))
	case 4:
		return fmt.Sprintf("0x%x", i)
	}
	// Port 1 is nobody's, and the addresses are all of this host.
	return fmt.Sprintf("127.%d.%d.%d:1", 1+i>>16, i>>8&255, i&255)
}

// 100 000 different targets: what is kept of them is bounded, be it in the history,
// in the table of addresses, in metrics or in the log.
func TestSoakManyTargets(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has all of 127.0.0.0/8 on loopback")
	}
	// By the first of these all that has a bound is full: more than 10 000 addresses.
	some, all := 40_000, 100_000
	if race.Enabled {
		some, all = 30_000, 45_000
	}
	w := newWhole(t, "modules: {rtt: {count: 2, timeout: 20s}}", prober.Options{Resolver: &names{}})
	count := func() (seriesOfMetrics, entries int) {
		_, metrics := w.get("/metrics")
		_, history := w.get("/history")
		return strings.Count(metrics, "\n"), strings.Count(history, "<tr")
	}
	probe := func(i int) {
		target := strangeTarget(i)
		code, body := w.get("/probe?target=" + url.QueryEscape(target))
		want := map[bool]string{true: "connect_refused", false: "resolve"}[strings.HasPrefix(target, "127.")]
		switch {
		case strings.HasPrefix(target, "0x"):
			if code != 400 {
				t.Errorf("%s: %d", target, code)
			}
		case code != 200 || failureReason(body) != want:
			t.Errorf("%s: %d, %q; want %s", target, code, failureReason(body), want)
		}
	}
	began := time.Now()
	eachOf(0, some, probe)
	w.quiet(t)
	seriesBefore, entriesBefore := count()
	before := footprintNow(t)
	eachOf(some, all, probe)
	w.quiet(t)
	seriesAfter, entriesAfter := count()
	after := footprintNow(t)
	t.Logf("after %d targets %v; after %d %v; in %v", some, before, all, after, time.Since(began).Round(time.Millisecond))
	// A map of Go's in which keys come and go may still grow to twice its size.
	before.heap += before.heap / 10
	before.checkWithin(t, after)
	if n := w.peers.Len(); n > peers.DefaultMax+100 || n < peers.DefaultMax {
		t.Errorf("%d addresses are remembered; the table's limit is %d", n, peers.DefaultMax)
	}
	if seriesAfter != seriesBefore {
		t.Errorf("/metrics grew from %d to %d lines", seriesBefore, seriesAfter)
	}
	if entriesAfter != entriesBefore || entriesAfter > 110 || entriesAfter < 100 {
		t.Errorf("/history had %d rows and has %d; its limit is 100", entriesBefore, entriesAfter)
	}
	if log := w.log.String(); log != "" {
		t.Errorf("nothing of this belongs into the log of the process: %.1000s", log)
	}
	runtime.KeepAlive(w)
}
