package prober

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// niceness of each thread of this process.
func niceness(t *testing.T) map[string]int {
	t.Helper()
	stats, err := filepath.Glob("/proc/self/task/*/stat")
	if err != nil {
		t.Fatal(err)
	}
	m := make(map[string]int)
	for _, path := range stats {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // ended meanwhile
		}
		f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
		if m[path], err = strconv.Atoi(f[16]); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// The load's thread is nicer than the others, and is gone when the load is: nobody
// else inherits it.
func TestLoadThreadGivesWay(t *testing.T) {
	base, err := unix.SchedGetAttr(0, 0)
	if err != nil || base.Policy != unix.SCHED_NORMAL || base.Nice+loadNice > 19 {
		t.Skip("needs to run in the normal scheduling class, with room for a higher niceness")
	}
	nice := func() (n int) {
		for _, v := range niceness(t) {
			if v == int(base.Nice)+loadNice {
				n++
			}
		}
		return n
	}
	eventually(t, "an earlier test's thread has ended", func() bool { return nice() == 0 })
	c, _ := moverPeer(t)
	e, err := newEngine(context.Background(), c.stopForTest(t))
	if err != nil {
		t.Fatal(err)
	}
	e.start([]*loadStream{{c: c, reads: true}})
	eventually(t, "one thread is nice", func() bool { return nice() == 1 })
	e.stop()
	eventually(t, "no thread is nice", func() bool { return nice() == 0 })
}

// No more than it can be stepped back can the main thread end.
func TestOwnThreadIsNeverTheMainOne(t *testing.T) {
	for range 200 {
		tid := make(chan int)
		goOnOwnThread(func() { tid <- unix.Gettid() })
		if got := <-tid; got == os.Getpid() {
			t.Fatal("the main thread")
		}
		runtime.Gosched()
	}
}
