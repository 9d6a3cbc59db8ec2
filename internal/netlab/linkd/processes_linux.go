package linkd

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// NamespaceID names a network namespace for as long as somebody holds it open;
// afterwards the kernel gives its number to another one.
type NamespaceID struct{ Dev, Ino uint64 }

func (id NamespaceID) String() string { return fmt.Sprintf("%d:%d", id.Dev, id.Ino) }

// NamespaceOfFD identifies an open namespace.
func NamespaceOfFD(fd int) (NamespaceID, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return NamespaceID{}, fmt.Errorf("namespace descriptor %d: %w", fd, err)
	}
	return NamespaceID{uint64(st.Dev), st.Ino}, nil
}

// namespaceOf is the network namespace of a process's main thread.
func namespaceOf(pid int) (NamespaceID, error) {
	var st unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d/ns/net", pid), &st); err != nil {
		return NamespaceID{}, err
	}
	return NamespaceID{uint64(st.Dev), st.Ino}, nil
}

// Owner identifies a process beyond its life: process id, start time in clock ticks
// since boot and the namespace in which that id counts, separated by colons. One
// that is dead but not yet waited for is os.ErrNotExist, as if it were gone.
func Owner(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The second field is the program's name in parentheses and may contain anything;
	// the start time is field 22 (proc_pid_stat(5)).
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 20 {
		return "", fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields)+2)
	}
	if state := fields[0]; state == "Z" || state == "X" {
		return "", fmt.Errorf("process %d is dead: %w", pid, os.ErrNotExist)
	}
	ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d:%s:%s", pid, fields[19], ns), nil
}

// KillIn ends all processes in the given open namespaces, and those on their way
// there, but neither the caller nor the process spare.
func KillIn(spare int, namespaces ...int) error {
	ours := map[NamespaceID]bool{}
	marks := map[string]bool{}
	for _, fd := range namespaces {
		id, err := NamespaceOfFD(fd)
		if err != nil {
			return err
		}
		ours[id], marks[id.String()] = true, true
	}
	return KillAll(func(pid int) bool {
		if pid == os.Getpid() || pid == spare {
			return false
		}
		id, err := namespaceOf(pid)
		return err == nil && (ours[id] || marks[environment(pid, EnvNamespace)])
	})
}

// Sweep ends what dead test processes left behind: every process whose environment
// names an owner that no longer lives. Owners of another process namespace (a
// container's, seen from the host) can't be judged and are left alone.
func Sweep() error {
	self, err := Owner(os.Getpid())
	if err != nil {
		return err
	}
	here := namespacePart(self)
	return KillAll(func(pid int) bool {
		owner := environment(pid, EnvOwner)
		if owner == "" || namespacePart(owner) != here || pid == os.Getpid() {
			return false
		}
		id, _, _ := strings.Cut(owner, ":")
		ownerPID, err := strconv.Atoi(id)
		if err != nil {
			return false
		}
		now, err := Owner(ownerPID)
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ESRCH) {
			return false
		}
		return now != owner
	})
}

// environment is the value that a process's environment had for name when its
// program started; "" if there is none or the process is gone.
func environment(pid int, name string) string {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return ""
	}
	for v := range strings.SplitSeq(string(env), "\x00") {
		if n, value, _ := strings.Cut(v, "="); n == name {
			return value
		}
	}
	return ""
}

func namespacePart(owner string) string {
	parts := strings.SplitN(owner, ":", 3)
	if len(parts) < 3 {
		return ""
	}
	return parts[2]
}

// KillAll kills every process that doomed selects, and returns when there are none
// left: none in two looks, because a process that is just becoming another program
// has no environment for a moment.
func KillAll(doomed func(pid int) bool) error {
	const limit = 5 * time.Second
	clean := 0
	for start := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		left, err := killOnce(doomed)
		if err != nil {
			return err
		}
		if left > 0 {
			clean = 0
		} else if clean++; clean == 2 {
			return nil
		}
		if time.Since(start) > limit {
			return fmt.Errorf("%d processes of the lab did not die within %v", left, limit)
		}
	}
}

func killOnce(doomed func(pid int) bool) (left int, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || !doomed(pid) {
			continue
		}
		// The id may pass to a new process between the look and the shot: take hold of
		// the process first, look again, then shoot at what is held.
		fd, err := unix.PidfdOpen(pid, 0)
		if err == unix.ESRCH || err == unix.EINVAL {
			continue // gone, or its id now is a thread's
		}
		if err != nil {
			return left, fmt.Errorf("pidfd of process %d: %w", pid, err)
		}
		if doomed(pid) {
			left++
			if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && err != unix.ESRCH {
				unix.Close(fd)
				return left, fmt.Errorf("killing process %d: %w", pid, err)
			}
		}
		unix.Close(fd)
	}
	return left, nil
}
