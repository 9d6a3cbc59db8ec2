// Package netlab gives a test two or more hosts of its own, joined by a link with a
// known delay, jitter, rate, queue and loss in each direction. It is for tests only,
// and needs Linux, root and /dev/net/tun; Require skips a test elsewhere.
//
// Each host is a network namespace with an IPv4 and an IPv6 address, a loopback
// device that is up, and a TUN device of 1500 bytes without offloads, so that what
// travels are packets of real size. Between the devices sits the link: a process of
// its own that does in user space what the kernel's sch_netem and sch_tbf would do,
// because many kernels come without them. All hosts but B are on the A side and
// share both directions of the link; they can reach B but not each other.
//
//	lab := netlab.New(t, netlab.Config{
//		AtoB: netlab.Link{Delay: 5 * time.Millisecond},
//		BtoA: netlab.Link{Delay: 15 * time.Millisecond},
//	})
//	server := lab.B.Command("iperf", "-s")
//	...
//	conn, err := lab.A.Dial("tcp", netip.AddrPortFrom(lab.B.Addr4, 5001))
//	lab.Link(netlab.AtoB).Set(netlab.Link{Delay: time.Second})
//
// # What to rely on
//
// No packet is delivered before its time. It is late by some 0.1 ms on an idle
// virtual machine: three threads are woken on its way, one to read it, one to deliver
// it and the receiver. The link runs at real-time priority, so that other work on the
// machine hardly matters to it. Rate
// and queue are computed, not slept: lateness never adds up, and a stream has exactly
// its rate. Link.Stats tells how late the link itself was, for tests that want to
// throw away a run in which the machine was busy.
//
// Namespaces have no names: they live by open descriptors and processes only. When
// a test ends or dies, by whatever signal, the link process sees it, ends all
// processes in the lab's namespaces, and everything is gone. What a link that was
// killed itself leaves behind is ended by the next New.
//
// In a namespace is not the process but the thread, see Host.Do. Code that opens
// sockets on goroutines of its own can't be put there; Host.Rerun runs it in a
// process of which every thread is in the namespace.
package netlab

import (
	"os"

	"github.com/bounceback-exporter/bounceback_exporter/internal/netlab/linkd"
	"github.com/bounceback-exporter/bounceback_exporter/internal/netlab/shape"
)

// The vocabulary of the link; package shape documents each.
type (
	Link      = shape.Link      // settings of one direction
	Stats     = shape.Stats     // counters of one direction
	Match     = shape.Match     // which packets
	Rule      = shape.Rule      // which packets are dropped
	PauseMode = shape.PauseMode // Hold or Discard
	Direction = linkd.Direction // AtoB or BtoA
)

const (
	AtoB = linkd.AtoB
	BtoA = linkd.BtoA

	Hold    = shape.Hold
	Discard = shape.Discard
)

// FirstSYN is the rule that drops the first TCP SYN without ACK.
func FirstSYN() Rule { return shape.FirstSYN() }

// Config of a lab. The zero value joins two hosts as directly as can be.
type Config struct {
	AtoB, BtoA Link
	// Extra is the number of further hosts on the A side, 0 to 100: Lab.Extra.
	Extra int
}

const maxExtra = 100

// envRole names the part a process started by Host.Rerun plays.
const envRole = "NETLAB_ROLE"

// Role is what Host.Rerun was given, in the process it started; "" elsewhere.
func Role() string { return os.Getenv(envRole) }
