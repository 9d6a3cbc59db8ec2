package netlab

import (
	"os/exec"
	"runtime"
	"syscall"
	"testing"
)

// KeepAwake keeps the CPUs from sleeping until the test ends, by processes that give
// way to everybody (SCHED_IDLE). A CPU that sleeps, above all a virtual one, wakes
// up some 50 us late, at each of a packet's stops: that is the machine's, and not
// what is measured. It skips nothing: without the means it does nothing.
func KeepAwake(t testing.TB) {
	for range runtime.NumCPU() {
		// Should this test die, they end by themselves.
		cmd := exec.Command("timeout", "180", "chrt", "--idle", "0", "sh", "-c", "while :; do :; done")
		if err := cmd.Start(); err != nil {
			t.Logf("the CPUs may sleep: %v", err)
			return
		}
		t.Cleanup(func() {
			_ = cmd.Process.Signal(syscall.SIGTERM) // timeout passes it on
			_ = cmd.Wait()
		})
	}
}
