package netlab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/internal/netlab/linkd"
	"golang.org/x/sys/unix"
)

// Host is one end of the link: a network namespace.
type Host struct {
	Addr4 netip.Addr
	Addr6 netip.Addr // invalid where the kernel has no IPv6
	// Device is the name of the TUN device; it tells the test process's id.
	Device string

	t     testing.TB
	ns    *os.File
	id    string // of the namespace
	owner string
}

func newHost(t testing.TB, end int, owner string) (*Host, *os.File, error) {
	h := &Host{t: t, owner: owner, Device: fmt.Sprintf("nl%d.%d", os.Getpid(), end)}
	addrs := []netip.Prefix{address4(end)}
	h.Addr4 = addrs[0].Addr()
	if _, err := os.Stat("/proc/sys/net/ipv6"); err == nil {
		addrs = append(addrs, address6(end))
		h.Addr6 = addrs[1].Addr()
	}
	ns, tun, err := newNamespace(h.Device, addrs...)
	if err != nil {
		return nil, nil, err
	}
	id, err := linkd.NamespaceOfFD(int(ns.Fd()))
	if err != nil {
		ns.Close()
		tun.Close()
		return nil, nil, err
	}
	h.ns, h.id = ns, id.String()
	return h, tun, nil
}

// Do runs fn in the host's namespace, on a goroutine and OS thread of its own, and
// returns its error. Sockets that fn makes stay in the namespace for good, wherever
// they are used later. Goroutines that fn starts are not in it: a package that opens
// sockets on goroutines of its own must be run by Rerun.
func (h *Host) Do(fn func() error) error {
	return onThread(func() error {
		if err := unix.Setns(int(h.ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("entering the namespace of %v: %w", h.Addr4, err)
		}
		return fn()
	})
}

// Command is exec.Command for a program that runs in the host's namespace. The
// process id is the program's own. Should the test not end it, the end of the lab
// does.
func (h *Host) Command(name string, args ...string) *exec.Cmd {
	return h.CommandContext(context.Background(), name, args...)
}

// CommandContext is Command with a context that ends the program when it is done.
func (h *Host) CommandContext(ctx context.Context, name string, args ...string) *exec.Cmd {
	program := exec.Command(name, args...)
	if program.Err != nil {
		return program
	}
	in := fmt.Sprintf("--net=/proc/%d/fd/%d", os.Getpid(), h.ns.Fd())
	cmd := exec.CommandContext(ctx, nsenter, append([]string{in, "--", program.Path}, args...)...)
	cmd.Env = append(os.Environ(), linkd.EnvOwner+"="+h.owner, linkd.EnvNamespace+"="+h.id)
	return cmd
}

// nsenter is util-linux's; it sets the namespace and becomes the program.
const nsenter = "nsenter"

// Rerun is the command that runs the current test once more, in a process of its own
// of which every thread is in the host's namespace, with Role returning role. The
// test must look at Role first and then do its part instead of making a lab:
//
//	func TestProbe(t *testing.T) {
//		if netlab.Role() == "prober" {
//			probe(t, os.Getenv("TARGET")) // prints a line of JSON
//			return
//		}
//		lab := netlab.New(t, netlab.Config{})
//		cmd := lab.A.Rerun(t, "prober")
//		cmd.Env = append(cmd.Env, "TARGET="+lab.B.Addr4.String())
//		out, err := cmd.Output()
//
// Its standard output ends with the test binary's own PASS or FAIL line.
func (h *Host) Rerun(t testing.TB, role string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatalf("netlab: %v", err)
	}
	var pattern []string
	for part := range strings.SplitSeq(t.Name(), "/") {
		pattern = append(pattern, "^"+regexp.QuoteMeta(part)+"$")
	}
	cmd := h.Command(self, "-test.run="+strings.Join(pattern, "/"), "-test.count=1")
	cmd.Env = append(cmd.Env, envRole+"="+role)
	return cmd
}

// Listen is net.Listen in the host's namespace.
func (h *Host) Listen(network string, addr netip.AddrPort) (l net.Listener, err error) {
	err = h.Do(func() (err error) {
		l, err = net.Listen(network, addr.String())
		return err
	})
	return l, err
}

// ListenPacket is net.ListenPacket in the host's namespace.
func (h *Host) ListenPacket(network string, addr netip.AddrPort) (c net.PacketConn, err error) {
	err = h.Do(func() (err error) {
		c, err = net.ListenPacket(network, addr.String())
		return err
	})
	return c, err
}

// Dial is net.Dial in the host's namespace, within a minute.
func (h *Host) Dial(network string, addr netip.AddrPort) (c net.Conn, err error) {
	d := net.Dialer{Timeout: time.Minute}
	err = h.Do(func() (err error) {
		// To a literal address the dialer works on the calling goroutine.
		c, err = d.Dial(network, addr.String())
		return err
	})
	return c, err
}

// Sysctl sets a kernel parameter of the host's network stack, such as
// net.ipv4.tcp_congestion_control, and fails the test if it can't.
func (h *Host) Sysctl(name, value string) {
	h.t.Helper()
	err := h.Do(func() error {
		if !strings.HasPrefix(name, "net.") {
			return errors.New("only parameters under net. belong to a host")
		}
		return writeSysctl(name, value)
	})
	if err != nil {
		h.t.Errorf("netlab: sysctl %s=%s: %v", name, value, err)
	}
}
