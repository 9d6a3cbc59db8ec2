package main

import (
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/internal/iperftest"
	"github.com/bounceback-exporter/bounceback_exporter/prober/fakeserver"
	"github.com/bounceback-exporter/bounceback_exporter/prober/wire"
)

const stopModules = `
allowed_targets: {networks: [127.0.0.0/8]}
modules:
  endless: {count: 100000, timeout: 1m}
  ticks: {period: 300ms, duration: 50s, timeout: 1m}
  quick: {count: 2, timeout: 1m}
  big: {size: 131072, count: 5, timeout: 1m}
  up: {period: 50ms, duration: 50s, timeout: 1m, congest: {direction: up, baseline: 0, warmup: 0}}
  down: {period: 50ms, duration: 50s, timeout: 1m, congest: {direction: down, baseline: 0, warmup: 0}}
  both: {period: 50ms, duration: 50s, timeout: 1m, congest: {direction: both, baseline: 0, warmup: 0}}
`

// The second signal ends the process in mid-everything, and yet each peer sees our
// FIN, and no reset before it.
func TestLifeSecondSignal(t *testing.T) {
	never := func(n int) time.Duration {
		if n == 3 {
			return time.Hour
		}
		return 0
	}
	stop := func(reply, at int) fakeserver.Script {
		return fakeserver.Script{Fault: fakeserver.Fault{Action: fakeserver.Stop, Reply: reply, Byte: at}}
	}
	v2 := func(s fakeserver.Script) fakeserver.Script {
		s.Version = wire.V2_2_0
		return s
	}
	states := map[string]struct {
		script fakeserver.Script
		module string
		there  func(c fakeserver.Conn) bool // by then the probe is in that state
	}{
		"back to back":         {v2(fakeserver.Script{}), "endless", func(c fakeserver.Conn) bool { return c.Requests > 50 }},
		"between two bounces":  {v2(fakeserver.Script{}), "ticks", func(c fakeserver.Conn) bool { return c.Requests > 2 }},
		"in a reply":           {v2(fakeserver.Script{Delay: never}), "endless", func(c fakeserver.Conn) bool { return c.Requests == 3 }},
		"in a part of a reply": {v2(stop(3, 50)), "endless", func(c fakeserver.Conn) bool { return c.Requests == 3 && c.Sent > 200 }},
		"in the first reply":   {v2(fakeserver.Script{Mode: fakeserver.Silent}), "quick", func(c fakeserver.Conn) bool { return c.FirstComplete }},
		"in a large reply":     {v2(stop(3, 70000)), "big", func(c fakeserver.Conn) bool { return c.Requests == 3 && c.Sent > 300000 }},
		"being ended":          {v2(fakeserver.Script{NeverClose: true}), "quick", func(c fakeserver.Conn) bool { return c.End == fakeserver.FIN }},
	}
	p := startExporter(t, "--config.file="+writeConfig(t, stopModules))
	var scrapes sync.WaitGroup
	scrape := func(target, module string) {
		scrapes.Go(func() { _, _, _ = tryGet(p.url + "/probe?module=" + module + "&target=" + target) })
	}
	servers := map[string]*fakeserver.Server{}
	for name, st := range states {
		servers[name] = fakeserver.Start(t, st.script)
		scrape(servers[name].Addr().String(), st.module)
	}
	for name, st := range states {
		eventually(t, name, func() bool {
			j := servers[name].Journal()
			return len(j) > 0 && st.there(j[len(j)-1])
		})
	}
	p.stopAtOnce(t)
	scrapes.Wait()
	for name, s := range servers {
		eventually(t, "the ends of "+name, func() bool {
			for _, c := range s.Journal() {
				if c.End == fakeserver.Open {
					return false
				}
			}
			return true
		})
		for i, c := range s.Journal() {
			if c.End != fakeserver.FIN {
				t.Errorf("%s: connection %d ended with %v", name, i, c.End)
			}
			if !c.FirstComplete {
				t.Errorf("%s: connection %d has no complete first message", name, i)
			}
		}
	}
}

// The same with loads, whose sockets are full of bytes in either direction.
func TestLifeSecondSignalDuringLoads(t *testing.T) {
	for _, direction := range []string{"up", "down", "both"} {
		s := fakeserver.Start(t, fakeserver.Script{Version: wire.V2_2_0, Load: &fakeserver.Script{
			Version: wire.V2_2_0, LoadBytes: 1 << 20, Fault: fakeserver.Fault{Action: fakeserver.Endless, Reply: 1, Byte: 100}}})
		p := startExporter(t, "--config.file="+writeConfig(t, stopModules))
		var scrape sync.WaitGroup
		scrape.Go(func() { _, _, _ = tryGet(p.url + "/probe?module=" + direction + "&target=" + s.Addr().String()) })
		eventually(t, "the load "+direction, func() bool {
			j := s.Journal()
			return len(j) == 2 && j[1].Received+j[1].Sent > 4<<20
		})
		p.stopAtOnce(t)
		scrape.Wait()
		for i, c := range s.WaitEnded(t, 2, 20*time.Second) {
			if c.End != fakeserver.FIN {
				t.Errorf("%s: connection %d ended with %v after %d and %d bytes", direction, i, c.End, c.Received, c.Sent)
			}
		}
	}
}

// And what a real server makes of the latter: it logs a load that was cut off, but
// lives, and the tests of others go on.
func TestLifeSecondSignalRealServer(t *testing.T) {
	for _, direction := range []string{"up", "down", "both"} {
		t.Run(direction, func(t *testing.T) {
			t.Parallel()
			s := iperftest.Start(t)
			stock := iperftest.StartStock(t, nil, s.Addr, 4*time.Second)
			eventually(t, "the stock test", func() bool { return strings.Contains(s.Log(), "connected with") })
			time.Sleep(200 * time.Millisecond)
			p := startExporter(t, "--config.file="+writeConfig(t, stopModules))
			var scrape sync.WaitGroup
			scrape.Go(func() { _, _, _ = tryGet(p.url + "/probe?module=" + direction + "&target=" + s.Addr.String()) })
			eventually(t, "the load", func() bool { return strings.Count(s.Log(), "connected with") == 3 })
			time.Sleep(300 * time.Millisecond)
			p.stopAtOnce(t)
			scrape.Wait()
			stock.CheckUndisturbed(iperftest.Late)
			if !s.Alive() {
				t.Errorf("the server has died:\n%s", s.Log())
			}
			iperftest.StartStock(t, nil, s.Addr, time.Second).CheckUndisturbed(iperftest.Late)
		})
	}
}

// stopAtOnce sends both signals and waits for the end.
func (p *process) stopAtOnce(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGTERM)
	eventually(t, "the stop", func() bool { return strings.Contains(p.logged(), "stopping") })
	began := time.Now()
	p.signal(t, syscall.SIGTERM)
	if code := p.exit(t); code != exitError {
		t.Errorf("exit code %d", code)
	}
	// Left to itself, the stop would take 28 s.
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("it took %v, which is not at once", took)
	}
}

// A stop in the midst of tests that are longer than it may take: each scrape gets
// its answer, with what was measured until then, each peer gets our FIN, and the
// process ends within the 28 s that it says, with success.
func TestLifeStopIsBounded(t *testing.T) {
	t.Parallel()
	const answers, all = 20 * time.Second, 28 * time.Second
	slow := fakeserver.Script{Version: wire.V2_2_0, LoadBytes: 1 << 20, ByteDelay: 20 * time.Millisecond,
		Fault: fakeserver.Fault{Action: fakeserver.SlowFrom, Reply: 1, Byte: 100}}
	servers := map[string]*fakeserver.Server{
		"ticks": fakeserver.Start(t, fakeserver.Script{Version: wire.V2_2_0}),
		// Its streams go on sending, and nobody else may come to them meanwhile.
		"down": fakeserver.Start(t, fakeserver.Script{Version: wire.V2_2_0, Load: &slow}),
		// The end of its connections is not answered.
		"quick": fakeserver.Start(t, fakeserver.Script{Version: wire.V2_2_0, NeverClose: true}),
	}
	p := startExporter(t, "--config.file="+writeConfig(t, stopModules))
	scrapes := map[string]scrape{}
	var mu sync.Mutex
	var running sync.WaitGroup
	for module, s := range servers {
		running.Go(func() {
			got := p.scrape("/probe?module=" + module + "&target=" + s.Addr().String())
			mu.Lock()
			defer mu.Unlock()
			scrapes[module] = got
		})
	}
	eventually(t, "the load and the others", func() bool {
		return len(servers["down"].Journal()) == 2 && len(servers["ticks"].Journal()) == 1 && len(servers["quick"].Journal()) == 1
	})
	time.Sleep(time.Second)
	began := time.Now()
	p.signal(t, syscall.SIGTERM)
	code := p.exit(t)
	took := time.Since(began)
	running.Wait()
	if code != exitOK {
		t.Errorf("exit code %d", code)
	}
	if took < answers || took > all+5*time.Second {
		t.Errorf("it took %v; the bounds are %v for probes that run, and %v in all", took, answers, all)
	}
	for module, want := range map[string]string{"ticks": "cancelled", "down": "cancelled", "quick": ""} {
		got := scrapes[module]
		if got.err != nil || got.code != 200 || failureReason(got.body) != want || !strings.Contains(got.body, "probe_bounceback_replies{") {
			t.Errorf("%s: %d, %v: %s", module, got.code, got.err, got.body)
		}
	}
	for module, s := range servers {
		for i, c := range s.Journal() {
			if c.End != fakeserver.FIN {
				t.Errorf("%s: connection %d ended with %v", module, i, c.End)
			}
		}
	}
}
