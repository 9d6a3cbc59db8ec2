package netlab

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// Require skips the test, with the reason, where no lab can be made.
func Require(t testing.TB) {
	t.Helper()
	if err := available(); err != nil {
		t.Skipf("no network lab here: %v", err)
	}
}

func available() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("needs root, runs as user %d", os.Geteuid())
	}
	if _, err := exec.LookPath(nsenter); err != nil {
		return fmt.Errorf("needs nsenter (util-linux): %w", err)
	}
	// A namespace with a device shows at once whether seccomp, capabilities, the TUN
	// module and a writable /proc/sys are as needed.
	ns, tun, err := newNamespace(fmt.Sprintf("nl%d.0", os.Getpid()), address4(1))
	if err != nil {
		return err
	}
	tun.Close()
	ns.Close()
	return nil
}

// Pin binds all threads of a process, and so all that they start, to the given
// CPUs.
func Pin(pid int, cpus ...int) error {
	var set unix.CPUSet
	for _, c := range cpus {
		set.Set(c)
		if c < 0 || !set.IsSet(c) {
			return fmt.Errorf("no CPU %d", c)
		}
	}
	// A thread made by one that is not yet bound may be missed by a pass over the
	// list, never one made after all in it are: repeat until nothing is new.
	seen := map[string]bool{}
	for fresh := true; fresh; {
		fresh = false
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			return err
		}
		for _, th := range threads {
			if seen[th.Name()] {
				continue
			}
			seen[th.Name()], fresh = true, true
			var tid int
			if _, err := fmt.Sscan(th.Name(), &tid); err != nil {
				return err
			}
			if err := unix.SchedSetaffinity(tid, &set); err != nil && err != unix.ESRCH {
				return fmt.Errorf("binding thread %d of process %d to CPUs %v: %w", tid, pid, cpus, err)
			}
		}
	}
	return nil
}

// CPUs lists the CPUs that the calling process may use; Pin with all of them undoes
// a Pin.
func CPUs() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(os.Getpid(), &set); err != nil {
		return nil, err
	}
	var cpus []int
	for c := 0; len(cpus) < set.Count(); c++ {
		if set.IsSet(c) {
			cpus = append(cpus, c)
		}
	}
	return cpus, nil
}
