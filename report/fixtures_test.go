package report

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/prober"
	"github.com/bounceback-exporter/bounceback_exporter/prober/wire"
)

// path makes the samples of a path with known delays.
type path struct {
	out, back, dwell, wake time.Duration
	jitter                 time.Duration // mean of an exponential part, out only
	offset                 time.Duration // far clock minus ours
	noKernelStamps         bool
	rnd                    *rand.Rand
}

func newPath(out, back time.Duration) *path {
	return &path{out: out, back: back, dwell: 12 * time.Microsecond, wake: 9 * time.Microsecond,
		rnd: rand.New(rand.NewPCG(1, 2))}
}

// start is when every fixture began.
func start() time.Time { return time.Date(2026, 3, 14, 15, 9, 26, 535_897_932, time.UTC) }

// bounce is one sample sent at a monotonic instant.
func (p *path) bounce(sent int64) prober.Sample {
	vary := func(d time.Duration) time.Duration {
		return time.Duration(float64(d) * (1 + 0.01*p.rnd.Float64()))
	}
	out, back := vary(p.out), vary(p.back)
	if p.jitter > 0 {
		out += time.Duration(p.rnd.ExpFloat64() * float64(p.jitter))
	}
	micro := func(t int64) int64 { return t / 1000 * 1000 }
	s := prober.Sample{Sent: sent, SentWall: start().UnixNano() + sent}
	arrived := s.SentWall + int64(out)
	left := arrived + int64(vary(p.dwell))
	s.ServerReceive = micro(arrived + int64(p.offset))
	s.ServerSend = micro(left + int64(p.offset))
	kernel := left + int64(back)
	if !p.noKernelStamps {
		s.KernelReceive = kernel
	}
	s.ReceivedWall = kernel + int64(vary(p.wake))
	s.Received = s.ReceivedWall - start().UnixNano()
	return s
}

// backToBack makes n samples, each sent 5 us after the reply to the one before.
func (p *path) backToBack(n int, from time.Duration) []prober.Sample {
	out := make([]prober.Sample, 0, n)
	at := int64(from)
	for range n {
		s := p.bounce(at)
		out = append(out, s)
		at = s.Received + 5000
	}
	return out
}

func window(load prober.LoadLabel, samples []prober.Sample) prober.Window {
	w := prober.Window{Load: load, Samples: samples, Requests: len(samples)}
	if n := len(samples); n > 0 {
		w.Start, w.End = samples[0].Sent, samples[n-1].Received
	}
	tcp := tcpInfo(21*time.Millisecond, 10)
	w.TCP = &tcp
	w.TCPRetransmits = prober.Some[uint32](0)
	return w
}

// addRows fills in one row a second.
func addRows(r *prober.Result, i int, up, down int64) {
	w := &r.Windows[i]
	end := w.Start + int64(time.Second)
	row := prober.Row{Window: i}
	flush := func(at int64) {
		row.End, row.TCP, row.LoadUp, row.LoadDown = at, *w.TCP, up, down
		w.Rows = append(w.Rows, row)
		row = prober.Row{Window: i}
	}
	for k := range w.Samples {
		s := &w.Samples[k]
		for s.Received > end {
			flush(end)
			end += int64(time.Second)
		}
		row.Replies++
		row.RTTSum += s.RTT()
		row.RTTMax = max(row.RTTMax, s.RTT())
	}
	flush(w.End)
}

func tcpInfo(rtt time.Duration, cwnd uint32) prober.TCPInfo {
	return prober.TCPInfo{
		RTT:              prober.Some(rtt),
		RTTVar:           prober.Some(rtt / 16),
		MinRTT:           prober.Some(rtt * 9 / 10),
		CongestionWindow: prober.Some(cwnd),
		MSS:              prober.Some[uint32](1448),
		TotalRetransmits: prober.Some[uint32](0),
		BytesAcked:       prober.Some[uint64](1),
		BytesReceived:    prober.Some[uint64](0),
	}
}

func module(name string) *config.Module {
	return &config.Module{Name: name, Size: 100, Burst: 1, Duration: 2 * time.Second, Count: 1000,
		QuickAck: true, Timeout: 10 * time.Second, PreferredIPProtocol: "ip6", IPProtocolFallback: true}
}

// good is a successful probe of a path, complete but for its windows.
func good(m *config.Module, p *path) *prober.Result {
	first := p.bounce(int64(12 * time.Millisecond))
	return &prober.Result{
		Module: m,
		Target: prober.Target{Host: "server.example", Port: 5001},
		Addr:   netip.MustParseAddrPort("192.0.2.17:5001"),
		Local:  netip.MustParseAddrPort("198.51.100.4:41234"),
		Start:  start(), Timeout: 9500 * time.Millisecond, Elapsed: 2100 * time.Millisecond,
		Phases: prober.Phases{prober.Some(1200 * time.Microsecond), prober.Some(time.Duration(0)),
			prober.Some(10123 * time.Microsecond), prober.Some(21 * time.Millisecond), prober.Some(2 * time.Second)},
		Peer:         prober.Peer{Kind: prober.PeerBounceback, Layout: wire.LayoutB, Version: prober.Some(wire.V2_1_8)},
		Connect:      &prober.Connect{Duration: 10100 * time.Microsecond, TCP: tcpInfo(20100*time.Microsecond, 10)},
		First:        &first,
		RequestBytes: m.Size, ReplyBytes: m.EffectiveReplySize(),
		TCPMinRTT: prober.Some(19900 * time.Microsecond),
		Log: []prober.LogLine{
			{At: 300 * time.Microsecond, Message: "server.example is 192.0.2.17"},
			{At: 12 * time.Millisecond, Message: "connected 198.51.100.4:41234->192.0.2.17:5001"},
		},
	}
}

// fixtures are results of every kind, by name.
func fixtures() map[string]*prober.Result {
	return map[string]*prober.Result{
		"triptimes":    tripTimes(),
		"onebin":       oneBin(),
		"onebounce":    oneBounce(),
		"refused":      refused(),
		"resolve":      resolveFailed(),
		"closedearly":  closedEarly(),
		"noreply":      noReply(),
		"nokernel":     noKernel(),
		"ipv6period":   ipv6Period(),
		"clockfailure": clockFailure(),
		"clocknothing": clockNothing(),
		"load":         loaded(),
		"loadfailed":   loadFailed(),
		"hold":         held(20 * time.Millisecond),
		"holdignored":  held(5 * time.Microsecond),
		"iperf3":       iperf3(),
	}
}

func tripTimes() *prober.Result {
	m := module("rtt")
	m.TripTimes, m.DSCP = true, 46
	p := newPath(5*time.Millisecond, 15*time.Millisecond)
	p.jitter = 300 * time.Microsecond
	r := good(m, p)
	r.Windows = []prober.Window{window(prober.LoadNone, p.backToBack(100, 34*time.Millisecond))}
	late := &r.Windows[0].Samples[70] // one bounce that met a retransmission
	late.Received += int64(210 * time.Millisecond)
	late.ReceivedWall += int64(210 * time.Millisecond)
	late.KernelReceive += int64(210 * time.Millisecond)
	r.Windows[0].TCPRetransmits = prober.Some[uint32](1)
	addRows(r, 0, 0, 0)
	r.Clock = &prober.Clock{LowerBound: -15 * time.Millisecond, UpperBound: 5001 * time.Microsecond,
		Step: prober.Some(time.Duration(0)), Synchronized: prober.Some(true),
		MaxError: prober.Some(1800 * time.Microsecond), EstimatedError: prober.Some(31 * time.Microsecond)}
	return r
}

func oneBin() *prober.Result {
	p := newPath(4*time.Microsecond, 4*time.Microsecond)
	p.dwell, p.wake = 3*time.Microsecond, 1*time.Microsecond
	r := good(module("loop"), p)
	r.Target.Host, r.Addr = "127.0.0.1", netip.MustParseAddrPort("127.0.0.1:5001")
	r.Log = nil
	s := p.bounce(int64(time.Millisecond))
	var all []prober.Sample
	for range 1000 {
		all = append(all, s)
	}
	r.Windows = []prober.Window{window(prober.LoadNone, all)}
	return r
}

func oneBounce() *prober.Result {
	m := module("single")
	m.Count, m.Duration = 1, 0
	p := newPath(time.Millisecond, time.Millisecond)
	r := good(m, p)
	r.Windows = []prober.Window{window(prober.LoadNone, p.backToBack(1, 34*time.Millisecond))}
	r.Peer.Version = prober.Optional[wire.Version]{}
	return r
}

// failed is a probe that ended in a phase, with what it had until then.
func failed(phase prober.Phase, reason prober.Reason, cause error) *prober.Result {
	r := good(module("rtt"), newPath(time.Millisecond, time.Millisecond))
	r.Err = &prober.Error{Phase: phase, Reason: reason, Cause: cause}
	for p := phase + 1; p < prober.NumPhases; p++ {
		r.Phases[p] = prober.Optional[time.Duration]{}
	}
	r.Elapsed = 15 * time.Millisecond
	if phase <= prober.PhaseConnect {
		r.Connect, r.First, r.Local = nil, nil, netip.AddrPort{}
		r.TCPMinRTT, r.Peer, r.Log = prober.Optional[time.Duration]{}, prober.Peer{}, r.Log[:1]
	}
	return r
}

func refused() *prober.Result {
	return failed(prober.PhaseConnect, prober.ReasonConnectRefused,
		fmt.Errorf("connect to 192.0.2.17:5001: %w", syscall.ECONNREFUSED))
}

func resolveFailed() *prober.Result {
	r := failed(prober.PhaseResolve, prober.ReasonResolve,
		fmt.Errorf("no address: %w", &net.DNSError{Err: "no such host", Name: "server.example.corp.example",
			Server: "203.0.113.53:53", IsNotFound: true}))
	r.Addr, r.Log = netip.AddrPort{}, nil
	return r
}

func closedEarly() *prober.Result {
	p := newPath(time.Millisecond, time.Millisecond)
	r := failed(prober.PhaseBounce, prober.ReasonClosedEarly,
		errors.New("192.0.2.17:5001 ended the connection after 12 bounces"))
	r.Windows = []prober.Window{window(prober.LoadNone, p.backToBack(12, 34*time.Millisecond))}
	r.Windows[0].Requests = 13
	return r
}

func noReply() *prober.Result {
	r := failed(prober.PhaseBounce, prober.ReasonTimeout, errors.New("no reply within 9.5s"))
	r.Windows = []prober.Window{{Load: prober.LoadNone, Requests: 1, Start: 34e6, End: 95e8}}
	r.Module.TripTimes = true
	return r
}

func iperf3() *prober.Result {
	r := failed(prober.PhaseHandshake, prober.ReasonNoBounceback, errors.New("the peer answered as iperf 3 does"))
	r.Peer, r.First = prober.Peer{Kind: prober.PeerIperf3}, nil
	r.TCPMinRTT = prober.Optional[time.Duration]{}
	return r
}

// noKernel is what a system without tcp_info and receive stamps yields.
func noKernel() *prober.Result {
	p := newPath(time.Millisecond, time.Millisecond)
	p.noKernelStamps = true
	r := good(module("other"), p)
	r.Connect.TCP, r.TCPMinRTT = prober.TCPInfo{}, prober.Optional[time.Duration]{}
	r.Windows = []prober.Window{window(prober.LoadNone, p.backToBack(50, 34*time.Millisecond))}
	r.Windows[0].TCP, r.Windows[0].TCPRetransmits = nil, prober.Optional[uint32]{}
	r.Windows[0].Samples[3].ServerSend -= 1e9 // the server's clock jumped
	return r
}

func ipv6Period() *prober.Result {
	m := module("v6")
	m.Period, m.Burst, m.Size, m.ReplySize = 20*time.Millisecond, 5, 200, 500
	m.Count = 0
	p := newPath(200*time.Microsecond, 250*time.Microsecond)
	p.jitter = 2 * time.Millisecond
	r := good(m, p)
	r.Target = prober.Target{Host: "fe80::1%eth0", Port: 5001}
	r.Addr = netip.MustParseAddrPort("[fe80::1%eth0]:5001")
	r.Local = netip.MustParseAddrPort("[fe80::2%eth0]:41234")
	r.Peer = prober.Peer{Kind: prober.PeerBounceback, Layout: wire.LayoutC,
		Version: prober.Some(wire.Version{Upper: 2, Lower: 2, Patch: 2, Stage: 5})}
	r.Log = nil
	var all []prober.Sample
	for tick := range 100 {
		all = append(all, p.backToBack(5, 20*time.Millisecond*time.Duration(tick+1))...)
	}
	r.Windows = []prober.Window{window(prober.LoadNone, all)}
	r.Windows[0].SkippedTicks = 1
	r.Windows[0].ScheduleLateness = prober.Some(83 * time.Microsecond)
	addRows(r, 0, 0, 0)
	return r
}

func clockFailure() *prober.Result {
	m := module("rtt")
	m.TripTimes = true
	p := newPath(5*time.Millisecond, 5*time.Millisecond)
	p.offset = 5 * time.Second
	r := good(m, p)
	r.Windows = []prober.Window{window(prober.LoadNone, p.backToBack(50, 34*time.Millisecond))}
	r.Clock = &prober.Clock{Failures: 51, LowerBound: 4995 * time.Millisecond, UpperBound: 5005 * time.Millisecond,
		Step: prober.Some(-time.Second), Synchronized: prober.Some(false)}
	return r
}

func clockNothing() *prober.Result {
	r := refused()
	r.Module.TripTimes = true
	return r
}

func congest() *config.Module {
	m := module("bloat")
	m.Count = 0
	m.Congest = &config.Congest{Direction: "both", Streams: 2, Baseline: time.Second, Warmup: 500 * time.Millisecond}
	return m
}

func loaded() *prober.Result {
	p := newPath(5*time.Millisecond, 5*time.Millisecond)
	r := good(congest(), p)
	idle := window(prober.LoadNone, p.backToBack(98, 34*time.Millisecond))
	p.out, p.back, p.jitter = 50*time.Millisecond, 45*time.Millisecond, 10*time.Millisecond
	full := window(prober.LoadBoth, p.backToBack(19, 1600*time.Millisecond))
	r.Windows = []prober.Window{idle, full}
	addRows(r, 1, 1_180_000, 1_150_000)
	r.Load = &prober.Load{Direction: prober.LoadBoth, Streams: 2, Duration: 2 * time.Second, Started: true,
		BytesToServer: prober.Some[uint64](2_360_000), BytesFromServer: prober.Some[uint64](2_300_000),
		TCPRTTMean: prober.Some(104 * time.Millisecond), TCPRTTMax: prober.Some(121 * time.Millisecond),
		TCPRetransmits: prober.Some[uint64](17)}
	return r
}

func loadFailed() *prober.Result {
	p := newPath(5*time.Millisecond, 5*time.Millisecond)
	r := good(congest(), p)
	r.Err = &prober.Error{Phase: prober.PhaseBounce, Reason: prober.ReasonLoadFailed,
		Cause: errors.New("192.0.2.17:5001 did not begin a load within 2s")}
	r.Windows = []prober.Window{window(prober.LoadNone, p.backToBack(98, 34*time.Millisecond))}
	r.Load = &prober.Load{Direction: prober.LoadBoth, Streams: 2}
	return r
}

func held(dwell time.Duration) *prober.Result {
	m := module("hold")
	m.Hold = 20 * time.Millisecond
	p := newPath(100*time.Microsecond, 100*time.Microsecond)
	p.dwell = dwell
	r := good(m, p)
	r.Windows = []prober.Window{window(prober.LoadNone, p.backToBack(90, 34*time.Millisecond))}
	return r
}
