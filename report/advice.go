package report

import "github.com/bounceback-exporter/bounceback_exporter/prober"

// Advice says in one or two sentences each what a reason of failure means and what
// to do next. It is empty for a reason that is not in prober.Reasons.
func Advice(reason prober.Reason) (meaning, next string) {
	switch reason {
	case prober.ReasonTargetDenied:
		return "The address is not among those that this exporter may probe; nothing was sent.",
			"Add its network and port to allowed_targets, or probe another target. The list also binds probes by hand that take that configuration."
	case prober.ReasonResolve:
		return "The name has no address of the wanted family; nothing was sent.",
			"Check the spelling and the resolver of this host. If the name has addresses of one family only, look at the module's " +
				"preferred_ip_protocol, source_address and ip_protocol_fallback."
	case prober.ReasonTimeoutTooShort:
		return "Less than half of the test fits into the time that was given; nothing was sent.",
			"Shorten the module's duration, or raise its timeout and the scrape_timeout. If most of the time went into waiting, " +
				"let fewer probes of this server run at once, or raise limits."
	case prober.ReasonConnectRefused:
		return "The host is there, but nothing listens on that port.",
			"Start the server (iperf -s), and check the port and the address it is bound to: " +
				"without -V an iperf server takes IPv4 only."
	case prober.ReasonConnectTimeout:
		return "Nobody answered the attempt to connect.",
			"Look for a firewall that drops, a wrong address, or a server with -1 whose backlog is full."
	case prober.ReasonConnectUnreachable:
		return "There is no way to that address from here.",
			"Check routes, the module's source_address and interface, and whether this host has that address family at all."
	case prober.ReasonNoBounceback:
		return "Something answered, but it can't bounce: an iperf 2 older than 2.1.7, an iperf 3, or another service.",
			"Run iperf 2.1.7 or newer at the far end, better 2.1.9. iperf 3 has no bounceback and speaks another protocol."
	case prober.ReasonUnsupported:
		return "The module asks for something that the server or this kernel lacks.",
			"The cause says which: take that setting out of the module or change it, or upgrade what lacks it."
	case prober.ReasonSilent:
		return "The connection was accepted, but no reply came.",
			"The server may be busy with a silent connection of somebody else's, serve one client at a time (-1), " +
				"or be no iperf 2. Look for a bare TCP health check that points at it, and restart the server if it stays mute."
	case prober.ReasonReset:
		return "The connection was reset before any reply.",
			"iperf 2.2.0 and newer do so if they were started with -l below the request or the reply; " +
				"a firewall or a proxy in between may do it too."
	case prober.ReasonClosedEarly:
		return "The server ended the connection before the test was over.",
			"It may have been started with -t, have been stopped, or, as 2.1.7 does, end every test after 10 s. " +
				"A reset on any other connection ends all tests of an iperf 2 server."
	case prober.ReasonBusy:
		return "Other probes of this process were opening connections to the same server until the time was up.",
			"Probe this server less often, or give the probe more time."
	case prober.ReasonBadReply:
		return "What came back is not the reply of an iperf 2 server.",
			"Check what listens there, and whether a proxy rewrites the stream. --raw and debug=true show how far it got."
	case prober.ReasonLoadFailed:
		return "The load did not start, or it broke.",
			"A server with -1 never serves a load beside the bounces. A permit key on the server's side shuts loads out."
	case prober.ReasonLocalLimit:
		return "This host has no socket, memory, port or socket option left to give; the server is not to blame.",
			"Check the limit on open files, the range of local ports, and the privileges that interface needs."
	case prober.ReasonCancelled:
		return "Whoever asked for the probe went away, or the exporter was stopped.",
			"Nothing is wrong with the server. A scraper that goes away has a scrape_timeout that is too small."
	case prober.ReasonTimeout:
		return "Some bounces came back, then the time was up.",
			"The server or the path stalled, or the test needs more time than the probe has: " +
				"compare the phases with the timeout."
	case prober.ReasonInternal:
		return "This is a bug of the exporter: the probe panicked.",
			"Please report it together with the log of the process."
	}
	return "", ""
}
