package collector

import dto "github.com/prometheus/client_model/go"

// This file is the whole vocabulary: every metric name and every help text that
// this program exposes, on /probe and on /metrics. docs/METRICS.md explains them.

// family numbers the families of a probe, in the order of their names: that is the
// order in which a gatherer has to give them.
type family int

// The families of a probe.
const (
	famAsymmetry family = iota
	famClockCheckFailures
	famClockCheckOK
	famClockEstimatedError
	famClockMaxError
	famClockOffsetLower
	famClockOffsetUpper
	famClockStep
	famClockSynchronized
	famFirstRTT
	famHoldHonored
	famHold
	famLoadBytes
	famLoadDuration
	famLoadStreams
	famLoadTCPRetransmits
	famLoadTCPRTT
	famNetworkRTTDiscarded
	famNetworkRTTMax
	famNetworkRTTMin
	famNetworkRTT
	famOWDMax
	famOWDMin
	famOWD
	famPeriod
	famPhaseDuration
	famReceiveLatenessP99
	famReceiveLateness
	famReplies
	famReplyBytes
	famRequestBytes
	famRequests
	famResultAge
	famRTTMax
	famRTTMin
	famRTT
	famScheduleLateness
	famServerDwellMax
	famServerDwell
	famServerInfo
	famSkippedTicks
	famTCPCongestionWindow
	famTCPConnect
	famTCPInitialCongestionWindow
	famTCPInitialRTT
	famTCPMinRTT
	famTCPMSS
	famTCPRetransmits
	famTCPRTT
	famTCPRTTVar
	famTCPSYNRetransmits
	famDNSLookupTime
	famDuration
	famFailureReason
	famIPAddrHash
	famIPProtocol
	famSuccess
	famTimeout
	numFamilies
)

// Units of families. A name ends in its family's unit, if it has one.
const (
	noUnit   = ""
	seconds  = "seconds"
	bytes    = "bytes"
	segments = "segments"
)

// Types of families. A probe is a complete new population, not more of an old one,
// so that its distributions are gauge histograms.
const (
	gauge     = dto.MetricType_GAUGE
	histogram = dto.MetricType_GAUGE_HISTOGRAM
)

// desc is what is always the same about a family.
type desc struct {
	name, unit string
	typ        dto.MetricType
	help       string
}

// vocabulary describes every family of a probe.
func vocabulary() *[numFamilies]desc {
	return &[numFamilies]desc{
		famAsymmetry: {"probe_bounceback_asymmetry_seconds", seconds, histogram,
			"One-way delay from the server minus the one to it, of each bounce of this probe; signed."},
		famClockCheckFailures: {"probe_bounceback_clock_check_failures", noUnit, gauge,
			"Bounces of this probe whose four time stamps are not in causal order."},
		famClockCheckOK: {"probe_bounceback_clock_check_ok", noUnit, gauge,
			"Whether both clocks agree as far as this probe can tell: 1 is needed for one-way delays, and is no proof."},
		famClockEstimatedError: {"probe_bounceback_clock_estimated_error_seconds", seconds, gauge,
			"Error of this host's clock as its kernel estimates it."},
		famClockMaxError: {"probe_bounceback_clock_max_error_seconds", seconds, gauge,
			"Largest error of this host's clock as its kernel knows it."},
		famClockOffsetLower: {"probe_bounceback_clock_offset_lower_bound_seconds", seconds, gauge,
			"The server's clock minus this host's is at least this, whatever the path."},
		famClockOffsetUpper: {"probe_bounceback_clock_offset_upper_bound_seconds", seconds, gauge,
			"The server's clock minus this host's is at most this, whatever the path."},
		famClockStep: {"probe_bounceback_clock_step_seconds", seconds, gauge,
			"How far this host's wall clock moved against its monotonic clock during this probe."},
		famClockSynchronized: {"probe_bounceback_clock_synchronized", noUnit, gauge,
			"Whether this host's kernel takes its clock for synchronized."},
		famFirstRTT: {"probe_bounceback_first_rtt_seconds", seconds, gauge,
			"Round trip of the first bounce, which starts a thread in the server and is in no other figure."},
		famHoldHonored: {"probe_bounceback_hold_honored", noUnit, gauge,
			"Whether the median dwell in the server reached the hold that was asked for."},
		famHold: {"probe_bounceback_hold_seconds", seconds, gauge,
			"How long the server was asked to wait between its read and its write."},
		famLoadBytes: {"probe_bounceback_load_bytes", bytes, gauge,
			"Bytes that the load moved in the measured window: acknowledged by the server, or received from it."},
		famLoadDuration: {"probe_bounceback_load_duration_seconds", seconds, gauge,
			"Length of the measured window under load."},
		famLoadStreams: {"probe_bounceback_load_streams", noUnit, gauge,
			"TCP streams of the load."},
		famLoadTCPRetransmits: {"probe_bounceback_load_tcp_retransmits", noUnit, gauge,
			"Segments that the load's senders on this host sent again in the measured window, over all streams."},
		famLoadTCPRTT: {"probe_bounceback_load_tcp_rtt_seconds", seconds, gauge,
			"Smoothed round trip of the load's senders on this host, mean and maximum over the streams."},
		famNetworkRTTDiscarded: {"probe_bounceback_network_rtt_discarded", noUnit, gauge,
			"Bounces of this probe whose server dwell or wake-up can't be right, so that they have no network round trip."},
		famNetworkRTTMax: {"probe_bounceback_network_rtt_max_seconds", seconds, gauge,
			"Longest network round trip of this probe."},
		famNetworkRTTMin: {"probe_bounceback_network_rtt_min_seconds", seconds, gauge,
			"Shortest network round trip of this probe."},
		famNetworkRTT: {"probe_bounceback_network_rtt_seconds", seconds, histogram,
			"Round trips of this probe less the server's dwell and, where the kernel tells it, less this host's wake-up."},
		famOWDMax: {"probe_bounceback_owd_max_seconds", seconds, gauge,
			"Longest one-way delay of this probe."},
		famOWDMin: {"probe_bounceback_owd_min_seconds", seconds, gauge,
			"Shortest one-way delay of this probe."},
		famOWD: {"probe_bounceback_owd_seconds", seconds, histogram,
			"One-way delays of this probe, as far as both clocks agree."},
		famPeriod: {"probe_bounceback_period_seconds", seconds, gauge,
			"Time between bursts of bounces; 0 is back to back."},
		famPhaseDuration: {"probe_bounceback_phase_duration_seconds", seconds, gauge,
			"How long each phase of this probe took, of those that were reached."},
		famReceiveLatenessP99: {"probe_bounceback_receive_lateness_p99_seconds", seconds, gauge,
			"99th percentile of the time from a reply's arrival in this host's kernel to its being read."},
		famReceiveLateness: {"probe_bounceback_receive_lateness_seconds", seconds, gauge,
			"Longest time from a reply's arrival in this host's kernel to its being read."},
		famReplies: {"probe_bounceback_replies", noUnit, gauge,
			"Replies of this probe; the first bounce and those of a warm-up are not counted."},
		famReplyBytes: {"probe_bounceback_reply_bytes", bytes, gauge,
			"Size of a reply."},
		famRequestBytes: {"probe_bounceback_request_bytes", bytes, gauge,
			"Size of a request."},
		famRequests: {"probe_bounceback_requests", noUnit, gauge,
			"Requests of this probe; the first bounce and those of a warm-up are not counted."},
		famResultAge: {"probe_bounceback_result_age_seconds", seconds, gauge,
			"Age of this result: 0 was measured by this request, more is the last result of a load given again."},
		famRTTMax: {"probe_bounceback_rtt_max_seconds", seconds, gauge,
			"Longest application round trip of this probe."},
		famRTTMin: {"probe_bounceback_rtt_min_seconds", seconds, gauge,
			"Shortest application round trip of this probe."},
		famRTT: {"probe_bounceback_rtt_seconds", seconds, histogram,
			"Application round trips of this probe: from before the write to after the read, hold and server included."},
		famScheduleLateness: {"probe_bounceback_schedule_lateness_seconds", seconds, gauge,
			"Longest delay of a scheduled write of this probe behind its time."},
		famServerDwellMax: {"probe_bounceback_server_dwell_max_seconds", seconds, gauge,
			"Longest time of a message inside the server."},
		famServerDwell: {"probe_bounceback_server_dwell_seconds", seconds, gauge,
			"Mean time of a message inside the server, from its read to its write."},
		famServerInfo: {"probe_bounceback_server_info", noUnit, gauge,
			"Version of the iperf 2 server, where it tells one; always 1."},
		famSkippedTicks: {"probe_bounceback_skipped_ticks", noUnit, gauge,
			"Scheduled bursts of this probe that were left out because the one before was still under way."},
		famTCPCongestionWindow: {"probe_bounceback_tcp_congestion_window_segments", segments, gauge,
			"Congestion window of the bounce connection at the end of its window."},
		famTCPConnect: {"probe_bounceback_tcp_connect_seconds", seconds, gauge,
			"How long the TCP connect of the bounce connection took."},
		famTCPInitialCongestionWindow: {"probe_bounceback_tcp_initial_congestion_window_segments", segments, gauge,
			"Congestion window right after the connect."},
		famTCPInitialRTT: {"probe_bounceback_tcp_initial_rtt_seconds", seconds, gauge,
			"TCP's smoothed round trip right after the connect."},
		famTCPMinRTT: {"probe_bounceback_tcp_min_rtt_seconds", seconds, gauge,
			"TCP's shortest round trip of the whole bounce connection."},
		famTCPMSS: {"probe_bounceback_tcp_mss_bytes", bytes, gauge,
			"Largest segment that the bounce connection sends."},
		famTCPRetransmits: {"probe_bounceback_tcp_retransmits", noUnit, gauge,
			"Segments that the bounce connection sent again in its window."},
		famTCPRTT: {"probe_bounceback_tcp_rtt_seconds", seconds, gauge,
			"TCP's smoothed round trip at the end of the window."},
		famTCPRTTVar: {"probe_bounceback_tcp_rttvar_seconds", seconds, gauge,
			"TCP's mean deviation of its round trip at the end of the window."},
		famTCPSYNRetransmits: {"probe_bounceback_tcp_syn_retransmits", noUnit, gauge,
			"SYN segments that had to be sent again."},
		famDNSLookupTime: {"probe_dns_lookup_time_seconds", seconds, gauge,
			"How long it took to resolve the target."},
		famDuration: {"probe_duration_seconds", seconds, gauge,
			"How long this request took until its answer."},
		famFailureReason: {"probe_failure_reason", noUnit, gauge,
			"Why the probe failed: 1 for the reason, 0 for all others, and for all of them on success."},
		famIPAddrHash: {"probe_ip_addr_hash", noUnit, gauge,
			"Hash (FNV-1a, 32 bits) of the address that was probed: it changes when the address does."},
		famIPProtocol: {"probe_ip_protocol", noUnit, gauge,
			"4 or 6: the IP version of the address that was probed."},
		famSuccess: {"probe_success", noUnit, gauge,
			"Whether the probe succeeded: a bounce after the first came back, and nothing broke before the end."},
		famTimeout: {"probe_timeout_seconds", seconds, gauge,
			"Time that this request had for its answer."},
	}
}

// Labels of a probe's families.
const (
	labelDirection = "direction"
	labelLoad      = "load"
	labelPhase     = "phase"
	labelReason    = "reason"
	labelStat      = "stat"
	labelVersion   = "version"
)

// Values of the labels direction and stat.
const (
	toServer   = "to_server"
	fromServer = "from_server"
	statMean   = "mean"
	statMax    = "max"
)

// The exporter's own metrics. bounceback_exporter_build_info comes from
// client_golang's version collector, which appends _build_info to the program.
const (
	program = "bounceback_exporter"

	selfReloadOK      = "bounceback_exporter_config_last_reload_successful"
	selfReloadTime    = "bounceback_exporter_config_last_reload_success_timestamp_seconds"
	selfProbes        = "bounceback_exporter_probes_total"
	selfFailures      = "bounceback_exporter_probe_failures_total"
	selfDuration      = "bounceback_exporter_probe_duration_seconds"
	selfInFlight      = "bounceback_exporter_probes_in_flight"
	selfWaiting       = "bounceback_exporter_probes_waiting"
	selfRejected      = "bounceback_exporter_probes_rejected_total"
	selfDrains        = "bounceback_exporter_drains_in_flight"
	selfDrainsDropped = "bounceback_exporter_drains_abandoned_total"

	helpReloadOK      = "Whether the last attempt to load the configuration succeeded."
	helpReloadTime    = "When the configuration was last loaded successfully, in seconds since 1970."
	helpProbes        = "Probes that were run, by module; a result that was given again is not counted."
	helpFailures      = "Probes that failed, by module and reason."
	helpDuration      = "How long probes took, by module."
	helpInFlight      = "Probes that are running now."
	helpWaiting       = "Requests that wait for a limit, or for a load at their address, now."
	helpRejected      = "Requests that were answered with 503, by the limit that they waited for in vain."
	helpDrains        = "Connections that are being ended in the background now."
	helpDrainsDropped = "Connections that were closed in the background without having seen the server's end."
)

// Labels of the exporter's own metrics.
const (
	labelModule = "module"
	labelCause  = "cause"
)

// Causes of a rejected request: the limits of the configuration, and load, which
// is somebody else's load at the same address.
const (
	CauseProcess    = "process"
	CauseBackToBack = "back_to_back"
	CauseTarget     = "target"
	CauseWaiting    = "waiting"
	CauseDrains     = "drains"
	CauseLoad       = "load"
)

// Causes is every cause, in a fixed order.
func Causes() []string {
	return []string{CauseProcess, CauseBackToBack, CauseTarget, CauseWaiting, CauseDrains, CauseLoad}
}
