package prober

import (
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

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
