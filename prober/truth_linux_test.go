package prober

import (
	"context"
	"fmt"
	"math"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/internal/iperftest"
	"github.com/bounceback-exporter/bounceback_exporter/internal/netlab"
	"github.com/bounceback-exporter/bounceback_exporter/internal/netlab/shape"
	"github.com/bounceback-exporter/bounceback_exporter/prober/stats"
)

// path is a lab with a stock iperf server at its far end.
type path struct {
	*netlab.Lab
	server *iperftest.Server
	t      *testing.T
}

func newPath(t *testing.T, out, back netlab.Link) *path {
	t.Helper()
	netlab.Require(t)
	iperftest.Require(t)
	lab := netlab.New(t, netlab.Config{AtoB: out, BtoA: back})
	s := iperftest.StartAt(t, lab.B.Command, netip.AddrPortFrom(lab.B.Addr4, 5001))
	return &path{lab, s, t}
}

// probe runs one probe from host A.
func (p *path) probe(pr *Prober, change ...func(*config.Module)) *Result {
	p.t.Helper()
	return p.probeAddr(pr, p.server.Addr, change...)
}

func (p *path) probeAddr(pr *Prober, addr netip.AddrPort, change ...func(*config.Module)) *Result {
	p.t.Helper()
	var r *Result
	if err := p.A.Do(func() error {
		r = pr.Run(context.Background(), &Job{Module: module(change...), Addr: addr})
		return nil
	}); err != nil {
		p.t.Fatal(err)
	}
	if !r.Success() {
		p.t.Fatalf("%v\n%v", r.Err, r.Log)
	}
	return r
}

// owd asks for one-way delays on a schedule that disturbs itself least.
func owd(d time.Duration) func(*config.Module) {
	return func(m *config.Module) {
		m.TripTimes, m.Period, m.Duration, m.Count = true, 20*time.Millisecond, d, config.MaxCount
	}
}

// sorted are the values of one quantity of all samples.
func sorted(ss []Sample, f func(*Sample) time.Duration) []time.Duration {
	v := make([]time.Duration, len(ss))
	for i := range ss {
		v[i] = f(&ss[i])
	}
	slices.Sort(v)
	return v
}

func median(ss []Sample, f func(*Sample) time.Duration) time.Duration {
	return stats.Quantile(sorted(ss, f), 0.5)
}

func near(t *testing.T, what string, got, want, margin time.Duration) {
	t.Helper()
	if d := got - want; d < -margin || d > margin {
		t.Errorf("%s is %v, want %v within %v", what, got, want, margin)
	} else {
		t.Logf("%s is %v (want %v within %v)", what, got, want, margin)
	}
}

// stockOWD are the means of To, From and Asymmetry in the stock client's last
// line about one-way delays.
func stockOWD(t *testing.T, out string) (to, from, asymmetry time.Duration) {
	t.Helper()
	m := regexp.MustCompile(`To=([\d.]+)/\S+ From=([\d.]+)/\S+ Asymmetry=([\d.]+)/`).FindAllStringSubmatch(out, -1)
	if m == nil {
		t.Fatalf("the stock client printed no one-way delays:\n%s", out)
	}
	last := m[len(m)-1]
	ms := func(s string) time.Duration {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatal(err)
		}
		return time.Duration(f * float64(time.Millisecond))
	}
	return ms(last[1]), ms(last[2]), ms(last[3])
}

// A path of known delays reads those delays, and as the stock client reads it.
func TestTruthOfKnownDelays(t *testing.T) {
	netlab.KeepAwake(t)
	for _, d := range [][2]time.Duration{
		{5 * time.Millisecond, 15 * time.Millisecond},
		{15 * time.Millisecond, 5 * time.Millisecond},
		{0, 0},
	} {
		t.Run(fmt.Sprintf("%v out %v back", d[0], d[1]), func(t *testing.T) {
			p := newPath(t, netlab.Link{Delay: d[0]}, netlab.Link{Delay: d[1]})
			bestOf(t, 3, func() []string { return knownDelays(t, p, d[0], d[1]) })
			p.server.CheckClean()
		})
	}
}

// knownDelays measures once, beside the stock client, and returns what is wrong.
func knownDelays(t *testing.T, p *path, out, back time.Duration) (wrong []string) {
	near := func(what string, got, want, margin time.Duration) {
		line := fmt.Sprintf("%s is %v, want %v within %v", what, got, want, margin)
		t.Log(line)
		if diff(got, want) > margin {
			wrong = append(wrong, line)
		}
	}
	const period = 50 * time.Millisecond // longer than any of the round trips
	r := p.probe(New(Options{}), owd(4*time.Second), func(m *config.Module) { m.Period = period })
	ss := r.Windows[0].Samples
	if len(ss) < 75 {
		return []string{fmt.Sprintf("%d samples of 80", len(ss))}
	}
	if !r.OWDValid() {
		t.Fatalf("one-way delays withheld: %+v", *r.Clock)
	}
	near("median to server", median(ss, (*Sample).OWDToServer), out, 300*time.Microsecond)
	near("median from server", median(ss, (*Sample).OWDFromServer), back, 300*time.Microsecond)
	near("median RTT", median(ss, (*Sample).RTT), out+back, 600*time.Microsecond)
	near("median asymmetry", median(ss, (*Sample).Asymmetry), back-out, 600*time.Microsecond)
	near("TCP's RTT", r.Windows[0].TCP.RTT.V, out+back, 2*time.Millisecond)

	c := iperftest.StartClient(t, p.A.Command, p.server.Addr, "--bounceback=1", "--bounceback-period", "0.05", "--trip-times", "-t", "4")
	text, _, err := c.Wait(30 * time.Second)
	if err != nil {
		// It gives up when a reply is half a second late, as on a machine that is busy.
		return append(wrong, fmt.Sprintf("stock client: %v\n%s", err, text))
	}
	to, from, asymmetry := stockOWD(t, text)
	mean := func(f func(*Sample) time.Duration) time.Duration { return stats.Summarize(sorted(ss, f)).Mean }
	near("our mean to server, against the stock client's,", mean((*Sample).OWDToServer), to, 200*time.Microsecond)
	near("our mean from server, against the stock client's,", mean((*Sample).OWDFromServer), from, 200*time.Microsecond)
	// It prints the mean of the absolute values.
	near("our mean absolute asymmetry, against the stock client's,",
		mean(func(s *Sample) time.Duration { return max(s.Asymmetry(), -s.Asymmetry()) }), asymmetry, 400*time.Microsecond)
	return wrong
}

// bestOf repeats a measurement that other work on the machine can spoil: it fails
// only if every try is wrong.
func bestOf(t *testing.T, tries int, f func() []string) {
	t.Helper()
	var wrong []string
	for range tries {
		if wrong = f(); len(wrong) == 0 {
			return
		}
		t.Logf("wrong this time: %q", wrong)
	}
	t.Errorf("wrong %d times, the last: %q", tries, wrong)
}

func diff(a, b time.Duration) time.Duration { return max(a-b, b-a) }

// Jitter on the way out shows there and only there.
func TestTruthOfJitter(t *testing.T) {
	p := newPath(t, netlab.Link{Delay: 10 * time.Millisecond, Jitter: 2 * time.Millisecond, Seed: 1}, netlab.Link{Delay: 10 * time.Millisecond})
	bestOf(t, 3, func() (wrong []string) {
		r := p.probe(New(Options{}), owd(8*time.Second), func(m *config.Module) { m.Period, m.Timeout = 40*time.Millisecond, 20*time.Second })
		ss := r.Windows[0].Samples
		to := stats.Summarize(sorted(ss, (*Sample).OWDToServer))
		from := stats.Summarize(sorted(ss, (*Sample).OWDFromServer))
		t.Logf("to: %+v from: %+v", to, from)
		// 200 draws estimate a deviation within some 15 % (three sigma).
		if diff(to.StdDev, 2*time.Millisecond) > 400*time.Microsecond {
			wrong = append(wrong, fmt.Sprintf("standard deviation to server is %v, want 2ms", to.StdDev))
		}
		if from.StdDev > to.StdDev/3 {
			wrong = append(wrong, fmt.Sprintf("jitter out shows on the way back: %v", from.StdDev))
		}
		return wrong
	})
}

// The native histogram's quantiles are the exact ones within one bucket.
func TestTruthOfHistogramQuantiles(t *testing.T) {
	p := newPath(t, netlab.Link{Delay: 5 * time.Millisecond, Jitter: 2 * time.Millisecond, Seed: 2}, netlab.Link{Delay: 5 * time.Millisecond})
	r := p.probe(New(Options{}), owd(3*time.Second))
	rtts := sorted(r.Windows[0].Samples, (*Sample).RTT)
	schema := stats.SchemaForFactor(1.05)
	for _, q := range []float64{0.05, 0.5, 0.95, 0.99} {
		exact := stats.Quantile(rtts, q).Seconds()
		bucket := math.Ceil(math.Log2(exact) * math.Exp2(float64(schema)))
		n := 0
		for _, v := range rtts {
			if math.Ceil(math.Log2(v.Seconds())*math.Exp2(float64(schema))) < bucket {
				n++
			}
		}
		// The rank of the quantile lies in the exact value's bucket or at its edge.
		rank := q * float64(len(rtts))
		if float64(n) > rank {
			t.Errorf("q %v: %d of %d below the bucket of the exact value", q, n, len(rtts))
		}
	}
}

// Loss both ways: TCP repairs it, the tail shows it, nothing is lost or counted twice.
func TestTruthUnderLoss(t *testing.T) {
	link := netlab.Link{Delay: 2 * time.Millisecond, Loss: 0.02, Seed: 3}
	back := link
	back.Seed = 4
	p := newPath(t, link, back)
	r := p.probe(New(Options{}), func(m *config.Module) {
		m.Duration, m.Count, m.Timeout = 0, 600, time.Minute
	})
	w := r.Windows[0]
	if w.Requests != 600 || len(w.Samples) != 600 {
		t.Errorf("%d requests, %d replies, want 600 of each", w.Requests, len(w.Samples))
	}
	if !w.TCPRetransmits.OK || w.TCPRetransmits.V == 0 {
		t.Errorf("retransmits: %+v, want some of 600 requests at 2 %% loss", w.TCPRetransmits)
	}
	late := 0
	for i := range w.Samples {
		if i > 0 && w.Samples[i].Sent < w.Samples[i-1].Received {
			t.Fatalf("bounce %d was sent before %d was back", i, i-1)
		}
		if w.Samples[i].RTT() > 100*time.Millisecond {
			late++
		}
	}
	drops := p.Link(netlab.AtoB).Stats()
	t.Logf("retransmits %d, late %d, link %+v", w.TCPRetransmits.V, late, drops)
	if late == 0 {
		t.Error("no bounce waited for a retransmission")
	}
}

// The first SYN is lost: the connect shows it, the bounces don't.
func TestTruthOfLostSYN(t *testing.T) {
	p := newPath(t, netlab.Link{Delay: time.Millisecond}, netlab.Link{Delay: time.Millisecond})
	p.Link(netlab.AtoB).Drop(shape.FirstSYN())
	r := p.probe(New(Options{}), owd(time.Second))
	near(t, "connect", r.Phases[PhaseConnect].V, time.Second, 200*time.Millisecond)
	near(t, "connect time", r.Connect.Duration, time.Second, 200*time.Millisecond)
	if n := r.Connect.TCP.TotalRetransmits; !n.OK || n.V != 1 {
		t.Errorf("SYN retransmits %+v, want 1", n)
	}
	if n := r.Windows[0].TCPRetransmits; !n.OK || n.V != 0 {
		t.Errorf("retransmits of the window %+v, want 0", n)
	}
	near(t, "median RTT", median(r.Windows[0].Samples, (*Sample).RTT), 2*time.Millisecond, 600*time.Microsecond)
}

// One direction stops for 300 ms: one bounce carries it, and the ticks that were
// missed meanwhile are counted.
func TestTruthOfAPause(t *testing.T) {
	p := newPath(t, netlab.Link{Delay: time.Millisecond}, netlab.Link{Delay: time.Millisecond})
	timer := time.AfterFunc(800*time.Millisecond, func() { p.Link(netlab.BtoA).Pause(300*time.Millisecond, netlab.Hold) })
	defer timer.Stop()
	r := p.probe(New(Options{}), owd(2*time.Second))
	w := r.Windows[0]
	slow := 0
	var worst Sample
	for _, s := range w.Samples {
		if s.RTT() > 100*time.Millisecond {
			slow++
			worst = s
		}
	}
	if slow != 1 {
		t.Errorf("%d slow bounces, want 1", slow)
	}
	// The bounce met the pause up to one period after its start.
	near(t, "the slow bounce", worst.RTT(), 290*time.Millisecond, 40*time.Millisecond)
	if worst.OWDFromServer() < worst.RTT()/2 {
		t.Errorf("the way back, which stood still, took %v of %v", worst.OWDFromServer(), worst.RTT())
	}
	if w.SkippedTicks < 13 || w.SkippedTicks > 15 {
		t.Errorf("%d skipped ticks, want 14 of 300 ms at 20 ms", w.SkippedTicks)
	}
	if got := len(w.Samples) + w.SkippedTicks; got < 99 || got > 101 {
		t.Errorf("%d samples and skipped ticks, want 100 in 2 s at 20 ms", got)
	}
}
