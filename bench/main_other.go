//go:build !linux

// Command bench measures the prober beside the stock iperf 2 client. It pins
// processes to CPUs and reads the kernel's receive stamps, and so runs on Linux
// only.
package main

import (
	"fmt"
	"os"
	"runtime"
)

func main() {
	fmt.Fprintf(os.Stderr, "bench: not supported on %s: pinning processes to CPUs and the kernel's receive stamps are Linux's\n", runtime.GOOS)
	os.Exit(1)
}
