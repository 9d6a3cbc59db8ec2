package prober

import "fmt"

// Reason is why a probe failed. The list is closed: it is a label.
type Reason string

// Reasons of failure. docs/METRICS.md says what to do about each.
const (
	ReasonTargetDenied       Reason = "target_denied"       // not in allowed_targets
	ReasonResolve            Reason = "resolve"             // the name has no address
	ReasonTimeoutTooShort    Reason = "timeout_too_short"   // less than half of the test would fit; nothing was sent
	ReasonConnectRefused     Reason = "connect_refused"     // nobody listens there
	ReasonConnectTimeout     Reason = "connect_timeout"     // no answer to our SYN in time
	ReasonConnectUnreachable Reason = "connect_unreachable" // no route, or ICMP said so
	ReasonNoBounceback       Reason = "no_bounceback"       // an iperf 2 without it, an iperf 3, or something else that answered
	ReasonUnsupported        Reason = "unsupported"         // reply_size or congestion_control that the peer or this kernel lacks
	ReasonSilent             Reason = "silent"              // accepted, but no reply
	ReasonReset              Reason = "reset"               // before any reply
	ReasonClosedEarly        Reason = "closed_early"        // EOF before the test's end, or an RST after at least one reply
	ReasonBusy               Reason = "busy"                // the wait for this server's handshake slot used up the time
	ReasonBadReply           Reason = "bad_reply"           // not what iperf 2 answers
	ReasonLoadFailed         Reason = "load_failed"         // the load did not start, or broke
	ReasonLocalLimit         Reason = "local_limit"         // no socket, memory, port or option to be had on this host
	ReasonCancelled          Reason = "cancelled"           // whoever asked has gone, or the exporter stops
	ReasonTimeout            Reason = "timeout"             // some bounces came, then the deadline
	ReasonInternal           Reason = "internal"            // a bug of the exporter: the probe panicked
)

// Reasons is every reason, in a fixed order.
func Reasons() []Reason {
	return []Reason{
		ReasonTargetDenied, ReasonResolve, ReasonTimeoutTooShort,
		ReasonConnectRefused, ReasonConnectTimeout, ReasonConnectUnreachable,
		ReasonNoBounceback, ReasonUnsupported, ReasonSilent, ReasonReset,
		ReasonClosedEarly, ReasonBusy, ReasonBadReply, ReasonLoadFailed,
		ReasonLocalLimit, ReasonCancelled, ReasonTimeout, ReasonInternal,
	}
}

// Error is a failed probe: where, why, and what caused it. The cause is for
// people and never becomes a label.
type Error struct {
	Phase  Phase
	Reason Reason
	Cause  error
}

// Error is "phase: reason: cause". A phase that adds nothing to the reason is left
// out.
func (e *Error) Error() string {
	s := fmt.Sprintf("%s: %s", e.Phase, e.Reason)
	if e.Reason == ReasonResolve || e.Reason == ReasonTargetDenied {
		s = string(e.Reason)
	}
	if e.Cause == nil {
		return s
	}
	return fmt.Sprintf("%s: %v", s, e.Cause)
}

func (e *Error) Unwrap() error { return e.Cause }

// Timeout tells whether time ran out, as net.Error has it.
func (e *Error) Timeout() bool {
	switch e.Reason {
	case ReasonConnectTimeout, ReasonSilent, ReasonTimeout, ReasonBusy, ReasonTimeoutTooShort:
		return true
	}
	return false
}
