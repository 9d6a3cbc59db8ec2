package netlab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"
)

func TestDoIsInTheNamespaceAndComesBack(t *testing.T) {
	Require(t)
	l := New(t, Config{Extra: 1})
	for _, h := range []*Host{l.A, l.B, l.Extra[0]} {
		wrong := errors.New("as it came")
		var inside string
		if err := h.Do(func() error { inside = devices(); return wrong }); err != wrong {
			t.Errorf("Do returned %v", err)
		}
		if inside != "lo "+h.Device {
			t.Errorf("%v has devices %q, want lo and %s", h.Addr4, inside, h.Device)
		}
		if !strings.Contains(h.Device, fmt.Sprint(os.Getpid())) {
			t.Errorf("device %s does not tell its process", h.Device)
		}
	}
	// The thread of each Do is used for other goroutines again.
	for range 50 {
		got := make(chan string)
		go func() { got <- devices() }()
		if d := <-got; strings.Contains(d, l.A.Device) || strings.Contains(d, l.B.Device) {
			t.Fatalf("a goroutine outside sees %q", d)
		}
	}
}

// devices lists the network devices that the calling thread sees.
func devices() string {
	text, err := os.ReadFile("/proc/thread-self/net/dev")
	if err != nil {
		return err.Error()
	}
	var names []string
	for line := range strings.Lines(string(text)) {
		if name, _, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

// FailNow within Do ends the test and not just Do's own goroutine.
func TestDoPassesOnGoexit(t *testing.T) {
	Require(t)
	l := New(t, Config{})
	after := false
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = l.A.Do(func() error { (&testing.T{}).SkipNow(); return nil })
		after = true
	}()
	<-ended
	if after {
		t.Error("Do returned")
	}
}

func TestCommandRunsInTheNamespace(t *testing.T) {
	Require(t)
	l := New(t, Config{})
	out, err := l.B.Command("cat", "/proc/self/net/dev").Output()
	if err != nil || !strings.Contains(string(out), l.B.Device) {
		t.Errorf("%v, %s", err, out)
	}
	cmd := l.B.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the process is the program itself", func() bool { return program(t, cmd.Process.Pid) == "sleep" })
	l.Close() // ends it
	if err := cmd.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("sleep ended with %v", err)
	}
	if err := l.B.Command("no such program").Run(); err == nil {
		t.Error("no error for a program that isn't there")
	}
}

// program is the name of the program that a process runs.
func program(t *testing.T, pid int) string {
	t.Helper()
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(name))
}

// A command that has hardly been started when the lab ends ends too, wherever it is
// on its way.
func TestCommandOnItsWayEnds(t *testing.T) {
	Require(t)
	for range 5 {
		l := New(t, Config{})
		cmd := l.B.Command("sleep", "600")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		l.Close()
		if err := cmd.Wait(); err == nil {
			t.Error("sleep slept its time")
		}
	}
}

func TestRerunIsWhollyInTheNamespace(t *testing.T) {
	if Role() == "inside" {
		seen := make(chan string)
		go func() { seen <- devices() }()
		fmt.Println(<-seen)
		return
	}
	Require(t)
	l := New(t, Config{})
	out, err := l.A.Rerun(t, "inside").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "lo "+l.A.Device+"\n") {
		t.Errorf("%v, %s", err, out)
	}
}

// All hosts of the A side reach B over the same link, and get their own answers.
func TestExtraHostsShareTheLink(t *testing.T) {
	Require(t)
	l := New(t, Config{Extra: 2})
	server := serve(t, l.B, l.B.Addr4, func(c net.Conn) { fmt.Fprint(c, c.RemoteAddr().(*net.TCPAddr).IP) })
	for _, h := range append(l.Extra, l.A) {
		c, err := h.Dial("tcp", server)
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 64)
		n, err := c.Read(buf)
		if err != nil || string(buf[:n]) != h.Addr4.String() {
			t.Errorf("B sees %s instead of %v, %v", buf[:n], h.Addr4, err)
		}
		c.Close()
	}
}

func TestAwaitListener(t *testing.T) {
	Require(t)
	l := New(t, Config{})
	for _, addr := range []netip.Addr{l.B.Addr4, l.B.Addr6} {
		if !addr.IsValid() {
			continue
		}
		ln, err := l.B.Listen("tcp", netip.AddrPortFrom(addr, 0))
		if err != nil {
			t.Fatal(err)
		}
		port := ln.Addr().(*net.TCPAddr).AddrPort().Port()
		if err := l.B.AwaitListener(port, time.Minute); err != nil {
			t.Error(err)
		}
		if err := l.A.AwaitListener(port, 10*time.Millisecond); err == nil {
			t.Error("the other host seems to listen too")
		}
		ln.Close()
		if err := l.B.AwaitListener(port, 10*time.Millisecond); err == nil {
			t.Error("a closed socket seems to listen")
		}
	}
}

func TestSysctlIsOfOneHost(t *testing.T) {
	Require(t)
	l := New(t, Config{})
	const path = "/proc/sys/net/ipv4/tcp_congestion_control"
	read := func() (v string, err error) {
		text, err := os.ReadFile(path)
		return strings.TrimSpace(string(text)), err
	}
	before, err := read()
	if err != nil {
		t.Fatal(err)
	}
	l.A.Sysctl("net.ipv4.tcp_congestion_control", "reno")
	err = l.A.Do(func() error {
		if v, err := read(); err != nil || v != "reno" {
			return fmt.Errorf("is %q, %v", v, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if after, err := read(); err != nil || after != before {
		t.Errorf("outside it was %q and is %q, %v", before, after, err)
	}
}

func TestPin(t *testing.T) {
	Require(t)
	l := New(t, Config{})
	cpus, err := CPUs()
	if err != nil {
		t.Fatal(err)
	}
	last := cpus[len(cpus)-1]
	l.PinLink(last)
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", l.LinkPID()))
	if err != nil {
		t.Fatal(err)
	}
	for _, th := range threads {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/status", l.LinkPID(), th.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("Cpus_allowed_list:\t%d\n", last); !strings.Contains(string(status), want) {
			t.Errorf("thread %s is not bound to CPU %d", th.Name(), last)
		}
	}
	for _, bad := range []int{-1, 1 << 20} {
		if err := Pin(l.LinkPID(), bad); err == nil {
			t.Errorf("no error for CPU %d", bad)
		}
	}
}

// What goes wrong fails the test, with a message that says what is allowed.
func TestMistakesAreReported(t *testing.T) {
	Require(t)
	l := New(t, Config{})
	r := &recorder{TB: t}
	l.t = r
	l.Link(BtoA).Set(Link{Loss: 1.5})
	l.Link(AtoB).Pause(-1, Hold)
	l.A.t = r
	l.A.Sysctl("kernel.hostname", "x")
	l.A.Sysctl("net.no.such", "x")
	l.t = t
	want := []string{"probability, 0 to 1", "must be 0 or more", "under net.", "no such file"}
	if len(r.said) != len(want) {
		t.Fatalf("said %q", r.said)
	}
	for i := range want {
		if !strings.Contains(r.said[i], want[i]) {
			t.Errorf("said %q, want something with %q", r.said[i], want[i])
		}
	}
	if err := (&Lab{t: t}).build(Config{Extra: 1000}); err == nil {
		t.Error("no error for 1000 extra hosts")
	}
	if err := (&Lab{t: t}).build(Config{AtoB: Link{Queue: -1}}); err == nil || !strings.Contains(err.Error(), "queue limit") {
		t.Errorf("for a negative queue: %v", err)
	}
	if a := netip.MustParseAddr("198.18.0.1"); l.A.Addr4 != a {
		t.Errorf("A is %v", l.A.Addr4)
	}
}

// recorder is a test that keeps what it is told.
type recorder struct {
	testing.TB
	said []string
}

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, args ...any) {
	r.said = append(r.said, fmt.Sprintf(format, args...))
}
