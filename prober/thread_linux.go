package prober

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// A thread that has stepped back is loadNice nicer than the others of the process,
// and asks for a longer time slice than the scheduler's own 3 ms, so that a bounce
// that wakes on its CPU is let in sooner.
const (
	loadNice  = 5
	loadSlice = 100 * time.Millisecond
)

// goOnOwnThread runs f on a thread that nothing else ever runs on: it ends with f.
// That is never the process's main thread, which can't end and whose niceness is
// what everybody takes for the process's.
func goOnOwnThread(f func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			f()
			return
		}
		// As long as this goroutine keeps the main thread, the next gets another.
		defer runtime.UnlockOSThread()
		apart := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(apart)
			f()
		}()
		<-apart
	}()
}

// stepBack makes the calling thread one that lets others in. Where the kernel does
// not allow that, it stays as it is; before Linux 6.12 there are no slices to ask
// for, and the niceness alone has to do.
func stepBack() {
	attr, err := unix.SchedGetAttr(0, 0)
	if err != nil || attr.Policy != unix.SCHED_NORMAL {
		return
	}
	attr.Nice = min(attr.Nice+loadNice, 19)
	attr.Runtime = uint64(loadSlice)
	_ = unix.SchedSetAttr(0, attr, 0)
}
