package responder

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

var errNoSocket = errors.New("not a socket")

func setOption(nc net.Conn, f func(fd int) error) error {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return errNoSocket
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return err
	}
	var serr error
	if err := raw.Control(func(fd uintptr) { serr = f(int(fd)) }); err != nil {
		return err
	}
	return serr
}

// setTOS marks what we send. On an IPv6 socket both are needed: it may carry IPv4.
func setTOS(nc net.Conn, tos uint8) error {
	return setOption(nc, func(fd int) error {
		v4 := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TOS, int(tos))
		v6 := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_TCLASS, int(tos))
		if v4 != nil && v6 != nil {
			return v4
		}
		return nil
	})
}

// quickAck makes what acknowledges at once whatever came. The kernel forgets the
// option soon, so it is set again each time, without allocating.
func quickAck(nc net.Conn) func() error {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return func() error { return errNoSocket }
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return func() error { return err }
	}
	var serr error
	set := func(fd uintptr) { serr = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1) }
	return func() error {
		if err := raw.Control(set); err != nil {
			return err
		}
		return serr
	}
}

// setLowWater bounds what the kernel keeps unsent, so that a load ends soon after
// its time.
func setLowWater(nc net.Conn, bytes int) error {
	return setOption(nc, func(fd int) error {
		return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, bytes)
	})
}
