package collector

import (
	"hash/fnv"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/bounceback-exporter/bounceback_exporter/prober"
)

// Extra is what belongs to a request rather than to the probe whose result it
// gets, since the result of a load may be given again.
type Extra struct {
	// Duration of the request until its answer; 0 means the result's own.
	Duration time.Duration
	// Timeout of the request; 0 means the result's own.
	Timeout time.Duration
	// ResultAge is the time since the end of the test that the result is of; 0 if
	// this request measured it.
	ResultAge time.Duration
}

// Gatherer makes a gatherer of one probe, to be served by promhttp with plain
// options. (With EnableOpenMetrics a gauge histogram's _gcount and _gsum would
// come out misnamed.)
func Gatherer(r *prober.Result, x Extra) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		return Families(r, x), nil
	})
}

// Families turns a result into metric families, ordered by name. They share parts
// with each other and with the module: nobody may change them.
func Families(r *prober.Result, x Extra) []*dto.MetricFamily {
	b := newBuilder(len(r.Windows))
	b.outcome(r, x)
	b.address(r.Addr)
	b.phases(r)
	b.settings(r)
	b.connection(r)
	b.clock(r.Clock)
	b.load(r.Load)
	b.windows(r)
	b.hold(r)
	return b.finish()
}

func (b *builder) outcome(r *prober.Result, x Extra) {
	b.truth(famSuccess, r.Success(), nil)
	reasons := prober.Reasons()
	b.expected, reasons = len(reasons), reasons[:len(reasons):len(reasons)]
	for _, reason := range reasons {
		b.truth(famFailureReason, r.Err != nil && r.Err.Reason == reason, b.label(labelReason, string(reason)))
	}
	b.expected = max(len(r.Windows), 1)

	duration, timeout := x.Duration, x.Timeout
	if duration == 0 {
		duration = r.Elapsed
	}
	if timeout == 0 {
		timeout = r.Timeout
	}
	b.duration(famDuration, duration, nil)
	if timeout > 0 {
		b.duration(famTimeout, timeout, nil)
	}
	b.duration(famResultAge, x.ResultAge, nil)
}

// address tells the IP version and the hash as blackbox_exporter has them. A
// v4-mapped address is the IPv4 address that it stands for.
func (b *builder) address(a netip.AddrPort) {
	ip := a.Addr().Unmap()
	if !ip.IsValid() {
		return
	}
	version := 6.0
	if ip.Is4() {
		version = 4
	}
	b.gauge(famIPProtocol, version, nil)
	h := fnv.New32a()
	h.Write(ip.AsSlice())
	b.gauge(famIPAddrHash, float64(h.Sum32()), nil)
}

func (b *builder) phases(r *prober.Result) {
	for p := range prober.NumPhases {
		if d := r.Phases[p]; d.OK {
			b.duration(famPhaseDuration, d.V, b.label(labelPhase, p.String()))
		}
	}
	b.optionalDuration(famDNSLookupTime, r.Phases[prober.PhaseResolve], nil)
}

// settings are what was asked for.
func (b *builder) settings(r *prober.Result) {
	m := r.Module
	if m == nil {
		return
	}
	request, reply := r.RequestBytes, r.ReplyBytes
	if request == 0 {
		request = m.Size
	}
	if reply == 0 {
		reply = m.EffectiveReplySize()
	}
	b.gauge(famRequestBytes, float64(request), nil)
	b.gauge(famReplyBytes, float64(reply), nil)
	b.duration(famHold, m.Hold, nil)
	b.duration(famPeriod, m.Period, nil)
}

// connection is what belongs to the bounce connection as a whole.
func (b *builder) connection(r *prober.Result) {
	if c := r.Connect; c != nil {
		b.duration(famTCPConnect, c.Duration, nil)
		optionalNumber(b, famTCPSYNRetransmits, c.TCP.TotalRetransmits, nil)
		b.optionalDuration(famTCPInitialRTT, c.TCP.RTT, nil)
		optionalNumber(b, famTCPInitialCongestionWindow, c.TCP.CongestionWindow, nil)
		optionalNumber(b, famTCPMSS, c.TCP.MSS, nil)
	}
	if r.First != nil {
		b.duration(famFirstRTT, r.First.RTT(), nil)
	}
	b.optionalDuration(famTCPMinRTT, r.TCPMinRTT, nil)
	// The bytes are the peer's: only what can be a version becomes a label.
	if v := r.Peer.Version; v.OK && v.V.Known() {
		b.gauge(famServerInfo, 1, b.label(labelVersion, v.V.String()))
	}
}

func (b *builder) clock(c *prober.Clock) {
	if c == nil {
		return
	}
	b.truth(famClockCheckOK, c.OK(), nil)
	b.gauge(famClockCheckFailures, float64(c.Failures), nil)
	b.duration(famClockOffsetLower, c.LowerBound, nil)
	b.duration(famClockOffsetUpper, c.UpperBound, nil)
	b.optionalDuration(famClockStep, c.Step, nil)
	if c.Synchronized.OK {
		b.truth(famClockSynchronized, c.Synchronized.V, nil)
	}
	b.optionalDuration(famClockMaxError, c.MaxError, nil)
	b.optionalDuration(famClockEstimatedError, c.EstimatedError, nil)
}

// load is what the load streams did. A load that never began did nothing.
func (b *builder) load(l *prober.Load) {
	if l == nil || !l.Started {
		return
	}
	b.gauge(famLoadStreams, float64(l.Streams), nil)
	if l.Duration > 0 {
		b.duration(famLoadDuration, l.Duration, nil)
	}
	b.expected = 2
	optionalNumber(b, famLoadBytes, l.BytesFromServer, b.label(labelDirection, fromServer))
	optionalNumber(b, famLoadBytes, l.BytesToServer, b.label(labelDirection, toServer))
	b.optionalDuration(famLoadTCPRTT, l.TCPRTTMax, b.label(labelStat, statMax))
	b.optionalDuration(famLoadTCPRTT, l.TCPRTTMean, b.label(labelStat, statMean))
	optionalNumber(b, famLoadTCPRetransmits, l.TCPRetransmits, nil)
}
