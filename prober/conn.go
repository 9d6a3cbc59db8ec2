package prober

import (
	"errors"
	"net/netip"

	"github.com/bounceback-exporter/bounceback_exporter/config"
)

// How a wait on a connection can end without the peer's doing. They are values so
// that the loop allocates nothing.
var (
	errCancelled = errors.New("cancelled")
	errDeadline  = errors.New("deadline exceeded")
	errUnasked   = errors.New("the peer sent bytes that nobody had asked for")
)

// localError is a failure of this host, before anything was sent: the socket or
// one of its options was not to be had.
type localError struct {
	op  string
	err error
}

func (e *localError) Error() string { return e.op + ": " + e.err.Error() }
func (e *localError) Unwrap() error { return e.err }

// unsupportedError: this kernel lacks what the module asks for.
type unsupportedError struct{ localError }

// dialOptions are what the socket is to be like.
type dialOptions struct {
	addr              netip.AddrPort
	source            netip.Addr
	device            string
	tos               uint8
	congestionControl string
	notSentLowat      int  // bytes; 0: the kernel's
	stamps            bool // kernel receive stamps
}

func bounceDial(addr netip.AddrPort, m *config.Module) dialOptions {
	return dialOptions{
		addr: addr, source: m.SourceAddress, device: m.Interface, tos: m.TOS(),
		congestionControl: m.CongestionControl, stamps: true,
	}
}
