package main

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/internal/iperftest"
	"github.com/bounceback-exporter/bounceback_exporter/prober/fakeserver"
)

// plain is a wave of probes straight to the server, several at once, that end in all
// the ways that need no load and no relay.
func (g *guest) plain() {
	target := g.server.Addr.String()
	var wave sync.WaitGroup
	ask := func(module, timeout string, gone time.Duration) {
		wave.Go(func() { g.ask(target, module, timeout, gone) })
	}
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	micro := func(n int) time.Duration { return time.Duration(1+rand.IntN(n)) * time.Microsecond }
	ask("quick", "", 0)
	for range 3 {
		ask("quick", "", micro(5000)) // around connect and first write
	}
	ask("endless", "", ms(250)) // in a reply
	ask("held", "", ms(200))    // in a reply that the server holds back
	ask("ticks", "", ms(250))   // between two bounces
	ask("held", "0.5", 0)       // deadline in a reply, held back or not
	ask("endless", "0.4", 0)
	ask("ticks", "0.1", 0) // not enough time: nothing is sent
	for range 4 {          // beyond max_per_target
		ask("ticks", "0.4", 0)
	}
	for range 2 {
		ask("ticks", "", ms(30)) // while it waits
	}
	wave.Wait()
	// Alone, with nothing to wait for: the client goes around connect and first write.
	g.rest()
	g.ask(target, "quick", "", micro(3000))
}

// reloads changes the configuration under a running probe.
func (g *guest) reloads() {
	var probe sync.WaitGroup
	probe.Go(func() {
		if got := g.ask(g.server.Addr.String(), "ticks", "", 0); got != "done" {
			g.t.Errorf("a probe during reloads: %s", got)
		}
	})
	time.Sleep(150 * time.Millisecond)
	g.p.signal(g.t, syscall.SIGHUP)
	for range 3 {
		res, err := http.Post(g.p.url+"/-/reload", "", nil)
		if err != nil {
			g.t.Fatal(err)
		}
		res.Body.Close()
	}
	probe.Wait()
}

// loads are one that is done, and some whose client hangs up on the way.
func (g *guest) loads() {
	target := g.server.Addr.String()
	for _, gone := range []time.Duration{0, 150 * time.Millisecond, 350 * time.Millisecond, 600 * time.Millisecond} {
		g.ask(target, "load", "", gone)
		g.rest() // the server sends until its own time is up
	}
}

// relayed are probes whose first message takes an eighth of a second to be written.
func (g *guest) relayed(n int) {
	g.rest()
	defer g.rest()
	target := g.relay.Addr().String()
	for range n {
		if got := g.ask(target, "quick", "", 0); got != "done" { // now its version is known
			g.t.Errorf("a small probe through the relay: %s", got)
		}
		ctx, leave := context.WithCancel(context.Background())
		begun, _ := g.relay.Forwarded()
		done := make(chan struct{})
		go func() {
			defer close(done)
			g.askUntil(ctx, target, "big", "")
		}()
		at := int64(1000 + rand.IntN(100000))
		eventually(g.t, "the middle of a first message", func() bool {
			up, _ := g.relay.Forwarded()
			return up-begun >= at
		})
		leave()
		<-done
		g.rest()
		if up, _ := g.relay.Forwarded(); up-begun < 131072 {
			g.t.Errorf("of a first message of 131072 bytes the server got %d", up-begun)
		}

		// The deadlines of the next ones are in the middle too, of a first message and of
		// a later one, if the machine is not busy.
		begun, _ = g.relay.Forwarded()
		got := g.ask(target, "big", "0.07", 0)
		if up, _ := g.relay.Forwarded(); got == "silent" && up-begun > 0 && up-begun < 131072 {
			g.mu.Lock()
			g.ended["big deadline in mid-write"]++
			g.mu.Unlock()
		}
		g.rest()
		g.ask(target, "quick", "", 0)
		g.ask(target, "big", "0.4", 0)
		g.rest()
	}
	g.ask(target, "big", "", 0)
}

// abandoned are connections whose end the server's side does not seem to answer.
func (g *guest) abandoned() {
	g.rest()
	target := g.relay.Addr().String()
	var wave sync.WaitGroup
	for range 3 {
		wave.Go(func() { g.ask(target, "endless", "2", 0) })
	}
	time.Sleep(1500 * time.Millisecond)
	g.relay.PauseDown()
	wave.Wait()
	eventually(g.t, "drains to be abandoned", func() bool {
		_, metrics := g.p.get(g.t, "/metrics")
		n := series(metrics, "bounceback_exporter_drains_abandoned_total")
		return n == "3"
	})
	g.relay.ResumeDown()
	g.rest()
}

// stopped ends the exporter while probes run: in order, or at once by a second
// signal.
func (g *guest) stopped(atOnce bool) {
	target := g.server.Addr.String()
	g.rest()
	g.counted()
	var wave sync.WaitGroup
	outcomes := make(chan string, 5)
	ask := func(module, timeout string) {
		wave.Go(func() { outcomes <- g.ask(target, module, timeout, 0) })
	}
	ask("ticks", "")
	ask("held", "3")
	ask("endless", "3")
	if atOnce {
		ask("held", "9")
		ask("endless", "9")
	}
	time.Sleep(time.Duration(20+rand.IntN(600)) * time.Millisecond)
	g.p.signal(g.t, syscall.SIGTERM)
	if atOnce {
		eventually(g.t, "the stop", func() bool { return strings.Contains(g.p.logged(), "stopping") })
		g.p.signal(g.t, syscall.SIGTERM)
	}
	code := g.p.exit(g.t)
	if orderly := code == exitOK; orderly == atOnce {
		g.t.Errorf("exit code %d", code)
	}
	wave.Wait()
	close(outcomes)
	for got := range outcomes {
		if !atOnce && got != "done" && got != "timeout" {
			g.t.Errorf("during a stop in order a probe got %s", got)
		}
	}
	time.Sleep(300 * time.Millisecond) // a new process does not know how long ago that was
}

// While a stock client runs a bounceback test of a minute, the exporter does 200
// probes at the same server, through every end that a probe can have, its own
// restarts included. The stock test ends complete and in its own time, the server
// neither dies nor logs a trouble, and one more stock test is clean too. A second
// pair of stock server and client, whom nobody visits, tells how late such a test is
// on this machine anyhow.
func TestGuestOfAMinute(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	t.Parallel()
	const length, late = time.Minute, 200 * time.Millisecond
	alone, server := iperftest.Start(t), iperftest.Start(t)
	control := iperftest.StartStock(t, nil, alone.Addr, length)
	stock := iperftest.StartStock(t, nil, server.Addr, length)
	end := time.Now().Add(length)
	eventually(t, "the stock test", func() bool { return strings.Contains(server.Log(), "connected with") })

	g := &guest{t: t, server: server, config: writeConfig(t, guestModules), ended: map[string]int{},
		relay: fakeserver.StartRelay(t, server.Addr, fakeserver.RelayOptions{UpRate: 1 << 20, SmallBuffers: true})}
	time.Sleep(500 * time.Millisecond)
	g.start()
	for range 3 {
		g.plain()
	}
	g.reloads()
	g.stopped(false)
	g.start()
	g.relayed(3)
	g.loads()
	g.plain()
	g.stopped(true)
	g.start()
	g.abandoned()
	waves := 0
	for time.Until(end) > 9*time.Second {
		g.plain()
		waves++
	}
	g.stopped(false)
	left := time.Until(end)
	t.Logf("%d probes; %v before the end of the stock test and after %d last waves: %v", g.probes, left, waves, g.ended)
	if left < 500*time.Millisecond {
		t.Errorf("nothing can be said of the stock test: the visits were over %v before its end", left)
	}

	quiet, err := control.Wait(20 * time.Second)
	if err != nil {
		t.Fatalf("the stock test that nobody visited: %v\n%s", err, quiet.Output)
	}
	visited, err := stock.Wait(late + max(0, quiet.Interval-length))
	t.Logf("stock tests took %v with our visits, %v without; %d and %d bounces", visited.Interval, quiet.Interval, visited.Bounces, quiet.Bounces)
	if err != nil {
		t.Errorf("the stock test was disturbed: %v\n%s", err, visited.Output)
	}
	server.CheckClean()
	iperftest.StartStock(t, nil, server.Addr, 2*time.Second).CheckUndisturbed(iperftest.Late)
	server.CheckClean()
	server.CheckNoCloseWait(2 * time.Second)
	g.checkVariety()
}

// checkVariety looks whether there was an end of each kind.
func (g *guest) checkVariety() {
	if g.probes < 200 {
		g.t.Errorf("%d probes; want 200", g.probes)
	}
	for _, kind := range []string{
		"quick done", "quick gone", "quick cancelled", "ticks done", "ticks gone", "ticks cancelled", "ticks refused",
		"ticks timeout_too_short", "held gone", "held cancelled", "held timeout", "endless gone", "endless cancelled", "endless timeout",
		"big done", "big timeout", "big gone", "big cancelled", "big deadline in mid-write", "load done", "load gone", "load cancelled",
	} {
		if g.ended[kind] == 0 {
			g.t.Errorf("no probe was %q", kind)
		}
	}
}
