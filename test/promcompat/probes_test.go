package promcompat

import (
	"math"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/bounceback-exporter/bounceback_exporter/collector"
	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/prober"
)

// Times and labels of the made-up scrapes.
const (
	interval = time.Minute
	job      = "bounceback"
	instance = "server.example:5001"
	module   = "rtt"
)

func target() []string { return []string{"job", job, "instance", instance, "module", module} }

// epoch is when the first made-up scrape takes place.
func epoch() time.Time { return time.Unix(1_796_000_040, 0).UTC() }

func testModule() *config.Module {
	m := config.DefaultModule(module)
	m.TripTimes = true
	return m
}

// draws are distributions of one-way delays.
type draws struct {
	to, from func(*rand.Rand) time.Duration
}

func logNormal(median time.Duration, sigma float64) func(*rand.Rand) time.Duration {
	return func(r *rand.Rand) time.Duration {
		return time.Duration(float64(median) * math.Exp(r.NormFloat64()*sigma))
	}
}

// probe makes the result of n bounces, on clocks that agree.
func probe(r *rand.Rand, n int, d draws) *prober.Result {
	const wall = 1_796_000_000 * int64(time.Second)
	w := prober.Window{Load: prober.LoadNone, Requests: n, TCP: &prober.TCPInfo{RTT: prober.Some(time.Millisecond)}}
	for i := range n {
		sent := int64(i) * int64(2*time.Millisecond)
		s1 := sent + int64(d.to(r))
		s2 := s1 + int64(30*time.Microsecond)
		received := s2 + int64(d.from(r))
		w.Samples = append(w.Samples, prober.Sample{
			Sent: sent, Received: received, SentWall: wall + sent, ReceivedWall: wall + received,
			ServerReceive: wall + s1, ServerSend: wall + s2, KernelReceive: wall + received - 2000,
		})
	}
	res := &prober.Result{
		Module: testModule(), Addr: netip.MustParseAddrPort("192.0.2.7:5001"),
		Timeout: 9500 * time.Millisecond, Elapsed: 2 * time.Second,
		RequestBytes: 100, ReplyBytes: 100,
		Windows: []prober.Window{w},
		Clock: &prober.Clock{
			LowerBound: -time.Millisecond, UpperBound: time.Millisecond, Step: prober.Some(time.Duration(0)),
			Synchronized: prober.Some(true), EstimatedError: prober.Some(20 * time.Microsecond),
		},
	}
	if n > 0 {
		first := w.Samples[0]
		res.First = &first
	} else {
		res.Err = &prober.Error{Phase: prober.PhaseHandshake, Reason: prober.ReasonSilent}
	}
	return res
}

// handler serves a result as /probe does.
func handler(r *prober.Result) http.Handler {
	return promhttp.HandlerFor(collector.Gatherer(r, collector.Extra{}), promhttp.HandlerOpts{})
}

// scenario is an hour of probes that differ in every respect: place, width and
// number of bounces, with two that are exactly the same, and one that failed.
func scenario() (probes []*prober.Result, truth measured) {
	r := rand.New(rand.NewPCG(31, 32))
	lan := draws{logNormal(90*time.Microsecond, .25), logNormal(110*time.Microsecond, .25)}
	wan := draws{logNormal(9*time.Millisecond, .03), logNormal(12*time.Millisecond, .05)}
	slow := draws{logNormal(20*time.Millisecond, .5), logNormal(8*time.Millisecond, .3)}
	for i := range 60 {
		var p *prober.Result
		switch {
		case i == 17:
			p = probes[16] // the same once more
		case i == 30:
			p = probe(r, 0, lan)
		case i%10 == 9:
			p = probe(r, 1000, slow)
		case i%3 == 0:
			p = probe(r, 20, lan)
		case i%3 == 1:
			p = probe(r, 200, wan)
		default:
			p = probe(r, 1000, lan)
		}
		probes = append(probes, p)
		truth.add(p)
	}
	return probes, truth
}

// measured are raw values in seconds.
type measured struct{ rtt, network, to, from, asymmetry []float64 }

func (m *measured) add(r *prober.Result) {
	for _, w := range r.Windows {
		for i := range w.Samples {
			s := &w.Samples[i]
			m.rtt = append(m.rtt, s.RTT().Seconds())
			if n, ok := s.NetworkRTT(); ok {
				m.network = append(m.network, n.Seconds())
			}
			m.to = append(m.to, s.OWDToServer().Seconds())
			m.from = append(m.from, s.OWDFromServer().Seconds())
			m.asymmetry = append(m.asymmetry, s.Asymmetry().Seconds())
		}
	}
}
