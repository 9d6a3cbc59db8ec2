package prober

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/internal/iperftest"
	"github.com/bounceback-exporter/bounceback_exporter/internal/netlab"
	"github.com/bounceback-exporter/bounceback_exporter/prober/stats"
)

// p99s of one probe, in nanoseconds.
type p99s struct {
	Samples, Discarded         int
	RTT, NetworkRTT, WorstRead time.Duration // application, path, receive lateness
}

// TestTruthOnABusyHost shows what the kernel's receive stamps are for: while this
// host has no time for the prober, the application's round trip grows by what the
// prober waits for a CPU, and the network round trip does not.
func TestTruthOnABusyHost(t *testing.T) {
	if netlab.Role() == "prober" {
		busyProber(t)
		return
	}
	netlab.Require(t)
	iperftest.Require(t)
	cpus, err := netlab.CPUs()
	if err != nil || len(cpus) < 2 {
		t.Skipf("needs two CPUs: %v %v", cpus, err)
	}
	lab := netlab.New(t, netlab.Config{AtoB: netlab.Link{Delay: 5 * time.Millisecond}, BtoA: netlab.Link{Delay: 5 * time.Millisecond}})
	s := iperftest.StartAt(t, lab.B.Command, netip.AddrPortFrom(lab.B.Addr4, 5001))
	lab.PinLink(cpus[0])
	if err := netlab.Pin(s.Pid(), cpus[0]); err != nil {
		t.Fatal(err)
	}
	bestOf(t, 3, func() (wrong []string) {
		cmd := lab.A.Rerun(t, "prober")
		cmd.Env = append(cmd.Env, "TARGET="+s.Addr.String(), fmt.Sprintf("CPU=%d", cpus[1]))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		var idle, busy p99s
		for line := range strings.Lines(string(out)) {
			if rest, ok := strings.CutPrefix(line, "idle "); ok {
				_ = json.Unmarshal([]byte(rest), &idle)
			}
			if rest, ok := strings.CutPrefix(line, "busy "); ok {
				_ = json.Unmarshal([]byte(rest), &busy)
			}
		}
		if idle.Samples == 0 || busy.Samples == 0 {
			t.Fatalf("the prober measured nothing:\n%s", out)
		}
		t.Logf("idle: %+v", idle)
		t.Logf("busy: %+v", busy)
		app, path, late := busy.RTT-idle.RTT, busy.NetworkRTT-idle.NetworkRTT, busy.WorstRead-idle.WorstRead
		if app <= 10*time.Millisecond {
			wrong = append(wrong, fmt.Sprintf("p99 of the RTT grows by %v only: the host was not busy enough to show anything", app))
		}
		if path >= app/4 {
			wrong = append(wrong, fmt.Sprintf("p99 of the network RTT grows by %v, of the RTT by %v", path, app))
		}
		if late < app/2 {
			wrong = append(wrong, fmt.Sprintf("receive lateness grows by %v and does not explain the RTT's %v", late, app))
		}
		return wrong
	})
	stockOnABusyHost(t, lab, s, cpus[1])
}

// stockOnABusyHost logs what the stock client prints under the same load.
func stockOnABusyHost(t *testing.T, lab *netlab.Lab, s *iperftest.Server, cpu int) {
	for _, busy := range []bool{false, true} {
		c := iperftest.StartClient(t, lab.A.Command, s.Addr, "--bounceback=1", "--bounceback-period", "0.02", "-t", "3")
		if err := netlab.Pin(c.Pid(), cpu); err != nil {
			t.Fatal(err)
		}
		var spinners []*exec.Cmd
		for range 3 { // the spinning process and two busy threads of the prober's run
			if busy {
				spinners = append(spinners, spin(t, cpu))
			}
		}
		out, _, err := c.Wait(30 * time.Second)
		for _, sp := range spinners {
			_ = sp.Process.Kill()
			_ = sp.Wait()
		}
		for line := range strings.Lines(out) {
			if strings.Contains(line, "BB8") || strings.Contains(line, "0.0000-3") {
				t.Logf("stock client, busy=%v: %s (%v)", busy, strings.TrimSpace(line), err)
			}
		}
	}
}

// busyProber is the prober's part, in a process of its own inside the namespace.
func busyProber(t *testing.T) {
	var cpu int
	if _, err := fmt.Sscan(os.Getenv("CPU"), &cpu); err != nil {
		t.Fatal(err)
	}
	if err := netlab.Pin(os.Getpid(), cpu); err != nil {
		t.Fatal(err)
	}
	pr := New(Options{})
	measure := func(label string) {
		r := pr.Run(t.Context(), &Job{Module: module(owd(3 * time.Second)), Addr: netip.MustParseAddrPort(os.Getenv("TARGET"))})
		if !r.Success() {
			t.Fatal(r.Err)
		}
		ss := r.Windows[0].Samples
		p := p99s{Samples: len(ss)}
		p.RTT = stats.Quantile(sorted(ss, (*Sample).RTT), 0.99)
		p.WorstRead = stats.Quantile(sorted(ss, func(s *Sample) time.Duration { d, _ := s.ReceiveLateness(); return d }), 0.99)
		var net []Sample
		for _, s := range ss {
			if _, ok := s.NetworkRTT(); ok {
				net = append(net, s)
			}
		}
		p.Discarded = len(ss) - len(net)
		p.NetworkRTT = stats.Quantile(sorted(net, func(s *Sample) time.Duration { d, _ := s.NetworkRTT(); return d }), 0.99)
		b, _ := json.Marshal(p)
		fmt.Printf("%s %s\n", label, b)
	}
	measure("idle")
	spinner := spin(t, cpu)
	defer func() { _ = spinner.Process.Kill(); _ = spinner.Wait() }()
	var stop atomic.Bool
	defer stop.Store(true)
	for range 2 {
		go func() {
			for n := uint64(1); !stop.Load(); n++ {
				for range 1000 {
					n = n*6364136223846793005 + 1442695040888963407
				}
			}
		}()
	}
	measure("busy")
}

// spin starts a process that does nothing but use its CPU, a minute of it at most.
func spin(t *testing.T, cpu int) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sh", "-c", "ulimit -t 60; while :; do :; done")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := netlab.Pin(cmd.Process.Pid, cpu); err != nil {
		t.Fatal(err)
	}
	return cmd
}
