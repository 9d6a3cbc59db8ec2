package netlab

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/internal/netlab/linkd"
	"golang.org/x/sys/unix"
)

// The link is this test binary, started again.
func init() { linkd.RunIfAsked() }

// Lab is a set of hosts and the link between them.
type Lab struct {
	A, B  *Host
	Extra []*Host // further hosts on the A side

	t     testing.TB
	link  *linkProcess
	close sync.Once
}

// New builds a lab and takes it down when the test ends. It fails the test if it
// can't; call Require before it where the test should be skipped instead. Labs of
// one process or of several may exist at the same time.
func New(t testing.TB, c Config) *Lab {
	t.Helper()
	l := &Lab{t: t}
	t.Cleanup(l.Close)
	if err := l.build(c); err != nil {
		t.Fatalf("netlab: %v", err)
	}
	return l
}

func (l *Lab) build(c Config) error {
	if c.Extra < 0 || c.Extra > maxExtra {
		return fmt.Errorf("%d extra hosts, must be 0 to %d", c.Extra, maxExtra)
	}
	if err := linkd.Sweep(); err != nil {
		return fmt.Errorf("sweeping leftovers: %w", err)
	}
	owner, err := linkd.Owner(os.Getpid())
	if err != nil {
		return err
	}
	// B is host 0 for the link; addresses end in 2 for it, 1 for A, 3 and up for more.
	ends := []int{2, 1}
	for i := range c.Extra {
		ends = append(ends, 3+i)
	}
	var hosts []*Host
	var tuns []*os.File
	defer func() {
		for _, f := range tuns {
			f.Close() // the link has its own
		}
	}()
	for _, end := range ends {
		h, tun, err := newHost(l.t, end, owner)
		if err != nil {
			for _, h := range hosts {
				h.ns.Close()
			}
			return fmt.Errorf("host %d: %w", end, err)
		}
		hosts, tuns = append(hosts, h), append(tuns, tun)
	}
	l.B, l.A, l.Extra = hosts[0], hosts[1], hosts[2:]
	l.link, err = startLink(owner, hosts, tuns, c)
	return err
}

// Close takes the lab down, processes in it included; New has arranged for it.
func (l *Lab) Close() {
	l.close.Do(func() {
		if l.B == nil {
			return // never built
		}
		if err := l.takeDown(); err != nil {
			l.t.Errorf("netlab: %v", err)
		}
	})
}

func (l *Lab) takeDown() error {
	hosts := append([]*Host{l.B, l.A}, l.Extra...)
	// First shut the doors: a Command that has been started but is not in its namespace
	// yet must either be found there or not get there any more.
	var held []int
	defer func() {
		for _, fd := range held {
			unix.Close(fd)
		}
	}()
	for _, h := range hosts {
		fd, err := unix.FcntlInt(h.ns.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("namespace of %v: %w", h.Addr4, err)
		}
		held = append(held, fd)
	}
	for _, h := range hosts {
		h.ns.Close()
	}
	if l.link == nil {
		return nil
	}
	err := l.link.stop()
	if err != nil { // then it can't have cleaned up
		err = errors.Join(err, linkd.KillIn(os.Getpid(), held...))
	}
	return err
}

// LinkPID is the process id of the link.
func (l *Lab) LinkPID() int { return l.link.cmd.Process.Pid }

// Realtime tells whether the link runs at real-time priority, as it does unless
// the environment forbids it; without, a busy machine makes it late.
func (l *Lab) Realtime() bool { return l.link.realtime }

// PinLink binds the link to the given CPUs.
func (l *Lab) PinLink(cpus ...int) {
	l.t.Helper()
	if err := Pin(l.LinkPID(), cpus...); err != nil {
		l.t.Errorf("netlab: pinning the link: %v", err)
	}
}

// LinkCPU is the user and system time that the link process has used so far.
func (l *Lab) LinkCPU() time.Duration {
	l.t.Helper()
	r, err := l.link.call(linkd.Request{Usage: true})
	if err != nil {
		l.t.Errorf("netlab: %v", err)
	}
	return r.CPU
}

// Link is the handle of one direction.
func (l *Lab) Link(d Direction) *Control { return &Control{l, d} }

// Control changes and observes one direction of a running link. Its methods take
// effect before they return and may be called from any goroutine; what goes wrong
// marks the test as failed.
type Control struct {
	lab *Lab
	dir Direction
}

// Set changes all settings from now on. Packets in the delay stage keep their
// instant of delivery, and unless Link.Reorder is set later ones don't overtake them.
func (c *Control) Set(s Link) { c.lab.t.Helper(); c.call(linkd.Request{Set: &s}) }

// Drop adds a rule that drops chosen packets, before those that were added later.
func (c *Control) Drop(r Rule) { c.lab.t.Helper(); c.call(linkd.Request{Drop: &r}) }

// DropNothing removes all rules.
func (c *Control) DropNothing() { c.lab.t.Helper(); c.call(linkd.Request{DropNone: true}) }

// Pause stops this direction for d from now on: nothing is delivered, and what
// would be is held back until the end or discarded. It replaces a pause in force;
// d = 0 ends it. Packets go on through the stages before: those that are not yet due
// when the pause ends are not concerned.
func (c *Control) Pause(d time.Duration, mode PauseMode) {
	c.lab.t.Helper()
	c.call(linkd.Request{Pause: &linkd.Pause{For: d, Mode: mode}})
}

// Stats returns the counters since the start or the last ResetStats.
func (c *Control) Stats() Stats {
	c.lab.t.Helper()
	r := c.call(linkd.Request{Stats: true})
	if r.Stats == nil {
		return Stats{}
	}
	return *r.Stats
}

// ResetStats sets the counters to zero.
func (c *Control) ResetStats() { c.lab.t.Helper(); c.call(linkd.Request{ResetStats: true}) }

func (c *Control) call(q linkd.Request) linkd.Reply {
	c.lab.t.Helper()
	q.Direction = c.dir
	r, err := c.lab.link.call(q)
	if err != nil {
		c.lab.t.Errorf("netlab: link %v: %v", c.dir, err)
	}
	return r
}

// address4 and address6 are the addresses of the host with the given last number:
// from the range for benchmarks (RFC 2544) and a unique local prefix (RFC 4193).
func address4(end int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, 0, byte(end)}), 24)
}

func address6(end int) netip.Prefix {
	a := [16]byte{0xfd, 'n', 'e', 't', 'l', 'a', 0, 'b', 15: byte(end)}
	return netip.PrefixFrom(netip.AddrFrom16(a), 64)
}
