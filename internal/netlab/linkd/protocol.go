// Package linkd is the link of a lab: a process of its own that moves packets
// between the TUN devices of the lab's hosts, each direction on a thread of its own.
//
// It is the test binary, started once more with an environment variable that makes
// it end up here before any test runs. Apart from the test process, so that neither
// its garbage collector nor its busy goroutines disturb the link; and so that
// somebody is left to clean up when the test process is killed.
package linkd

import (
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/internal/netlab/shape"
)

const (
	// EnvLink, in the environment of a process that imports netlab, makes it a link.
	EnvLink = "NETLAB_LINK"
	// EnvOwner marks every process started for a lab with the test process it
	// belongs to; see Owner.
	EnvOwner = "NETLAB_OWNER"
	// EnvNamespace marks it with the namespace it is meant to run in, so that it is
	// found even before it got there; see NamespaceID.
	EnvNamespace = "NETLAB_NAMESPACE"
	// controlFD is the descriptor of the control socket. The link answers each
	// Request on it with one Reply, both JSON. Its end is the link's end.
	controlFD = 3
)

// Direction of travel. The A side has one host or more, the B side one.
type Direction int

const (
	AtoB Direction = iota
	BtoA
)

func (d Direction) String() string {
	if d == AtoB {
		return "A to B"
	}
	return "B to A"
}

// Setup is the first thing the link is told. Host 0 is B, all others are on the A
// side. Each host has two inherited descriptors: its TUN device and its namespace.
type Setup struct {
	Owner int // process id of the test process, which is never ended
	Hosts []HostSetup
	Links [2]shape.Link // by Direction
}

// HostSetup names a host's descriptors and addresses.
type HostSetup struct {
	TUN, Namespace int
	Addresses      []string
}

// Request is one order; exactly one field but Direction is set.
type Request struct {
	Direction  Direction
	Setup      *Setup      `json:",omitempty"`
	Set        *shape.Link `json:",omitempty"`
	Drop       *shape.Rule `json:",omitempty"`
	DropNone   bool        `json:",omitempty"`
	Pause      *Pause      `json:",omitempty"`
	Stats      bool        `json:",omitempty"`
	ResetStats bool        `json:",omitempty"`
	Usage      bool        `json:",omitempty"`
}

// Pause is a stop of one direction.
type Pause struct {
	For  time.Duration
	Mode shape.PauseMode
}

// Reply answers a Request.
type Reply struct {
	Error    string        `json:",omitempty"`
	Stats    *shape.Stats  `json:",omitempty"`
	CPU      time.Duration `json:",omitempty"` // user and system time of the link so far
	Realtime bool          `json:",omitempty"` // on Setup: the threads run at real-time priority
}
