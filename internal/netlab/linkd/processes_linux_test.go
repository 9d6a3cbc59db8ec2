package linkd

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOwnerIsOfOneProcessOnly(t *testing.T) {
	self, err := Owner(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Owner(os.Getpid()); err != nil || again != self {
		t.Errorf("first %q, then %q, %v", self, again, err)
	}
	// A name made to be misread: the fields behind it count, not those within.
	script := t.TempDir() + "/a) S 1 (b"
	if err := os.WriteFile(script, []byte("#!/bin/sh\nread x\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(script)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	child, err := Owner(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if namespacePart(child) != namespacePart(self) || namespacePart(child) == "" || len(strings.SplitN(child, ":", 3)) != 3 {
		t.Errorf("owner of the child is %q, ours %q", child, self)
	}
	stdin.Close()
	// Dead, but not waited for: as good as gone.
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if o, err := Owner(cmd.Process.Pid); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a zombie is %q, %v", o, err)
	}
	_ = cmd.Wait()
}

// Only what names a dead owner of the same process namespace is swept.
func TestSweepKnowsWhomToSpare(t *testing.T) {
	self, err := Owner(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	start := func(owner string) *exec.Cmd {
		cmd := exec.Command("sleep", "60")
		cmd.Env = append(os.Environ(), EnvOwner+"="+owner)
		if err := cmd.Start(); err != nil {
			t.Skip(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		return cmd
	}
	dead := strings.Replace(self, ":", ":1", 1) // the id of a living process that began later
	spared := map[string]*exec.Cmd{}
	for _, o := range []string{self, "", "nonsense", "1", "1:2:pid:[1]"} {
		spared[o] = start(o)
	}
	doomed := start(dead)
	if err := Sweep(); err != nil {
		t.Fatal(err)
	}
	if _, err := Owner(doomed.Process.Pid); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("process with owner %q survived: %v", dead, err)
	}
	for o, cmd := range spared {
		if _, err := Owner(cmd.Process.Pid); err != nil {
			t.Errorf("process with owner %q: %v", o, err)
		}
	}
}

func TestEachThreadReportsErrors(t *testing.T) {
	wrong := errors.New("wrong")
	if err := EachThread(os.Getpid(), func(int) error { return wrong }); !errors.Is(err, wrong) {
		t.Errorf("got %v", err)
	}
	n := 0
	if err := EachThread(os.Getpid(), func(int) error { n++; return unix.ESRCH }); err != nil || n == 0 {
		t.Errorf("%d threads, %v", n, err)
	}
	if err := EachThread(-1, func(int) error { return nil }); err == nil {
		t.Error("no error for a process that can't be")
	}
}
