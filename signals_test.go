package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/prober/fakeserver"
)

const longProbe = "modules: {long: {duration: 8s, timeout: 9s}}\n"

// bouncing waits until the peer has seen a whole first message.
func bouncing(t *testing.T, s *fakeserver.Server) {
	t.Helper()
	for range 500 {
		for _, c := range s.Journal() {
			if c.Replies > 10 {
				return
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("nobody bounces")
}

// endedByFIN fails unless every connection to the peer ended by a FIN.
func endedByFIN(t *testing.T, s *fakeserver.Server) {
	t.Helper()
	s.WaitEnded(t, 1, 10*time.Second)
	for i, c := range s.Journal() {
		if c.End != fakeserver.FIN {
			t.Errorf("connection %d ended by %v, want a FIN", i, c.End)
		}
	}
}

// No signal that a terminal, a shell or a service manager sends ends the probe
// command without a FIN first: a reset would end every test on that server.
func TestSignalsEndAProbeByFIN(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yml")
	if err := os.WriteFile(file, []byte(longProbe), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT} {
		t.Run(sig.String(), func(t *testing.T) {
			s := fakeserver.Start(t, fakeserver.Script{})
			cmd := programCommand("probe", s.Addr().String(), "--config.file="+file)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			bouncing(t, s)
			_ = cmd.Process.Signal(sig)
			endedByFIN(t, s)
			if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 1 {
				t.Errorf("it ended with %v, want exit code 1", err)
			}
		})
	}
}

// The reader of the log goes away while a probe runs: a write to it fails, and that
// is all.
func TestALostLogEndsNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yml")
	if err := os.WriteFile(file, []byte(longProbe), 0o600); err != nil {
		t.Fatal(err)
	}
	s := fakeserver.Start(t, fakeserver.Script{})
	cmd := programCommand("--config.file="+file, "--web.listen-address=127.0.0.1:0")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	url := addressOf(t, stderr.(*os.File))
	answers := make(chan error, 1)
	go func() {
		r, err := http.Get(fmt.Sprintf("%s/probe?target=%s", url, s.Addr()))
		if err == nil {
			err = r.Body.Close()
		}
		answers <- err
	}()
	bouncing(t, s)
	if err := stderr.Close(); err != nil {
		t.Fatal(err)
	}
	for range 3 { // each writes a line
		r, err := http.Post(url+"/-/reload", "", nil)
		if err != nil {
			t.Fatalf("the exporter does not answer: %v", err)
		}
		_ = r.Body.Close()
	}
	if err := <-answers; err != nil {
		t.Errorf("the probe under way: %v", err)
	}
	endedByFIN(t, s)
}

// addressOf reads the log up to the address at which the exporter listens.
func addressOf(t *testing.T, log *os.File) string {
	t.Helper()
	var seen strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := log.Read(buf)
		seen.Write(buf[:n])
		if m := listening.FindStringSubmatch(seen.String()); m != nil && strings.Contains(seen.String(), "TLS is disabled") {
			return "http://" + m[1]
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, seen.String())
		}
	}
}

// A report whose reader goes away still ends its connections in order.
func TestALostReaderOfTheReport(t *testing.T) {
	s := fakeserver.Start(t, fakeserver.Script{})
	probe := programCommand("probe", s.Addr().String())
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	probe.Stdout = w
	err = probe.Run()
	_ = w.Close()
	if _, ok := err.(*exec.ExitError); !ok || probe.ProcessState.ExitCode() != 1 {
		t.Errorf("it ended with %v, want exit code 1", err)
	}
	endedByFIN(t, s)
}

// A pipe that nobody reads is no place for --raw, and no place to hang.
func TestRawIntoAPipeThatNobodyReads(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Skip(err)
	}
	c := programCommand("probe", "--raw", fifo)
	out, err := c.CombinedOutput()
	if c.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "--raw") {
		t.Errorf("it ended with %v:\n%s", err, out)
	}
}
