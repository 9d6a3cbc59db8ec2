//go:build !linux

package netlab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"runtime"
	"testing"
	"time"
)

var errElsewhere = fmt.Errorf("network lab: not supported on %s: %w", runtime.GOOS, errors.ErrUnsupported)

// Require skips the test: labs need Linux.
func Require(t testing.TB) { t.Helper(); t.Skip(errElsewhere) }

// New skips the test, as Require does. So there never is a Lab here, and its
// methods exist for the compiler's sake.
func New(t testing.TB, _ Config) *Lab { t.Helper(); Require(t); return nil }

// Lab is documented with its Linux version, like all below.
type Lab struct {
	A, B  *Host
	Extra []*Host
}

func (*Lab) Close()                  {}
func (*Lab) LinkPID() int            { return 0 }
func (*Lab) Realtime() bool          { return false }
func (*Lab) PinLink(...int)          {}
func (*Lab) LinkCPU() time.Duration  { return 0 }
func (*Lab) Link(Direction) *Control { return nil }

type Control struct{}

func (*Control) Set(Link)                       {}
func (*Control) Drop(Rule)                      {}
func (*Control) DropNothing()                   {}
func (*Control) Pause(time.Duration, PauseMode) {}
func (*Control) Stats() Stats                   { return Stats{} }
func (*Control) ResetStats()                    {}

type Host struct {
	Addr4, Addr6 netip.Addr
	Device       string
}

func (*Host) Do(func() error) error { return errElsewhere }
func (*Host) Command(name string, args ...string) *exec.Cmd {
	return exec.Command(name, args...)
}
func (*Host) CommandContext(ctx context.Context, name string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, name, args...)
}
func (*Host) Rerun(testing.TB, string) *exec.Cmd                          { return nil }
func (*Host) Listen(string, netip.AddrPort) (net.Listener, error)         { return nil, errElsewhere }
func (*Host) ListenPacket(string, netip.AddrPort) (net.PacketConn, error) { return nil, errElsewhere }
func (*Host) Dial(string, netip.AddrPort) (net.Conn, error)               { return nil, errElsewhere }
func (*Host) AwaitListener(uint16, time.Duration) error                   { return errElsewhere }
func (*Host) Sysctl(string, string)                                       {}

// Pin and CPUs are for Linux only.
func Pin(int, ...int) error { return errElsewhere }
func CPUs() ([]int, error)  { return nil, errElsewhere }
