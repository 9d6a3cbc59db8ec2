package netlab

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/internal/netlab/linkd"
	"golang.org/x/sys/unix"
)

// victim is a test process that has made a lab, with a program running in it.
type victim struct {
	cmd           *exec.Cmd
	link, program int
}

const roleVictim = "victim"

func newVictim(t *testing.T) *victim {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	v := &victim{cmd: exec.Command(self, "-test.run=^TestVictim$")}
	v.cmd.Env = append(os.Environ(), envRole+"="+roleVictim)
	out, err := v.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := v.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = v.cmd.Process.Kill(); _ = v.cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(line, &v.link, &v.program); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return v
}

func TestVictim(t *testing.T) {
	if Role() != roleVictim {
		t.Skip("only to be killed by the other tests")
	}
	l := New(t, Config{})
	cmd := l.B.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fmt.Println(l.LinkPID(), cmd.Process.Pid)
	_, _ = io.Copy(io.Discard, os.Stdin) // for ever, or until a signal
	time.Sleep(time.Hour)
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatalf("killing %d: %v", pid, err)
	}
}

// running tells whether a process is there and not a zombie.
func running(pid int) bool {
	_, err := linkd.Owner(pid)
	return !errors.Is(err, os.ErrNotExist)
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// A test process killed in mid-test takes its lab with it.
func TestNothingOutlivesAKilledTest(t *testing.T) {
	Require(t)
	v := newVictim(t)
	if !running(v.link) || !running(v.program) {
		t.Fatal("the victim's link or program is not running")
	}
	kill(t, v.cmd.Process.Pid)
	eventually(t, "program ended", func() bool { return !running(v.program) })
	eventually(t, "link ended", func() bool { return !running(v.link) })
}

// If even the link was killed, what is left goes when the next lab is made; that of
// a living test does not.
func TestLeftoversAreSwept(t *testing.T) {
	Require(t)
	dead, alive := newVictim(t), newVictim(t)
	kill(t, dead.link)
	kill(t, dead.cmd.Process.Pid)
	eventually(t, "test ended", func() bool { return !running(dead.cmd.Process.Pid) })
	if !running(dead.program) {
		t.Log("another process's lab has swept already")
	}
	New(t, Config{})
	if running(dead.program) {
		t.Error("the dead test's program is still running")
	}
	if !running(alive.program) || !running(alive.link) {
		t.Error("the living test's processes are gone")
	}
}

// A link that dies is told to the test, not taken for silence, and what runs in the
// lab ends all the same.
func TestDeadLinkIsAnError(t *testing.T) {
	Require(t)
	l := New(t, Config{})
	cmd := l.A.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the program is there", func() bool { return program(t, cmd.Process.Pid) == "sleep" })
	kill(t, l.LinkPID())
	r := &recorder{TB: t}
	l.t = r
	l.Link(AtoB).Set(Link{})
	l.Close()
	l.t = t
	if len(r.said) != 2 {
		t.Errorf("said %q, want an error from Set and one from Close", r.said)
	}
	if err := cmd.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("sleep ended with %v", err)
	}
}
