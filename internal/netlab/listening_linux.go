package netlab

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// AwaitListener returns when a TCP socket of the host listens on the port, which
// must be within the given time. It asks the kernel: a connection made only to see
// whether a server is up would do harm to an iperf 2.
func (h *Host) AwaitListener(port uint16, within time.Duration) error {
	for start := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		up := false
		err := h.Do(func() (err error) {
			up, err = listening(port)
			return err
		})
		if err != nil || up {
			return err
		}
		if time.Since(start) > within {
			return fmt.Errorf("nothing listens on TCP port %d of %v after %v", port, h.Addr4, within)
		}
	}
}

// listening looks through the sockets of the calling thread's namespace.
func listening(port uint16) (bool, error) {
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile("/proc/thread-self/net/" + table)
		if errors.Is(err, os.ErrNotExist) {
			continue // a kernel without IPv6
		}
		if err != nil {
			return false, err
		}
		const listen = "0A" // TCP_LISTEN, see proc_net_tcp(5)
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line) // number, local address:port, remote, state, ...
			if len(f) > 3 && f[3] == listen && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) {
				return true, nil
			}
		}
	}
	return false, nil
}
