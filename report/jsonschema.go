package report

// document is the whole of what JSON writes. A pointer or an omitted key is
// something that may not have been measured.
type document struct {
	SchemaVersion int          `json:"schema_version"`
	Success       bool         `json:"success"`
	Failure       *failureJSON `json:"failure,omitempty"`
	header
	AddressesHidden bool              `json:"addresses_hidden,omitempty"`
	ElapsedSeconds  decimal           `json:"elapsed_seconds"`
	TimeoutSeconds  *decimal          `json:"timeout_seconds,omitempty"`
	Phases          phasesJSON        `json:"phases"`
	Peer            *peerJSON         `json:"peer,omitempty"`
	Connect         *connectJSON      `json:"connect,omitempty"`
	FirstBounce     *firstJSON        `json:"first_bounce,omitempty"`
	Windows         []windowJSON      `json:"windows"`
	TCPMinRTT       *decimal          `json:"tcp_min_rtt_seconds,omitempty"`
	OneWayDelays    *oneWayDelaysJSON `json:"one_way_delays,omitempty"`
	Clock           *clockJSON        `json:"clock,omitempty"`
	Load            *loadJSON         `json:"load,omitempty"`
	Log             []logJSON         `json:"log,omitempty"`
}

// header says what was probed, from where, when and how.
type header struct {
	StartTime    string        `json:"start_time,omitempty"` // RFC 3339, UTC
	TargetHost   string        `json:"target_host,omitempty"`
	Address      string        `json:"address,omitempty"`
	Port         uint16        `json:"port,omitempty"`
	LocalAddress string        `json:"local_address,omitempty"`
	LocalPort    uint16        `json:"local_port,omitempty"`
	Module       string        `json:"module,omitempty"`
	Settings     *settingsJSON `json:"settings,omitempty"`
}

type settingsJSON struct {
	RequestBytes      int          `json:"request_bytes"`
	ReplyBytes        int          `json:"reply_bytes"`
	HoldSeconds       decimal      `json:"hold_seconds"`
	PeriodSeconds     decimal      `json:"period_seconds"` // 0: back to back
	Burst             int          `json:"burst"`
	DurationSeconds   *decimal     `json:"duration_seconds,omitempty"`
	Count             int          `json:"count,omitempty"`
	QuickAck          bool         `json:"quickack"`
	TripTimes         bool         `json:"trip_times"`
	DSCP              int          `json:"dscp"`
	CongestionControl string       `json:"congestion_control,omitempty"`
	Congest           *congestJSON `json:"congest,omitempty"`
}

type congestJSON struct {
	Direction         string  `json:"direction"`
	Streams           int     `json:"streams"`
	BaselineSeconds   decimal `json:"baseline_seconds"`
	WarmupSeconds     decimal `json:"warmup_seconds"`
	DSCP              int     `json:"dscp"`
	CongestionControl string  `json:"congestion_control,omitempty"`
}

type failureJSON struct {
	Phase  string `json:"phase"`
	Reason string `json:"reason"`
	Cause  string `json:"cause,omitempty"`
	Advice string `json:"advice"`
}

// phasesJSON has those that were reached.
type phasesJSON struct {
	ResolveSeconds   *decimal `json:"resolve_seconds,omitempty"`
	WaitSeconds      *decimal `json:"wait_seconds,omitempty"`
	ConnectSeconds   *decimal `json:"connect_seconds,omitempty"`
	HandshakeSeconds *decimal `json:"handshake_seconds,omitempty"`
	BounceSeconds    *decimal `json:"bounce_seconds,omitempty"`
}

type peerJSON struct {
	Kind    string `json:"kind,omitempty"`
	Version string `json:"version,omitempty"`
	Layout  string `json:"layout,omitempty"`
}

type connectJSON struct {
	DurationSeconds decimal  `json:"duration_seconds"`
	TCP             *tcpJSON `json:"tcp,omitempty"`
}

type tcpJSON struct {
	RTTSeconds    *decimal `json:"rtt_seconds,omitempty"`
	RTTVarSeconds *decimal `json:"rttvar_seconds,omitempty"`
	CwndSegments  *uint32  `json:"congestion_window_segments,omitempty"`
	MSSBytes      *uint32  `json:"mss_bytes,omitempty"`
	Retransmits   *uint32  `json:"total_retransmits,omitempty"`
}

type firstJSON struct {
	RTTSeconds         decimal `json:"rtt_seconds"`
	ServerDwellSeconds decimal `json:"server_dwell_seconds"`
}

type windowJSON struct {
	Load                    string    `json:"load"`
	StartSeconds            decimal   `json:"start_seconds"` // since start_time
	EndSeconds              decimal   `json:"end_seconds"`
	Requests                int       `json:"requests"`
	Replies                 int       `json:"replies"`
	SkippedTicks            *int      `json:"skipped_ticks,omitempty"`
	ScheduleLatenessSeconds *decimal  `json:"schedule_lateness_seconds,omitempty"`
	BouncesPerSecond        *float64  `json:"bounces_per_second,omitempty"`
	RTT                     *distJSON `json:"rtt,omitempty"`
	NetworkRTT              *distJSON `json:"network_rtt,omitempty"`
	NetworkRTTDiscarded     int       `json:"network_rtt_discarded"`
	ServerDwell             *distJSON `json:"server_dwell,omitempty"`
	HoldHonored             *bool     `json:"hold_honored,omitempty"`
	ReceiveLateness         *distJSON `json:"receive_lateness,omitempty"`
	OWDToServer             *distJSON `json:"owd_to_server,omitempty"`
	OWDFromServer           *distJSON `json:"owd_from_server,omitempty"`
	Asymmetry               *distJSON `json:"asymmetry,omitempty"`
	AbsoluteAsymmetry       *decimal  `json:"absolute_asymmetry_mean_seconds,omitempty"`
	TCP                     *tcpJSON  `json:"tcp,omitempty"`
	TCPRetransmits          *uint32   `json:"tcp_retransmits,omitempty"`
	Histogram               *binsJSON `json:"rtt_histogram_100us,omitempty"`
	Rows                    []rowJSON `json:"rows,omitempty"`
}

type distJSON struct {
	Count         int      `json:"count"`
	SumSeconds    decimal  `json:"sum_seconds"`
	MeanSeconds   decimal  `json:"mean_seconds"`
	MinSeconds    decimal  `json:"min_seconds"`
	MaxSeconds    decimal  `json:"max_seconds"`
	StdDevSeconds *decimal `json:"stddev_seconds,omitempty"`
	P50Seconds    *decimal `json:"p50_seconds,omitempty"`
	P90Seconds    *decimal `json:"p90_seconds,omitempty"`
	P99Seconds    *decimal `json:"p99_seconds,omitempty"`
	P999Seconds   *decimal `json:"p99_9_seconds,omitempty"`
}

// binsJSON is iperf 2's histogram.
type binsJSON struct {
	BinWidthSeconds decimal   `json:"bin_width_seconds"`
	Count           int       `json:"count"`
	Bins            []binJSON `json:"bins"`
	P5Bin           int       `json:"p5_bin"`
	P95Bin          int       `json:"p95_bin"`
	P997Bin         int       `json:"p99_7_bin"`
	Outliers        int       `json:"outliers"`
	Below           int       `json:"below_lowest_bin"`
	Above           int       `json:"above_highest_bin"`
}

type binJSON struct {
	Number int `json:"bin"` // covers [(bin-1)*100, bin*100) us
	Count  int `json:"count"`
}

type rowJSON struct {
	EndSeconds      decimal  `json:"end_seconds"`
	DurationSeconds decimal  `json:"duration_seconds"`
	Replies         int      `json:"replies"`
	RTTMeanSeconds  *decimal `json:"rtt_mean_seconds,omitempty"`
	RTTMaxSeconds   *decimal `json:"rtt_max_seconds,omitempty"`
	TCP             *tcpJSON `json:"tcp,omitempty"`
	LoadBytesTo     *int64   `json:"load_to_server_bytes,omitempty"`
	LoadBytesFrom   *int64   `json:"load_from_server_bytes,omitempty"`
}

type oneWayDelaysJSON struct {
	Valid    bool   `json:"valid"`
	Withheld string `json:"withheld_because,omitempty"`
}

type clockJSON struct {
	CheckOK               bool     `json:"check_ok"`
	CheckFailures         int      `json:"check_failures"`
	OffsetLowerSeconds    decimal  `json:"offset_lower_bound_seconds"`
	OffsetUpperSeconds    decimal  `json:"offset_upper_bound_seconds"`
	StepSeconds           *decimal `json:"step_seconds,omitempty"`
	Synchronized          *bool    `json:"synchronized,omitempty"`
	MaxErrorSeconds       *decimal `json:"max_error_seconds,omitempty"`
	EstimatedErrorSeconds *decimal `json:"estimated_error_seconds,omitempty"`
}

type loadJSON struct {
	Direction         string   `json:"direction"`
	Streams           int      `json:"streams"`
	Started           bool     `json:"started"`
	DurationSeconds   decimal  `json:"duration_seconds"`
	ToServerBytes     *uint64  `json:"to_server_bytes,omitempty"`
	FromServerBytes   *uint64  `json:"from_server_bytes,omitempty"`
	TCPRTTMeanSeconds *decimal `json:"tcp_rtt_mean_seconds,omitempty"`
	TCPRTTMaxSeconds  *decimal `json:"tcp_rtt_max_seconds,omitempty"`
	TCPRetransmits    *uint64  `json:"tcp_retransmits,omitempty"`
}

type logJSON struct {
	AtSeconds decimal `json:"at_seconds"`
	Message   string  `json:"message"`
}
