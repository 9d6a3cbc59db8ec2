package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/internal/netlab"
)

// scarceModules end by the clock, so that many at once need many sockets at once.
const scarceModules = "limits: {max_concurrent_probes: 200, max_per_target: 200}\nmodules: {rtt: {period: 20ms, duration: 1s, timeout: 20s}}\n"

// crowd does n probes of a target at once and tells how many there were of each
// outcome: "" is success. All of them have to be answered.
func (p *process) crowd(t *testing.T, n int, target string) map[string]int {
	t.Helper()
	var mu sync.Mutex
	outcomes := map[string]int{}
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			s := p.scrape("/probe?target=" + target)
			if s.err != nil || s.code != 200 {
				t.Errorf("%d, %v: %s", s.code, s.err, s.body)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			outcomes[failureReason(s.body)]++
		})
	}
	all.Wait()
	return outcomes
}

// checkScarce overwhelms an exporter that lacks something, and looks whether it gets
// over it.
func (p *process) checkScarce(t *testing.T, target string) {
	t.Helper()
	if _, body := p.get(t, "/probe?target="+target); failureReason(body) != "" || series(body, "probe_success") != "1" {
		t.Fatalf("one probe alone got %s", body)
	}
	got := p.crowd(t, 30, target)
	t.Logf("outcomes of 30 probes at once: %v", got)
	if got[""] == 0 || got["local_limit"] == 0 || got[""]+got["local_limit"] != 30 {
		t.Errorf("outcomes %v; want some successes, and local_limit for the rest", got)
	}
	_, metrics := p.get(t, "/metrics")
	counted := series(metrics, `bounceback_exporter_probe_failures_total{module="rtt",reason="local_limit"}`)
	if want := fmt.Sprint(got["local_limit"]); counted != want {
		t.Errorf("%s failures of local_limit are counted; want %s", counted, want)
	}
	eventually(t, "a probe to succeed again", func() bool {
		_, body := p.get(t, "/probe?target="+target)
		return series(body, "probe_success") == "1"
	})
}

// Out of file descriptors, the exporter says local_limit, goes on accepting
// requests, and gets over it with all descriptors given back.
func TestLifeDescriptorsExhausted(t *testing.T) {
	r, target := startResponder(t, "127.0.0.1")
	// Some 12 are the exporter's own, a request takes one and a probe two.
	p := startInherited(t, nil, "ulimit -n 40;", "--config.file="+writeConfig(t, scarceModules))
	open := func() int {
		entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	p.get(t, "/-/healthy")
	before := open()
	p.checkScarce(t, target)
	eventually(t, "the descriptors to be given back", func() bool {
		if _, _, err := tryGet(p.url + "/-/healthy"); err != nil {
			t.Fatal(err)
		}
		// Connections that the test's own client keeps alive are open on purpose.
		http.DefaultClient.CloseIdleConnections()
		return open() <= before+1
	})
	if s := r.Stats(); s.Resets != 0 {
		t.Errorf("%d connections were reset", s.Resets)
	}
}

// Out of local ports, the same. A namespace of its own has four of them.
func TestLifePortsExhausted(t *testing.T) {
	netlab.Require(t)
	unshare, err := exec.LookPath("unshare")
	if err != nil || runtime.GOOS != "linux" {
		t.Skip("needs unshare (util-linux)")
	}
	p := startInherited(t, []string{unshare, "-n"},
		"ip link set lo up && echo 40000 40003 >/proc/sys/net/ipv4/ip_local_port_range || exit 1;",
		"--config.file="+writeConfig(t, scarceModules), "--responder.listen-address=127.0.0.1:5001")
	p.checkScarce(t, "127.0.0.1:5001")
	time.Sleep(2 * time.Second)
	if got := p.crowd(t, 4, "127.0.0.1:5001"); got[""] == 0 {
		t.Errorf("outcomes %v after a while of quiet", got)
	}
}
