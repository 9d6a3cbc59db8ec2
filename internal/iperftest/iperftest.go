// Package iperftest runs the stock iperf 2 for tests: a server on a free loopback
// port, whose log and process can be looked at, and clients beside it.
package iperftest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Require skips the test where there is no iperf 2 that can bounce.
func Require(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("iperf"); err != nil {
		t.Skip("needs iperf 2.1.8 or newer in PATH (Debian package iperf)")
	}
}

// Server is a running iperf -s.
type Server struct {
	t    testing.TB
	cmd  *exec.Cmd
	Addr netip.AddrPort
	out  syncBuffer
	done chan struct{} // closed when the process has ended
	err  error         // of the process, after done
}

// Wrap makes a command of a name and arguments; it may put the process into a
// namespace or in front of a wrapper such as faketime.
type Wrap func(name string, args ...string) *exec.Cmd

// Direct wraps a command in nothing.
func Direct(name string, args ...string) *exec.Cmd { return exec.Command(name, args...) }

// Start runs iperf -s with args on a free port of 127.0.0.1.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return StartAt(t, Direct, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), FreePort(t)), args...)
}

// StartAt runs iperf -s through wrap on addr's port; addr is where a client will
// find it. It waits until the server says that it listens.
func StartAt(t testing.TB, wrap Wrap, addr netip.AddrPort, args ...string) *Server {
	t.Helper()
	Require(t)
	s := &Server{t: t, Addr: addr, done: make(chan struct{})}
	s.cmd = wrap("iperf", append([]string{"-s", "-p", strconv.Itoa(int(addr.Port()))}, args...)...)
	// iperf buffers its output when that is no terminal.
	if path, err := exec.LookPath("stdbuf"); err == nil && s.cmd.Err == nil {
		s.cmd.Args = append([]string{"stdbuf", "-oL", "-eL", s.cmd.Path}, s.cmd.Args[1:]...)
		s.cmd.Path = path
	}
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	if err := s.cmd.Start(); err != nil {
		t.Fatalf("starting iperf -s: %v", err)
	}
	go func() {
		s.err = s.cmd.Wait()
		close(s.done)
	}()
	t.Cleanup(s.Stop)
	deadline := time.Now().Add(10 * time.Second)
	for !strings.Contains(s.Log(), "listening") || !s.listens() {
		if !s.Alive() || time.Now().After(deadline) {
			t.Fatalf("iperf -s does not listen: %v\n%s", s.err, s.Log())
		}
		time.Sleep(5 * time.Millisecond)
	}
	return s
}

// listens tells whether somebody listens on the server's port, in the server's
// network namespace: it says so a moment before it does.
func (s *Server) listens() bool {
	dir := fmt.Sprintf("/proc/%d/net", s.Pid())
	if _, err := os.Stat(dir); err != nil {
		return true // not to be seen here
	}
	return socketsIn(s.t, dir, s.Addr.Port(), listen) > 0
}

// FreePort is a TCP port of loopback that was free a moment ago. It lies below the
// range from which the kernel takes those of outgoing connections, so that nobody
// gets it by chance before the server does.
func FreePort(t testing.TB) uint16 {
	t.Helper()
	var err error
	for range 100 {
		var l net.Listener
		port := 15000 + rand.IntN(17000)
		if l, err = net.Listen("tcp", fmt.Sprintf(":%d", port)); err == nil {
			_ = l.Close()
			return uint16(port)
		}
	}
	t.Fatal(err)
	return 0
}

// Pid of the server's process.
func (s *Server) Pid() int { return s.cmd.Process.Pid }

// Alive tells whether the server's process still runs.
func (s *Server) Alive() bool {
	select {
	case <-s.done:
		return false
	default:
		return true
	}
}

// Done is closed when the process has ended.
func (s *Server) Done() <-chan struct{} { return s.done }

// Log is what the server has printed so far.
func (s *Server) Log() string { return s.out.String() }

// Stop ends the server and waits for it.
func (s *Server) Stop() {
	if s.Alive() {
		_ = s.cmd.Process.Signal(syscall.SIGKILL)
	}
	<-s.done
}

// Troubles are the lines of the server's log that tell of an error.
func (s *Server) Troubles() []string {
	// What iperf 2 prints, among others, when a connection of ours troubled it.
	words := []string{
		"failed", "error", "reset", "Broken pipe", "WARN", "warn", "runt", "peer close",
		"Aborted", "Segmentation", "too small", "timeout",
	}
	var bad []string
	for line := range strings.SplitSeq(s.Log(), "\n") {
		for _, w := range words {
			if strings.Contains(line, w) {
				bad = append(bad, line)
				break
			}
		}
	}
	return bad
}

// CheckClean fails the test if the server has died or has logged a trouble.
func (s *Server) CheckClean() {
	s.t.Helper()
	if err := s.Clean(); err != nil {
		s.t.Error(err)
	}
}

// Clean is nil if the server lives and has not logged any trouble.
func (s *Server) Clean() error {
	if !s.Alive() {
		return fmt.Errorf("the iperf server has died: %v\n%s", s.err, tail(s.Log()))
	}
	if bad := s.Troubles(); len(bad) > 0 {
		return fmt.Errorf("the iperf server logged: %q", bad)
	}
	return nil
}

func tail(s string) string {
	if len(s) > 2000 {
		return "..." + s[len(s)-2000:]
	}
	return s
}

// CloseWaits is the number of sockets in CLOSE_WAIT on the server's port, of
// either side.
func (s *Server) CloseWaits() int { return SocketsIn(s.t, s.Addr.Port(), closeWait) }

// States of a socket in /proc/net/tcp.
const (
	closeWait = "08"
	listen    = "0A"
)

// CheckNoCloseWait fails the test if, after within, there is still a socket of
// either side on the server's port that has seen the other side's end but has not
// ended itself.
func (s *Server) CheckNoCloseWait(within time.Duration) {
	s.t.Helper()
	for deadline := time.Now().Add(within); ; time.Sleep(10 * time.Millisecond) {
		n := s.CloseWaits()
		if n == 0 {
			return
		}
		if time.Now().After(deadline) {
			s.t.Errorf("%d sockets in CLOSE_WAIT after %v", n, within)
			return
		}
	}
}

// SocketsIn counts this namespace's TCP sockets whose local or remote port is
// port and whose state is the hexadecimal one of /proc/net/tcp.
func SocketsIn(t testing.TB, port uint16, state string) int {
	t.Helper()
	return socketsIn(t, "/proc/net", port, state)
}

func socketsIn(t testing.TB, dir string, port uint16, state string) int {
	t.Helper()
	n := 0
	suffix := fmt.Sprintf(":%04X", port)
	for _, f := range []string{"tcp", "tcp6"} {
		b, err := os.ReadFile(filepath.Join(dir, f))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			if len(f) > 3 && f[3] == state && (strings.HasSuffix(f[1], suffix) || strings.HasSuffix(f[2], suffix)) {
				n++
			}
		}
	}
	return n
}

// Client is a running stock client.
type Client struct {
	cmd     *exec.Cmd
	out     syncBuffer
	started time.Time
	done    chan struct{}
	err     error
	took    time.Duration
}

// StartClient runs iperf -c against addr with args in the background.
func StartClient(t testing.TB, wrap Wrap, addr netip.AddrPort, args ...string) *Client {
	t.Helper()
	Require(t)
	c := &Client{done: make(chan struct{}), started: time.Now()}
	all := append([]string{"-c", addr.Addr().String(), "-p", strconv.Itoa(int(addr.Port()))}, args...)
	if addr.Addr().Is6() {
		all = append(all, "-V")
	}
	c.cmd = wrap("iperf", all...)
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.out
	if err := c.cmd.Start(); err != nil {
		t.Fatalf("starting iperf -c: %v", err)
	}
	go func() {
		c.err = c.cmd.Wait()
		c.took = time.Since(c.started)
		close(c.done)
	}()
	t.Cleanup(func() {
		select {
		case <-c.done:
		default:
			_ = c.cmd.Process.Signal(syscall.SIGKILL)
			<-c.done
		}
	})
	return c
}

// Pid of the client's process.
func (c *Client) Pid() int { return c.cmd.Process.Pid }

// Wait waits for the client's end, at most for limit, and returns what it printed
// and how long it ran.
func (c *Client) Wait(limit time.Duration) (string, time.Duration, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c.done:
		return c.out.String(), c.took, c.err
	case <-timer.C:
		return c.out.String(), time.Since(c.started), fmt.Errorf("the stock client still runs after %v", limit)
	}
}

// syncBuffer is a buffer that a process writes and a test reads.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
