//go:build !linux

package responder

import (
	"fmt"
	"net"
	"runtime"
)

func setTOS(net.Conn, uint8) error { return unsupported("TOS") }

func quickAck(net.Conn) func() error {
	return func() error { return unsupported("TCP_QUICKACK") }
}

func setLowWater(net.Conn, int) error { return unsupported("TCP_NOTSENT_LOWAT") }

func unsupported(what string) error {
	return fmt.Errorf("%s is not supported on %s", what, runtime.GOOS)
}
