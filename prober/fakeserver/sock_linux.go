package fakeserver

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// States of a TCP socket in tcp_info, from the kernel's net/tcp_states.h.
const (
	tcpClose     = 7
	tcpCloseWait = 8
)

// peekEnd tells the client's end without reading.
func peekEnd(c *net.TCPConn) End {
	raw, err := c.SyscallConn()
	if err != nil {
		return Unknown
	}
	end := Open
	err = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		switch {
		case err != nil:
			end = Unknown
		case info.State == tcpCloseWait:
			end = FIN
		case info.State == tcpClose:
			end = RST
		}
	})
	if err != nil {
		return Unknown
	}
	return end
}

func smallReceiveBuffer(_, _ string, c syscall.RawConn) error {
	var serr error
	err := c.Control(func(fd uintptr) {
		serr = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4096)
	})
	if err != nil {
		return err
	}
	return serr
}
