package prober

import (
	"io"
	"net/netip"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

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
