package linkd

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// EachThread calls f for all threads of a process, until there are none that it
// hasn't seen: a thread made meanwhile by one that f has not yet reached may be
// missed by one pass, never one made after all were reached, if what f does is
// inherited. Threads that end meanwhile are no error.
func EachThread(pid int, f func(tid int) error) error {
	seen := map[int]bool{}
	for fresh := true; fresh; {
		fresh = false
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			return err
		}
		for _, th := range threads {
			tid, err := strconv.Atoi(th.Name())
			if err != nil {
				return err
			}
			if seen[tid] {
				continue
			}
			seen[tid], fresh = true, true
			if err := f(tid); err != nil && err != unix.ESRCH {
				return fmt.Errorf("thread %d of process %d: %w", tid, pid, err)
			}
		}
	}
	return nil
}

// SetRealtime puts all threads of a process at the lowest real-time priority, above
// every ordinary process, or back to ordinary scheduling. All of them: a thread that
// waits for a lock of the Go runtime is as slow as the one that holds it.
func SetRealtime(pid int, on bool) error {
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL}
	if on {
		attr.Policy, attr.Priority = unix.SCHED_FIFO, 1
	}
	return EachThread(pid, func(tid int) error { return unix.SchedSetAttr(tid, &attr, 0) })
}
