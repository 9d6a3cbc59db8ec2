package collector

import (
	"errors"
	"math"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/prober"
	"github.com/bounceback-exporter/bounceback_exporter/prober/wire"
)

const (
	us = time.Microsecond
	ms = time.Millisecond
)

func testModule() *config.Module { return config.DefaultModule("rtt") }

// bounce is a sample on synchronized clocks, made of its parts. The server's stamps
// are truncated to the microsecond, as they are on the wire.
func bounce(start time.Duration, to, dwell, from, late time.Duration) prober.Sample {
	const epoch = 1_796_000_000 * int64(time.Second)
	t0 := int64(start)
	s1 := t0 + int64(to)
	s2 := s1 + int64(dwell)
	t3 := s2 + int64(from) + int64(late)
	return prober.Sample{
		Sent: t0, Received: t3, SentWall: epoch + t0, ReceivedWall: epoch + t3,
		ServerReceive: (epoch + s1) / 1000 * 1000, ServerSend: (epoch + s2) / 1000 * 1000,
		KernelReceive: epoch + t3 - int64(late),
	}
}

// bounces are n samples a tick apart, lognormal about the two one-way delays.
func bounces(seed uint64, n int, tick, to, dwell, from time.Duration) []prober.Sample {
	r := rand.New(rand.NewPCG(seed, 1))
	about := func(d time.Duration) time.Duration { return time.Duration(float64(d) * math.Exp(r.NormFloat64()/8)) }
	out := make([]prober.Sample, n)
	for i := range out {
		out[i] = bounce(time.Duration(i)*tick, about(to), about(dwell), about(from), about(20*us))
	}
	return out
}

func tcpInfo(rtt time.Duration) *prober.TCPInfo {
	return &prober.TCPInfo{
		RTT: prober.Some(rtt), RTTVar: prober.Some(rtt / 8), MinRTT: prober.Some(rtt / 2),
		CongestionWindow: prober.Some[uint32](10), MSS: prober.Some[uint32](1448), TotalRetransmits: prober.Some[uint32](3),
		BytesAcked: prober.Some[uint64](4000), BytesReceived: prober.Some[uint64](4000),
	}
}

// richResult has all that a probe without a load can have.
func richResult(n int) *prober.Result {
	m := testModule()
	m.TripTimes, m.Hold, m.Period = true, 500*us, 20*ms
	first := bounce(10*ms, 4*ms, 900*us, 7*ms, 30*us)
	r := &prober.Result{
		Module:  m,
		Target:  prober.Target{Host: "server.example", Port: 5001},
		Addr:    netip.MustParseAddrPort("192.0.2.7:5001"),
		Timeout: 9500 * ms, Elapsed: 2100 * ms,
		Peer: prober.Peer{Kind: prober.PeerBounceback, Version: prober.Some(wire.V2_1_8)},
		Connect: &prober.Connect{Duration: 11 * ms, TCP: prober.TCPInfo{
			RTT: prober.Some(10900 * us), CongestionWindow: prober.Some[uint32](10),
			MSS: prober.Some[uint32](1448), TotalRetransmits: prober.Some[uint32](0),
		}},
		First: &first, RequestBytes: 100, ReplyBytes: 100,
		TCPMinRTT: prober.Some(9900 * us),
		Windows: []prober.Window{{
			Load: prober.LoadNone, Samples: bounces(1, n, 20*ms, 4*ms, 520*us, 6*ms),
			Requests: n + 1, SkippedTicks: 2, ScheduleLateness: prober.Some(80 * us),
			TCP: tcpInfo(10500 * us), TCPRetransmits: prober.Some[uint32](1),
		}},
		Clock: &prober.Clock{
			LowerBound: -5900 * us, UpperBound: 3900 * us, Step: prober.Some(time.Duration(0)),
			Synchronized: prober.Some(true), MaxError: prober.Some(2 * ms), EstimatedError: prober.Some(40 * us),
		},
	}
	for p := range prober.NumPhases {
		r.Phases[p] = prober.Some(time.Duration(p+1) * ms)
	}
	return r
}

// failedResult is a target that resolved and did not answer our SYN.
func failedResult() *prober.Result {
	r := &prober.Result{
		Module:  testModule(),
		Addr:    netip.MustParseAddrPort("[2001:db8::7]:5001"),
		Timeout: 9500 * ms, Elapsed: 9500 * ms,
		RequestBytes: 100, ReplyBytes: 100,
		Err: &prober.Error{Phase: prober.PhaseConnect, Reason: prober.ReasonConnectTimeout, Cause: errors.New("no answer")},
	}
	r.Phases[prober.PhaseResolve] = prober.Some(2 * ms)
	r.Phases[prober.PhaseWait] = prober.Some(time.Duration(0))
	return r
}

// loadResult has a baseline and a window under load in both directions, on a peer
// that does not tell its version and with a kernel that gives no stamps.
func loadResult(n int) *prober.Result {
	r := richResult(n)
	m := *r.Module
	m.Hold, m.Period, m.TripTimes = 0, 0, false
	m.Congest = &config.Congest{Direction: "both", Streams: 2}
	r.Module, r.Clock, r.Peer.Version = &m, nil, prober.Optional[wire.Version]{}
	r.Windows[0].ScheduleLateness = prober.Optional[time.Duration]{}
	r.Windows = append(r.Windows, prober.Window{
		Load: prober.LoadBoth, Samples: bounces(2, n/2, 0, 45*ms, 60*us, 48*ms), Requests: n / 2,
		TCP: tcpInfo(95 * ms), TCPRetransmits: prober.Some[uint32](0),
	})
	for w := range r.Windows {
		for i := range r.Windows[w].Samples {
			r.Windows[w].Samples[i].KernelReceive = 0
		}
	}
	r.Load = &prober.Load{
		Direction: prober.LoadBoth, Streams: 2, Duration: 2 * time.Second, Started: true,
		BytesToServer: prober.Some[uint64](2_400_000), BytesFromServer: prober.Some[uint64](2_380_000),
		TCPRTTMean: prober.Some(93 * ms), TCPRTTMax: prober.Some(99 * ms), TCPRetransmits: prober.Some[uint64](17),
	}
	return r
}
