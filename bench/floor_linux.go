package main

import (
	_ "embed"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bounceback-exporter/bounceback_exporter/prober/wire"
)

//go:embed floor/floor.c
var floorSource []byte

// floorCommand compiles the floor and returns the command that runs it, without
// its last argument. Where there is no C compiler, it is our own loop of plain
// system calls, and kind says so.
func (b *bench) floorCommand() (argv []string, kind string, err error) {
	args := []string{b.addr.Addr().String(), strconv.Itoa(int(b.addr.Port())), strconv.Itoa(b.count), strconv.Itoa(b.size),
		strconv.FormatInt(b.hold.Microseconds(), 10)}
	for _, cc := range []string{os.Getenv("CC"), "gcc", "cc", "clang"} {
		if cc == "" {
			continue
		}
		if _, err := exec.LookPath(cc); err != nil {
			continue
		}
		if b.dir, err = os.MkdirTemp("", "bounceback-bench-"); err != nil {
			return nil, "", err
		}
		src, bin := filepath.Join(b.dir, "floor.c"), filepath.Join(b.dir, "floor")
		if err := os.WriteFile(src, floorSource, 0o600); err != nil {
			return nil, "", err
		}
		if out, err := exec.Command(cc, "-O2", "-Wall", "-o", bin, src).CombinedOutput(); err != nil {
			return nil, "", fmt.Errorf("compiling the floor with %s: %w\n%s", cc, err, out)
		}
		return append([]string{bin}, args...), "C, compiled by " + cc + " -O2", nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	return append([]string{self, childArg, "floor"}, args...), "no C compiler here: a loop of blocking system calls in Go", nil
}

// childFloor is the floor without a C compiler: floor.c in Go.
func childFloor(args []string) error {
	if len(args) != 6 {
		return &usageError{"floor ADDRESS PORT COUNT SIZE HOLD QUICKACK"}
	}
	addr, err := netip.ParseAddr(args[0])
	if err != nil {
		return err
	}
	var n [5]int
	for i := range n {
		if n[i], err = strconv.Atoi(args[i+1]); err != nil {
			return err
		}
	}
	port, count, size, hold, quick := n[0], n[1], n[2], n[3], n[4] != 0
	msg := wire.Message{Layout: wire.LayoutC, Size: uint32(size), ReplySize: uint32(size), ID: 1, Hold: uint32(hold)}
	if quick {
		msg.Flags = wire.FlagQuickAck
	}
	req, reply := make([]byte, size), make([]byte, size)
	if err := msg.PutRequest(req); err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: addr.As4()}); err != nil {
		return err
	}
	rtt := make([]time.Duration, 0, count)
	var start time.Time
	var cpu int64
	for i := -1; i < count; i++ {
		if i == 0 {
			start, cpu = time.Now(), ownCPU()
		}
		t0 := time.Now()
		if _, err := unix.Write(fd, req); err != nil {
			return err
		}
		for have := 0; have < size; {
			n, err := unix.Read(fd, reply[have:])
			if err != nil || n == 0 {
				return fmt.Errorf("read: %d bytes, %w", n, err)
			}
			have += n
		}
		took := time.Since(t0)
		if quick {
			_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1)
		}
		if i >= 0 {
			rtt = append(rtt, took)
		}
	}
	h := header{N: count, CPU: ownCPU() - cpu, Wall: int64(time.Since(start))}
	_ = unix.Shutdown(fd, unix.SHUT_WR)
	for {
		if n, err := unix.Read(fd, reply); n <= 0 || err != nil {
			break
		}
	}
	_ = unix.Close(fd)
	return encode(os.Stdout, h, rtt)
}

// ownCPU is the CPU time of this process, all its threads, in ns.
func ownCPU() int64 {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return r.Utime.Nano() + r.Stime.Nano()
}
