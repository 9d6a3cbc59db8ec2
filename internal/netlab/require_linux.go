package netlab

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/bounceback-exporter/bounceback_exporter/internal/netlab/linkd"
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
	err := linkd.EachThread(pid, func(tid int) error { return unix.SchedSetaffinity(tid, &set) })
	if err != nil {
		return fmt.Errorf("binding to CPUs %v: %w", cpus, err)
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
