//go:build !linux

package prober

import "time"

// kernelClock is Linux's only; elsewhere nothing is known.
func kernelClock() (synchronized Optional[bool], maxError, estimated Optional[time.Duration]) {
	return
}
