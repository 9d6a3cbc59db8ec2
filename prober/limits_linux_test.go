package prober

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/internal/netlab"
	"github.com/bounceback-exporter/bounceback_exporter/prober/fakeserver"
	"golang.org/x/sys/unix"
)

// envServer tells the child of TestDescriptorsExhausted whom to probe.
const envServer = "PROBER_TEST_SERVER"

// Without a descriptor to be had the reason is local_limit; once there are some
// again, all is well. A process of its own, since the limit is the process's.
func TestDescriptorsExhausted(t *testing.T) {
	if addr := os.Getenv(envServer); addr != "" {
		exhaustDescriptors(t, netip.MustParseAddrPort(addr))
		return
	}
	t.Parallel()
	s := fakeserver.Start(t, fakeserver.Script{})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestDescriptorsExhausted$", "-test.count=1")
	cmd.Env = append(os.Environ(), envServer+"="+s.Addr().String())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if j := checkJournal(t, s, 2); len(j) != 2 {
		t.Errorf("%d connections, want those of the two probes that had a descriptor", len(j))
	}
}

func exhaustDescriptors(t *testing.T, addr netip.AddrPort) {
	p := New(Options{})
	probe := func() *Result {
		r := p.Run(t.Context(), &Job{Module: module(counted(3)), Addr: addr})
		idle(t, p, 5*time.Second)
		return r
	}
	want(t, probe(), "") // also makes the runtime open what it needs for itself
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	limit.Cur = 64
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	var taken []int
	for {
		fd, err := unix.Dup(2)
		if err != nil {
			break
		}
		taken = append(taken, fd)
	}
	// None left, and one left: then it is the socket that fails.
	for range 2 {
		for range 5 {
			r := probe()
			want(t, r, ReasonLocalLimit)
			if r.Connect != nil {
				t.Error("connected")
			}
		}
		if len(taken) == 0 {
			t.Fatal("nothing was taken")
		}
		unix.Close(taken[len(taken)-1])
		taken = taken[:len(taken)-1]
	}
	for _, fd := range taken {
		unix.Close(fd)
	}
	want(t, probe(), "")
}

// fromHost runs f in the namespace of h. Only its own goroutine is in there, and a
// connect of ours is made on the goroutine that called Run.
func fromHost(t *testing.T, h *netlab.Host, f func()) {
	t.Helper()
	if err := h.Do(func() error { f(); return nil }); err != nil {
		t.Fatal(err)
	}
}

// labServer is a fake peer on the lab's far host.
func labServer(t *testing.T, lab *netlab.Lab, script fakeserver.Script) *fakeserver.Server {
	t.Helper()
	var s *fakeserver.Server
	fromHost(t, lab.B, func() { s = fakeserver.StartAt(t, netip.AddrPortFrom(lab.B.Addr4, 5001).String(), script) })
	return s
}

// Without a port to be had it is the same.
func TestPortsExhausted(t *testing.T) {
	netlab.Require(t)
	t.Parallel()
	lab := netlab.New(t, netlab.Config{})
	s := labServer(t, lab, fakeserver.Script{})
	lab.A.Sysctl("net.ipv4.ip_local_port_range", "40000 40001")
	var taken []*net.TCPConn
	for range 2 {
		c, err := lab.A.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		taken = append(taken, c.(*net.TCPConn))
	}
	p := New(Options{})
	for name, change := range map[string]func(*config.Module){
		"any source":     func(*config.Module) {},
		"source_address": func(m *config.Module) { m.SourceAddress = lab.A.Addr4 },
	} {
		var r *Result
		fromHost(t, lab.A, func() { r = p.Run(t.Context(), &Job{Module: module(counted(3), change), Addr: s.Addr()}) })
		if r.Err == nil || r.Err.Reason != ReasonLocalLimit {
			t.Errorf("%s: %v, want %s", name, r.Err, ReasonLocalLimit)
		}
	}
	for _, c := range taken {
		c.SetLinger(0) // no TIME_WAIT, which would keep the port
		c.Close()
	}
	var r *Result
	fromHost(t, lab.A, func() { r = p.Run(t.Context(), &Job{Module: module(counted(3)), Addr: s.Addr()}) })
	want(t, r, "")
	idle(t, p, 5*time.Second)
}

// An address that nobody has: no answer to our SYN is connect_timeout, time after
// time, and never busy, since a connect that was given up is over.
func TestBlackhole(t *testing.T) {
	netlab.Require(t)
	t.Parallel()
	lab := netlab.New(t, netlab.Config{})
	nobody := netip.MustParseAddrPort("198.18.0.77:5001")
	p := New(Options{})
	for i := range 3 {
		m := module(counted(3), func(m *config.Module) { m.Timeout = 500 * time.Millisecond })
		var r *Result
		fromHost(t, lab.A, func() { r = p.Run(t.Context(), &Job{Module: m, Addr: nobody}) })
		want(t, r, ReasonConnectTimeout)
		if r.Elapsed < m.Timeout || r.Elapsed > m.Timeout+lateness {
			t.Errorf("probe %d: answered after %v of %v", i, r.Elapsed, m.Timeout)
		}
		if r.Phases[PhaseWait].V > 300*time.Millisecond || r.Connect != nil {
			t.Errorf("probe %d: waited %v", i, r.Phases[PhaseWait].V)
		}
	}
	idle(t, p, time.Second)
	if n := p.DrainsAbandoned(); n != 0 {
		t.Errorf("%d drains abandoned, where there was nothing to drain", n)
	}
}

// Where ICMP says so, or the kernel, it is connect_unreachable, and at once.
func TestUnreachable(t *testing.T) {
	netlab.Require(t)
	t.Parallel()
	lab := netlab.New(t, netlab.Config{})
	p := New(Options{})
	for _, addr := range []string{"203.0.113.1:5001", "[2001:db8::1]:5001", "[fe80::1%nosuch]:5001"} {
		var r *Result
		fromHost(t, lab.A, func() {
			r = p.Run(t.Context(), &Job{Module: module(counted(3)), Addr: netip.MustParseAddrPort(addr)})
		})
		if r.Err == nil || r.Err.Reason != ReasonConnectUnreachable || r.Elapsed > lateness {
			t.Errorf("%s: %v after %v, want %s", addr, r.Err, r.Elapsed, ReasonConnectUnreachable)
		}
	}
}
