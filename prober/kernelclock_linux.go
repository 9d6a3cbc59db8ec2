package prober

import (
	"time"

	"golang.org/x/sys/unix"
)

// kernelClock asks the kernel what it believes of its own clock: whether somebody
// keeps it synchronised, and the maximum and estimated error. It reads only.
// Absent where the call is blocked.
func kernelClock() (synchronized Optional[bool], maxError, estimated Optional[time.Duration]) {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	if err != nil {
		return
	}
	const staUnsync = 0x40
	return Some(state != unix.TIME_ERROR && t.Status&staUnsync == 0),
		Some(time.Duration(t.Maxerror) * time.Microsecond),
		Some(time.Duration(t.Esterror) * time.Microsecond)
}
