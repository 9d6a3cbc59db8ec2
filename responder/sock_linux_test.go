package responder

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bounceback-exporter/bounceback_exporter/prober/wire"
)

// sniff opens a packet socket on the loopback device, for what comes from a TCP port:
// the device may be busy with others.
func sniff(t *testing.T, port uint16) int {
	t.Helper()
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Skip("needs a device lo: ", err)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(htons(unix.ETH_P_ALL)))
	if err != nil {
		t.Skip("needs the right to open packet sockets: ", err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	const (
		loadByte = unix.BPF_LD | unix.BPF_B | unix.BPF_ABS
		loadHalf = unix.BPF_LD | unix.BPF_H
		ifEqual  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	)
	filter := []unix.SockFilter{
		0: {Code: loadByte, K: 0},
		1: {Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xf0},
		2: {Code: ifEqual, K: 0x40, Jt: 0, Jf: 3},           // IPv4: go on at 3, else at 6
		3: {Code: unix.BPF_LDX | unix.BPF_B | unix.BPF_MSH}, // the IPv4 header's length
		4: {Code: loadHalf | unix.BPF_IND, K: 0},            // source port
		5: {Code: ifEqual, K: uint32(port), Jt: 2, Jf: 3},   // to 8 or 9
		6: {Code: loadHalf | unix.BPF_ABS, K: 40},           // source port behind an IPv6 header
		7: {Code: ifEqual, K: uint32(port), Jt: 0, Jf: 1},   // to 8 or 9
		8: {Code: unix.BPF_RET | unix.BPF_K, K: 256},        // headers are enough
		9: {Code: unix.BPF_RET | unix.BPF_K, K: 0},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program); err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL), Ifindex: lo.Index}); err != nil {
		t.Skip("needs the right to open packet sockets: ", err)
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 500_000}); err != nil {
		t.Fatal(err)
	}
	return fd
}

func htons(v uint16) uint16 {
	return binary.NativeEndian.Uint16([]byte{byte(v >> 8), byte(v)})
}

// markOfData reads packets until one with data comes to a client from its server, and
// tells its TOS byte or traffic class.
func markOfData(t *testing.T, fd int, client *net.TCPConn) byte {
	t.Helper()
	from := client.RemoteAddr().(*net.TCPAddr).AddrPort().Port()
	to := client.LocalAddr().(*net.TCPAddr).AddrPort().Port()
	buf := make([]byte, 256)
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err != nil || n < 40 {
			continue
		}
		b := buf[:n]
		var mark byte
		switch {
		case b[0]>>4 == 4 && b[9] == unix.IPPROTO_TCP:
			mark, b = b[1], b[int(b[0]&15)*4:]
		case b[0]>>4 == 6 && b[6] == unix.IPPROTO_TCP:
			mark, b = b[0]<<4|b[1]>>4, b[40:]
		default:
			continue
		}
		if len(b) > 20 && binary.BigEndian.Uint16(b) == from && binary.BigEndian.Uint16(b[2:]) == to && len(b) > int(b[12]>>4)*4 {
			return mark
		}
	}
	t.Fatal("no packet with data")
	return 0
}

// Replies and loads carry the TOS that the message asks for: in IPv4, in IPv6, and in
// IPv4 on an IPv6 socket.
func TestTOSOnTheWire(t *testing.T) {
	for name, tc := range map[string]struct{ listen, dial string }{
		"ipv4":           {"127.0.0.1:0", "127.0.0.1"},
		"ipv6":           {"[::1]:0", "::1"},
		"ipv4 over dual": {":0", "127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			if ln, err := net.Listen("tcp", tc.listen); err != nil {
				t.Skip("needs ", tc.listen, ": ", err)
			} else {
				ln.Close()
			}
			_, addr := startAt(t, Options{}, tc.listen)
			fd := sniff(t, addr.Port())
			addr = netip.AddrPortFrom(netip.MustParseAddr(tc.dial), addr.Port())
			for want, m := range map[byte]wire.Message{
				0x00: {TOS: 0x48}, // without its flag it does not count
				0x20: {TOS: 0x20, Flags: wire.FlagTOS},
			} {
				c := dial(t, addr)
				write(t, c, message(t, m))
				readReply(t, c, wire.LayoutC, 100)
				if got := markOfData(t, fd, c); got != want {
					t.Errorf("bounce: %#x, want %#x", got, want)
				}
				end(t, c)
			}
			c := load(t, addr, loadHeader(t, wire.TestHeader{Direction: wire.Down, TOS: 0x88, Duration: 300 * time.Millisecond}))
			if got := markOfData(t, fd, c); got != 0x88 {
				t.Errorf("load: %#x, want 0x88", got)
			}
			drain(t, c)
		})
	}
}

// accepted keeps what a listener accepted.
type accepted struct {
	net.Listener
	conns chan *net.TCPConn
}

func (a *accepted) Accept() (net.Conn, error) {
	c, err := a.Listener.Accept()
	if err == nil {
		a.conns <- c.(*net.TCPConn)
	}
	return c, err
}

// The listener is plain TCP, and what it accepts does not wait for more to send.
func TestSocketOptions(t *testing.T) {
	ln, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := &accepted{ln, make(chan *net.TCPConn, 1)}
	r := New(Options{})
	done := make(chan error, 1)
	go func() { done <- r.Serve(context.Background(), a) }()
	defer func() {
		r.Close()
		<-done
	}()
	c := dial(t, ln.Addr().(*net.TCPAddr).AddrPort())
	write(t, c, message(t, wire.Message{}))
	readReply(t, c, wire.LayoutC, 100)
	raw, err := (<-a.conns).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(fd uintptr) {
		if v, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PROTOCOL); err != nil || v != unix.IPPROTO_TCP {
			t.Errorf("protocol %d, %v", v, err)
		}
		if v, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NODELAY); err != nil || v != 1 {
			t.Errorf("TCP_NODELAY %d, %v", v, err)
		}
	})
	end(t, c)
}
