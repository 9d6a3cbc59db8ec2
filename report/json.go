package report

import (
	"encoding/json"
	"io"
	"strings"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/prober"
)

// SchemaVersion is the version of what JSON and Raw write. It grows when a key
// changes its meaning or goes away; new keys may come at any time.
const SchemaVersion = 1

// JSON writes the result as one indented JSON object, described in
// docs/REPORT.md. A key that is missing was not measured. The error is w's.
func JSON(w io.Writer, r *prober.Result, o Options) error {
	m := newMasker(r, &o)
	doc := document{
		SchemaVersion:   SchemaVersion,
		Success:         r.Success(),
		Failure:         failureOf(r, &m),
		header:          headerOf(r, &m),
		Phases:          phasesOf(r),
		Peer:            peerOf(&r.Peer),
		Connect:         connectOf(r.Connect),
		FirstBounce:     firstOf(r.First),
		Windows:         make([]windowJSON, 0, len(r.Windows)),
		TCPMinRTT:       optionalSeconds(r.TCPMinRTT),
		Clock:           clockOf(r.Clock),
		OneWayDelays:    oneWayDelaysOf(r),
		Load:            loadOf(r.Load),
		ElapsedSeconds:  decimal(r.Elapsed),
		TimeoutSeconds:  nonZeroSeconds(r.Timeout),
		AddressesHidden: o.HideIPs,
	}
	for i := range r.Windows {
		doc.Windows = append(doc.Windows, windowOf(r, &r.Windows[i]))
	}
	for _, l := range r.Log {
		doc.Log = append(doc.Log, logJSON{decimal(l.At), m.text(l.Message)})
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(&doc)
}

// headerOf is what JSON and the first line of Raw have in common.
func headerOf(r *prober.Result, m *masker) header {
	h := header{}
	if !r.Start.IsZero() {
		h.StartTime = r.Start.UTC().Format(time.RFC3339Nano)
	}
	if mod := r.Module; mod != nil {
		h.Module = mod.Name
		h.Settings = settingsOf(r)
	}
	if !m.on {
		h.TargetHost = r.Target.Host
		if r.Addr.IsValid() {
			h.Address = r.Addr.Addr().String()
		}
		if r.Local.IsValid() {
			h.LocalAddress = r.Local.Addr().String()
		}
	}
	h.Port = r.Target.Port
	if r.Addr.IsValid() {
		h.Port = r.Addr.Port()
	}
	if r.Local.IsValid() {
		h.LocalPort = r.Local.Port()
	}
	return h
}

func settingsOf(r *prober.Result) *settingsJSON {
	m := r.Module
	s := &settingsJSON{
		RequestBytes:      m.Size,
		ReplyBytes:        m.EffectiveReplySize(),
		HoldSeconds:       decimal(m.Hold),
		PeriodSeconds:     decimal(m.Period),
		Burst:             m.Burst,
		DurationSeconds:   nonZeroSeconds(m.Duration),
		Count:             m.Count,
		QuickAck:          m.QuickAck,
		TripTimes:         m.TripTimes,
		DSCP:              int(m.DSCP),
		CongestionControl: m.CongestionControl,
	}
	if r.RequestBytes != 0 {
		s.RequestBytes, s.ReplyBytes = r.RequestBytes, r.ReplyBytes
	}
	if c := m.Congest; c != nil {
		s.Congest = &congestJSON{
			Direction:         c.Direction,
			Streams:           c.Streams,
			BaselineSeconds:   decimal(c.Baseline),
			WarmupSeconds:     decimal(c.Warmup),
			DSCP:              int(c.DSCP),
			CongestionControl: c.CongestionControl,
		}
	}
	return s
}

func failureOf(r *prober.Result, m *masker) *failureJSON {
	if r.Err == nil {
		return nil
	}
	f := &failureJSON{Phase: r.Err.Phase.String(), Reason: string(r.Err.Reason)}
	if r.Err.Cause != nil {
		f.Cause = m.text(r.Err.Cause.Error())
	}
	meaning, next := Advice(r.Err.Reason)
	f.Advice = strings.TrimSpace(meaning + " " + next)
	return f
}

func phasesOf(r *prober.Result) phasesJSON {
	return phasesJSON{
		ResolveSeconds:   optionalSeconds(r.Phases[prober.PhaseResolve]),
		WaitSeconds:      optionalSeconds(r.Phases[prober.PhaseWait]),
		ConnectSeconds:   optionalSeconds(r.Phases[prober.PhaseConnect]),
		HandshakeSeconds: optionalSeconds(r.Phases[prober.PhaseHandshake]),
		BounceSeconds:    optionalSeconds(r.Phases[prober.PhaseBounce]),
	}
}

func peerOf(p *prober.Peer) *peerJSON {
	kind := kindName(p.Kind)
	if kind == "" && !p.Version.OK {
		return nil
	}
	j := &peerJSON{Kind: kind}
	if p.Version.OK && p.Version.V.Known() {
		j.Version = p.Version.V.String()
	}
	if p.Layout != 0 {
		j.Layout, _, _ = strings.Cut(p.Layout.String(), " ")
	}
	return j
}

// kindName is the peer's kind in JSON; empty where nothing could be told apart.
func kindName(k prober.PeerKind) string {
	switch k {
	case prober.PeerBounceback:
		return "bounceback"
	case prober.PeerNoBounceback:
		return "iperf2_without_bounceback"
	case prober.PeerIperf3:
		return "iperf3"
	case prober.PeerOther:
		return "other"
	}
	return ""
}

func connectOf(c *prober.Connect) *connectJSON {
	if c == nil {
		return nil
	}
	return &connectJSON{DurationSeconds: decimal(c.Duration), TCP: tcpOf(&c.TCP)}
}

func firstOf(s *prober.Sample) *firstJSON {
	if s == nil {
		return nil
	}
	return &firstJSON{RTTSeconds: decimal(s.RTT()), ServerDwellSeconds: decimal(s.Dwell())}
}

func tcpOf(i *prober.TCPInfo) *tcpJSON {
	if i == nil || *i == (prober.TCPInfo{}) {
		return nil
	}
	return &tcpJSON{
		RTTSeconds:    optionalSeconds(i.RTT),
		RTTVarSeconds: optionalSeconds(i.RTTVar),
		CwndSegments:  optional(i.CongestionWindow),
		MSSBytes:      optional(i.MSS),
		Retransmits:   optional(i.TotalRetransmits),
	}
}

// optional is nil for what was not measured.
func optional[T any](o prober.Optional[T]) *T {
	if !o.OK {
		return nil
	}
	return &o.V
}

func optionalSeconds(o prober.Optional[time.Duration]) *decimal {
	if !o.OK {
		return nil
	}
	s := decimal(o.V)
	return &s
}

// nonZeroSeconds is for settings of which zero means "none".
func nonZeroSeconds(d time.Duration) *decimal {
	if d == 0 {
		return nil
	}
	s := decimal(d)
	return &s
}
