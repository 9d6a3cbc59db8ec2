package prober

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// startConn makes the socket, gives it its options and begins the connect. After
// it, awaitConnect waits.
func startConn(clk *stopwatch, stop *canceller, o dialOptions) (*conn, error) {
	family := unix.AF_INET6
	if o.addr.Addr().Is4() {
		family = unix.AF_INET
	}
	// Plain TCP by name: a multipath socket has no tcp_info of its own.
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	if err != nil {
		return nil, &localError{"socket", err}
	}
	c := &conn{clk: clk, fd: fd, one: 1}
	c.fds[0].Fd = int32(fd)
	c.fds[1] = unix.PollFd{Fd: int32(stop.fd), Events: unix.POLLIN}
	c.msg.Iov = &c.iov
	c.msg.SetIovlen(1)
	if err := c.setOptions(family, o); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	err = unix.Connect(fd, sockaddr(o.addr))
	if err == nil || errors.Is(err, unix.EINPROGRESS) || errors.Is(err, unix.EINTR) {
		return c, nil
	}
	_ = unix.Close(fd)
	if errors.Is(err, unix.EADDRNOTAVAIL) {
		return nil, &localError{"connect: no local port or address", err}
	}
	return nil, os.NewSyscallError("connect", err)
}

func (c *conn) setOptions(family int, o dialOptions) error {
	set := func(what string, err error) error {
		if err != nil {
			return &localError{what, err}
		}
		return nil
	}
	if err := set("TCP_NODELAY", unix.SetsockoptInt(c.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)); err != nil {
		return err
	}
	if o.tos != 0 {
		level, opt := unix.IPPROTO_IPV6, unix.IPV6_TCLASS
		if family == unix.AF_INET {
			level, opt = unix.IPPROTO_IP, unix.IP_TOS
		}
		if err := set("dscp", unix.SetsockoptInt(c.fd, level, opt, int(o.tos))); err != nil {
			return err
		}
	}
	if o.congestionControl != "" {
		if err := unix.SetsockoptString(c.fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, o.congestionControl); err != nil {
			return noCongestionControl(o.congestionControl, err)
		}
	}
	if o.notSentLowat > 0 {
		if err := set("TCP_NOTSENT_LOWAT", unix.SetsockoptInt(c.fd, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, o.notSentLowat)); err != nil {
			return err
		}
	}
	if o.device != "" {
		if err := set(fmt.Sprintf("interface %q", o.device), unix.BindToDevice(c.fd, o.device)); err != nil {
			return err
		}
	}
	if o.source.IsValid() {
		// The port is chosen at connect, when the peer is known: many connections can
		// then share one.
		_ = unix.SetsockoptInt(c.fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
		if err := set("source_address "+o.source.String(), unix.Bind(c.fd, sockaddr(netip.AddrPortFrom(o.source, 0)))); err != nil {
			return err
		}
	}
	if o.stamps {
		// Where the kernel has no such stamps, lateness is simply not measured.
		_ = unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPING_NEW,
			unix.SOF_TIMESTAMPING_RX_SOFTWARE|unix.SOF_TIMESTAMPING_SOFTWARE)
	}
	return nil
}

// noCongestionControl says what the kernel's bare error number means here.
func noCongestionControl(name string, err error) error {
	switch {
	case errors.Is(err, unix.ENOENT):
		err = fmt.Errorf("this kernel does not have it; net.ipv4.tcp_available_congestion_control lists what it has: %w", err)
	case errors.Is(err, unix.EPERM):
		err = fmt.Errorf("only CAP_NET_ADMIN may take what net.ipv4.tcp_allowed_congestion_control does not list: %w", err)
	}
	return &unsupportedError{localError{fmt.Sprintf("congestion_control %q", name), err}}
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16(), ZoneId: zoneID(a.Addr().Zone())}
}

func zoneID(zone string) uint32 {
	if zone == "" {
		return 0
	}
	if i, err := net.InterfaceByName(zone); err == nil {
		return uint32(i.Index)
	}
	n, _ := strconv.ParseUint(zone, 10, 32)
	return uint32(n)
}
