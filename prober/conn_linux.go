package prober

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// canceller turns a context's end into a readable descriptor, so that the same
// ppoll that waits for the peer also waits for the cancellation: the answer gives
// way at once, without a signal, a second goroutine or a socket timeout.
type canceller struct {
	fd   int
	ctx  context.Context
	stop func() bool
	ran  chan struct{}
}

func newCanceller(ctx context.Context) (*canceller, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, &localError{"eventfd", err}
	}
	c := &canceller{fd: fd, ctx: ctx, ran: make(chan struct{})}
	c.stop = context.AfterFunc(ctx, func() {
		defer close(c.ran)
		c.wake()
	})
	return c, nil
}

// wake makes what waits for the canceller return errCancelled, now and from now on.
func (c *canceller) wake() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(c.fd, one[:])
}

// close gives the descriptor back, not before the write to it can't happen any
// more: else it would go into whatever got the same number next.
func (c *canceller) close() {
	if !c.stop() {
		<-c.ran
	}
	_ = unix.Close(c.fd)
}

// conn is a hand-made non-blocking TCP socket. One goroutine at a time uses it;
// only halfClose may come from another. It lives on the heap and its buffers for
// the kernel are its own fields, so that a call needs no allocation.
type conn struct {
	clk *stopwatch

	mu     sync.Mutex // guards fd's life against halfClose
	fd     int
	closed bool
	fin    bool

	fds [2]unix.PollFd // the socket; the canceller
	ts  unix.Timespec
	msg unix.Msghdr
	iov unix.Iovec
	oob [128]byte

	stamp int64 // wall ns at which the kernel got what the last recv read; 0: not told

	tcpi    [tcpInfoWanted]byte
	tcpiLen uint32
	one     int32
}

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
			return &unsupportedError{localError{fmt.Sprintf("congestion_control %q", o.congestionControl), err}}
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

// wait returns nil when the socket is ready for events, else errCancelled or
// errDeadline. now is a recent reading of the monotonic clock, until the deadline
// on the same scale.
func (c *conn) wait(events int16, now, until int64) error {
	c.fds[0].Events = events
	for {
		left := until - now
		if left <= 0 {
			return errDeadline
		}
		c.ts = unix.NsecToTimespec(left)
		n, err := unix.Ppoll(c.fds[:], &c.ts, nil)
		switch {
		case err == unix.EINTR:
			now = c.clk.mono()
		case err != nil:
			return err
		case n == 0:
			return errDeadline
		case c.fds[1].Revents != 0:
			return errCancelled
		default:
			return nil
		}
	}
}

// awaitConnect waits until the connection is established.
func (c *conn) awaitConnect(until int64) error {
	if err := c.wait(unix.POLLOUT, c.clk.mono(), until); err != nil {
		return err
	}
	errno, err := unix.GetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil {
		return &localError{"SO_ERROR", err}
	}
	if errno != 0 {
		return os.NewSyscallError("connect", unix.Errno(errno))
	}
	return nil
}

// send writes all of b, waiting where the socket's buffer is full. It returns how
// much it wrote; the error is nil only for all of it.
func (c *conn) send(b []byte, now, until int64) (int, error) {
	done := 0
	for done < len(b) {
		// The call can't block and so need not tell the scheduler.
		n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(c.fd), uintptr(unsafe.Pointer(&b[done])), uintptr(len(b)-done), unix.MSG_NOSIGNAL, 0, 0)
		switch errno {
		case 0:
			done += int(n)
		case unix.EINTR:
		case unix.EAGAIN:
			if err := c.wait(unix.POLLOUT, now, until); err != nil {
				return done, err
			}
			now = c.clk.mono()
		default:
			return done, errno
		}
	}
	return done, nil
}

// recv fills b from at least least bytes on, waiting for the peer. It returns how
// much it read and, when that is less than least, why: io.EOF if the peer has
// finished.
func (c *conn) recv(b []byte, least int, now, until int64) (int, error) {
	done := 0
	for done < least {
		if err := c.wait(unix.POLLIN, now, until); err != nil {
			return done, err
		}
		n, errno := c.recvmsg(b[done:])
		switch {
		case errno == unix.EAGAIN || errno == unix.EINTR:
		case errno != 0:
			return done, errno
		case n == 0:
			return done, io.EOF
		default:
			done += n
		}
		if done < least {
			now = c.clk.mono()
		}
	}
	return done, nil
}

func (c *conn) recvmsg(b []byte) (int, unix.Errno) {
	c.iov.Base = &b[0]
	c.iov.SetLen(len(b))
	c.msg.Control = &c.oob[0]
	c.msg.SetControllen(len(c.oob))
	n, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(c.fd), uintptr(unsafe.Pointer(&c.msg)), 0)
	if errno != 0 {
		return 0, errno
	}
	c.stamp = receiveStamp(c.oob[:c.msg.Controllen])
	return int(n), 0
}

// receiveStamp finds the software stamp in control messages. The _NEW form has
// the same 64 bit layout on every platform.
func receiveStamp(oob []byte) int64 {
	const stampLen = 16 // seconds and nanoseconds, 64 bits each
	for len(oob) >= unix.SizeofCmsghdr {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&oob[0]))
		n := int(h.Len)
		if n < unix.SizeofCmsghdr || n > len(oob) {
			return 0
		}
		data := oob[unix.CmsgLen(0):n]
		if h.Level == unix.SOL_SOCKET && h.Type == unix.SO_TIMESTAMPING_NEW && len(data) >= stampLen {
			// Copied, since on 32 bits the data need not lie at a multiple of 8.
			var t [2]int64
			copy((*[stampLen]byte)(unsafe.Pointer(&t))[:], data)
			return t[0]*1e9 + t[1]
		}
		n = unix.CmsgSpace(n - unix.CmsgLen(0))
		if n > len(oob) {
			return 0
		}
		oob = oob[n:]
	}
	return 0
}

// sleepUntil waits for a tick of the schedule. The peer has nothing to say
// meanwhile: io.EOF if it has finished, errUnasked if it talks.
func (c *conn) sleepUntil(tick, now, until int64) error {
	for {
		err := c.wait(unix.POLLIN, now, min(tick, until))
		if err == errDeadline && tick <= until {
			return nil
		}
		if err != nil {
			return err
		}
		var peek [1]byte
		n, _, err := unix.Recvfrom(c.fd, peek[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		switch {
		case err == unix.EAGAIN || err == unix.EINTR:
			now = c.clk.mono()
		case err != nil:
			return err
		case n == 0:
			return io.EOF
		default:
			return errUnasked
		}
	}
}

// quickAck asks for the next acknowledgement at once. The kernel forgets it after
// a while, so it is set anew after each reply.
func (c *conn) quickAck() {
	_, _, _ = unix.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(c.fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK,
		uintptr(unsafe.Pointer(&c.one)), unsafe.Sizeof(c.one), 0)
}

// tcpInfo asks the kernel what it knows of the connection. It tells the length
// that the kernel returned from what it did not: x/sys' own call drops it.
func (c *conn) tcpInfo(t *TCPInfo) bool {
	c.tcpiLen = uint32(len(c.tcpi))
	_, _, errno := unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(c.fd), unix.IPPROTO_TCP, unix.TCP_INFO,
		uintptr(unsafe.Pointer(&c.tcpi)), uintptr(unsafe.Pointer(&c.tcpiLen)), 0)
	if errno != 0 {
		return false
	}
	parseTCPInfo(c.tcpi[:c.tcpiLen], t)
	return true
}

func (c *conn) localAddr() netip.AddrPort {
	sa, err := unix.Getsockname(c.fd)
	if err != nil {
		return netip.AddrPort{}
	}
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port))
	}
	return netip.AddrPort{}
}

// halfClose sends our FIN. It may be called at any time and from any goroutine.
func (c *conn) halfClose() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed && !c.fin {
		c.fin = unix.Shutdown(c.fd, unix.SHUT_WR) == nil
	}
}

// abandonConnect gives up a connect that is under way, if it still is: it returns
// true if the connection can't come into being any more and the socket may be
// closed. The peer's SYN-ACK is kept away from the socket first, so that it can't
// be established between the look and the close: iperf 2.1.8 is damaged by a
// connection that comes without a message.
func (c *conn) abandonConnect() bool {
	drop := []unix.SockFilter{{Code: 0x06 /* BPF_RET|BPF_K */, K: 0}}
	err := unix.SetsockoptSockFprog(c.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(drop)), Filter: &drop[0]})
	if err != nil {
		return false
	}
	// What had passed before the filter was there has been dealt with by then.
	time.Sleep(2 * time.Millisecond)
	const synSent = 2 // TCP_SYN_SENT
	c.tcpiLen = uint32(len(c.tcpi))
	_, _, errno := unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(c.fd), unix.IPPROTO_TCP, unix.TCP_INFO,
		uintptr(unsafe.Pointer(&c.tcpi)), uintptr(unsafe.Pointer(&c.tcpiLen)), 0)
	if errno == 0 && (c.tcpi[tcpiState] == synSent || c.tcpi[tcpiState] == 7 /* TCP_CLOSE */) {
		return true
	}
	_ = unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0)
	return false
}

// handOver gives the socket to the runtime's poller, for the background: there a
// wait costs no thread. The conn itself must not be used for input or output any
// more; close still ends it.
func (c *conn) handOver() background {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := os.NewFile(uintptr(c.fd), "tcp")
	return background{c: c, f: f}
}

// close ends a conn that was not handed over.
func (c *conn) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.closed = true
		_ = unix.Close(c.fd)
	}
}

// background is a conn in the runtime's poller.
type background struct {
	c *conn
	f *os.File
}

func (b background) SetDeadline(t time.Time) error { return b.f.SetDeadline(t) }
func (b background) Read(p []byte) (int, error)    { return b.f.Read(p) }
func (b background) Write(p []byte) (int, error)   { return b.f.Write(p) }
func (b background) close() {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	b.c.closed = true
	_ = b.f.Close()
}

// awaitConnect waits for a connect that could not be given up.
func (b background) awaitConnect() error {
	rc, err := b.f.SyscallConn()
	if err != nil {
		return err
	}
	var soErr error
	err = rc.Write(func(fd uintptr) bool {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		if n, _ := unix.Poll(p, 0); n == 0 {
			return false
		}
		if errno, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR); err != nil {
			soErr = err
		} else if errno != 0 {
			soErr = unix.Errno(errno)
		}
		return true
	})
	if err != nil {
		return err
	}
	return soErr
}
