package netlab

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	mtu = 1500
	// deviceQueue is how many packets the TUN device holds until the link reads them.
	// It is no part of the model: large enough that a burst never overflows it.
	deviceQueue = 10000
)

// onThread runs fn on a goroutine and OS thread of its own, which fn may move to
// other namespaces. The thread is moved back afterwards; if that fails it ends with
// the goroutine, so that no other goroutine ever runs on it. A Goexit in fn (say
// t.FailNow) becomes one of the caller.
func onThread(fn func() error) error {
	done := make(chan error, 1) // closed without a value by a Goexit
	go func() {
		defer close(done)
		runtime.LockOSThread()
		home, err := currentNamespace()
		if err != nil {
			runtime.UnlockOSThread()
			done <- err
			return
		}
		defer home.Close()
		defer func() {
			if unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) == nil {
				runtime.UnlockOSThread()
			}
		}()
		done <- fn()
	}()
	err, returned := <-done
	if !returned {
		runtime.Goexit()
	}
	return err
}

// currentNamespace opens the network namespace of the calling thread.
func currentNamespace() (*os.File, error) { return os.Open("/proc/thread-self/ns/net") }

// newNamespace makes a network namespace with a loopback device that is up and a
// TUN device with the given addresses. The namespace lives as long as ns is open or
// a process is in it, the device as long as tun is open.
func newNamespace(device string, addrs ...netip.Prefix) (ns, tun *os.File, err error) {
	err = onThread(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("new network namespace: %w", err)
		}
		if ns, err = currentNamespace(); err != nil {
			return err
		}
		if tun, err = newTUN(device); err != nil {
			return err
		}
		return configure(device, addrs)
	})
	if err != nil {
		for _, f := range []*os.File{ns, tun} {
			if f != nil {
				f.Close()
			}
		}
		return nil, nil, err
	}
	return ns, tun, nil
}

// newTUN makes a TUN device in the calling thread's namespace: bare IP packets, and
// neither segmentation nor checksums left to the reader.
func newTUN(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("/dev/net/tun: %w", err)
	}
	ifr, err := unix.NewIfreq(name)
	if err == nil {
		ifr.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("TUN device %s: %w", name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// configure sets up the devices of the calling thread's namespace.
func configure(device string, addrs []netip.Prefix) error {
	s4, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s4)
	// No address of the kernel's own making, hence no chatter from it.
	for name, value := range map[string]string{"addr_gen_mode": "1", "accept_ra": "0", "disable_ipv6": "0"} {
		err := writeSysctl("net.ipv6.conf."+device+"."+name, value)
		if err != nil && !errors.Is(err, os.ErrNotExist) { // a kernel without IPv6
			return err
		}
	}
	for _, set := range []struct {
		request uint
		device  string
		value   uint32
	}{
		{unix.SIOCSIFMTU, device, mtu},
		{unix.SIOCSIFTXQLEN, device, deviceQueue},
	} {
		if err := ioctlUint32(s4, set.request, set.device, set.value); err != nil {
			return err
		}
	}
	for _, d := range []string{"lo", device} {
		if err := setUp(s4, d); err != nil {
			return err
		}
	}
	for _, a := range addrs {
		add := addAddress6
		if a.Addr().Is4() {
			add = addAddress4
		}
		if err := add(s4, device, a); err != nil {
			return fmt.Errorf("address %v: %w", a, err)
		}
	}
	return nil
}

func ioctlUint32(fd int, request uint, device string, value uint32) error {
	ifr, err := unix.NewIfreq(device)
	if err != nil {
		return err
	}
	ifr.SetUint32(value)
	if err := unix.IoctlIfreq(fd, request, ifr); err != nil {
		return fmt.Errorf("ioctl %#x on %s: %w", request, device, err)
	}
	return nil
}

func setUp(fd int, device string) error {
	ifr, err := unix.NewIfreq(device)
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, ifr); err != nil {
		return fmt.Errorf("flags of %s: %w", device, err)
	}
	ifr.SetUint16(ifr.Uint16() | unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr); err != nil {
		return fmt.Errorf("setting %s up: %w", device, err)
	}
	return nil
}

// addAddress4 gives the device an IPv4 address and with it the route to its subnet.
func addAddress4(fd int, device string, a netip.Prefix) error {
	mask := ^uint32(0) << (32 - a.Bits())
	for _, set := range []struct {
		request uint
		value   [4]byte
	}{
		{unix.SIOCSIFADDR, a.Addr().As4()},
		{unix.SIOCSIFNETMASK, [4]byte{byte(mask >> 24), byte(mask >> 16), byte(mask >> 8), byte(mask)}},
	} {
		ifr, err := unix.NewIfreq(device)
		if err != nil {
			return err
		}
		if err := ifr.SetInet4Addr(set.value[:]); err != nil {
			return err
		}
		if err := unix.IoctlIfreq(fd, set.request, ifr); err != nil {
			return err
		}
	}
	return nil
}

// addAddress6 does the same for IPv6, and waits until the address can be bound to:
// there is no duplicate address detection on a TUN device, but a kernel thread has to
// find that out.
func addAddress6(fd int, device string, a netip.Prefix) error {
	ifr, err := unix.NewIfreq(device)
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, ifr); err != nil {
		return err
	}
	s6, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s6)
	req := struct { // struct in6_ifreq of linux/ipv6.h
		addr   [16]byte
		prefix uint32
		index  int32
	}{a.Addr().As16(), uint32(a.Bits()), int32(ifr.Uint32())}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(s6), unix.SIOCSIFADDR, uintptr(unsafe.Pointer(&req)))
	if errno != 0 {
		return errno
	}
	const limit = 10 * time.Second
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		tentative, err := isTentative(a.Addr())
		if err != nil || !tentative {
			return err
		}
		if time.Since(start) > limit {
			return fmt.Errorf("still tentative after %v", limit)
		}
	}
}

// isTentative looks up an IPv6 address of the calling thread's namespace.
func isTentative(a netip.Addr) (bool, error) {
	text, err := os.ReadFile("/proc/thread-self/net/if_inet6")
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line) // address, index, prefix, scope, flags, device; all hexadecimal
		if len(f) < 6 || f[0] != fmt.Sprintf("%x", a.As16()) {
			continue
		}
		flags, err := strconv.ParseUint(f[4], 16, 32)
		return flags&unix.IFA_F_TENTATIVE != 0, err
	}
	return false, fmt.Errorf("not in the kernel's list")
}

// writeSysctl sets a parameter in the calling thread's namespace.
func writeSysctl(name, value string) error {
	path := "/proc/sys/" + strings.ReplaceAll(name, ".", "/")
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}
