package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// bench is one call of the program: the server and what is to be removed at the
// end.
type bench struct {
	options
	stop   chan os.Signal
	server *exec.Cmd
	addr   netip.AddrPort
	log    lockedBuffer
	dir    string
}

var errInterrupted = errors.New("interrupted")

// start starts a command on one CPU. The starting thread's affinity and niceness
// are what a child is born with, so all the child's threads have them from the
// first instruction on. That thread is left to die with its goroutine.
func (b *bench) start(cmd *exec.Cmd, cpu int) error {
	// A session of its own is a scheduling group of its own where the kernel groups
	// by session; there a niceness counts only among the session's own processes.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		var one unix.CPUSet
		one.Set(cpu)
		if err := unix.SchedSetaffinity(0, &one); err != nil {
			done <- fmt.Errorf("pinning to CPU %d: %w", cpu, err)
			return
		}
		if b.nice != 0 {
			if err := unix.Setpriority(unix.PRIO_PROCESS, 0, b.nice); err != nil {
				done <- fmt.Errorf("-nice %d: %w", b.nice, err)
				return
			}
		}
		done <- cmd.Start()
	}()
	if err := <-done; err != nil {
		return err
	}
	if b.nice != 0 {
		group := fmt.Sprintf("/proc/%d/autogroup", cmd.Process.Pid)
		if err := os.WriteFile(group, []byte(strconv.Itoa(b.nice)), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			return fmt.Errorf("-nice %d: %w", b.nice, err)
		}
	}
	return nil
}

// runPinned runs a client to its end on the clients' CPU and returns what it
// printed and the CPU time of the whole process.
func (b *bench) runPinned(limit time.Duration, name string, args ...string) ([]byte, time.Duration, error) {
	var out, errOut bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := b.start(cmd, b.clientCPU); err != nil {
		return nil, 0, err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	var err error
	select {
	case err = <-done:
	case <-timer.C:
		_ = cmd.Process.Kill()
		<-done
		return nil, 0, fmt.Errorf("%s still ran after %v", name, limit)
	case <-b.stop:
		_ = cmd.Process.Signal(os.Interrupt)
		<-done
		return nil, 0, errInterrupted
	}
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w\n%s%s", name, err, errOut.String(), tail(out.Bytes()))
	}
	return out.Bytes(), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}

func tail(b []byte) string {
	if len(b) > 1000 || bytes.IndexByte(b, 0) >= 0 {
		return ""
	}
	return string(b)
}

// startServer starts iperf -s on a free port of loopback, pinned.
func (b *bench) startServer() error {
	path, err := exec.LookPath("iperf")
	if err != nil {
		return errors.New("needs iperf 2.1.8 or newer in PATH (Debian package iperf)")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	b.addr = l.Addr().(*net.TCPAddr).AddrPort()
	if err := l.Close(); err != nil {
		return err
	}
	args := []string{"-s", "-p", strconv.Itoa(int(b.addr.Port()))}
	// iperf buffers its output when that is no terminal.
	if buf, err := exec.LookPath("stdbuf"); err == nil {
		path, args = buf, append([]string{"-oL", "-eL", path}, args...)
	}
	b.server = exec.Command(path, args...)
	b.server.Stdout, b.server.Stderr = &b.log, &b.log
	if err := b.start(b.server, b.serverCPU); err != nil {
		return err
	}
	for range 400 {
		if strings.Contains(b.log.String(), "listening") {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return fmt.Errorf("iperf -s does not listen on %v: %s", b.addr, b.log.String())
}

// rest waits between two runs, or tells that somebody wants to stop.
func (b *bench) rest() error {
	select {
	case <-b.stop:
		return errInterrupted
	case <-time.After(b.pause):
		return nil
	}
}

func (b *bench) close() {
	if b.server != nil && b.server.Process != nil {
		_ = b.server.Process.Kill()
		_ = b.server.Wait()
	}
	if b.dir != "" {
		_ = os.RemoveAll(b.dir)
	}
}

// lockedBuffer is a buffer that a process writes and we read.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

var _ io.Writer = (*lockedBuffer)(nil)
