package prober

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/internal/iperftest"
	"github.com/bounceback-exporter/bounceback_exporter/internal/netlab"
	"github.com/bounceback-exporter/bounceback_exporter/prober/stats"
)

// payload is the share of a full-size packet that is data: 1500 bytes less the
// headers of IPv4 and TCP and its timestamps.
const payload = 1448.0 / 1500

// newPathOf is newPath for a lab with more hosts.
func newPathOf(t *testing.T, c netlab.Config, args ...string) *path {
	t.Helper()
	netlab.Require(t)
	iperftest.Require(t)
	lab := netlab.New(t, c)
	return &path{lab, iperftest.StartAt(t, lab.B.Command, netip.AddrPortFrom(lab.B.Addr4, 5001), args...), t}
}

// slowPath is a path of one rate and queue both ways, whose hosts fill a queue and
// halve when it drops: bbr, the default of some hosts, would leave it half empty.
func slowPath(t *testing.T, l netlab.Link) *path {
	t.Helper()
	p := newPath(t, l, l)
	for _, h := range []*netlab.Host{p.A, p.B} {
		h.Sysctl("net.ipv4.tcp_congestion_control", "reno")
		// What one test found out is not to be the next one's start.
		h.Sysctl("net.ipv4.tcp_no_metrics_save", "1")
	}
	return p
}

// queueTruth is a path and a load, and what is true of them.
type queueTruth struct {
	name      string
	direction string
	link      netlab.Link // both ways
	duration  time.Duration
	warmup    time.Duration
	to, from  bool // the load fills the queue of this way
	// growth is the least and the most by which the median one-way delay of such a
	// way grows.
	growth [2]time.Duration
	// bytes is how far the throughput of such a way may be from the payload rate.
	bytes float64
	stock bool // compare with the stock client
}

const ms = time.Millisecond

func queueTruths() []queueTruth {
	// Reno's window goes from half of path and queue to all of it, so that three
	// quarters of 58 packets are the mean: 36 of the queue's 50, or 43 ms of its 60.
	home := netlab.Link{Delay: 5 * ms, Rate: 10e6, Queue: 50}
	long := [2]time.Duration{30 * ms, 65 * ms}
	// With each direction's acknowledgements behind the other's data, the round trip
	// that fills the queues is that of both, and neither is as full.
	shared := [2]time.Duration{8 * ms, 65 * ms}
	// Five packets are 6 ms.
	short, few := home, [2]time.Duration{500 * time.Microsecond, 8 * ms}
	short.Queue = 5
	// A tenth of the rate: ten times the delay.
	slow, slowly := home, [2]time.Duration{250 * ms, 650 * ms}
	slow.Rate = 1e6
	return []queueTruth{
		{"up", "up", home, 6 * time.Second, 1500 * ms, true, false, long, 0.05, true},
		{"down", "down", home, 6 * time.Second, 1500 * ms, false, true, long, 0.05, true},
		{"both", "both", home, 6 * time.Second, 1500 * ms, true, true, shared, 0.20, true},
		{"up, short queue", "up", short, 4 * time.Second, 1500 * ms, true, false, few, 0.5, false},
		{"down, short queue", "down", short, 4 * time.Second, 1500 * ms, false, true, few, 0.5, false},
		{"up, slow", "up", slow, 8 * time.Second, 4 * time.Second, true, false, slowly, 0.05, false},
		{"down, slow", "down", slow, 8 * time.Second, 4 * time.Second, false, true, slowly, 0.05, false},
	}
}

// A full queue is seen, in the direction it is in, at the size it has; and the
// stock client sees the same.
func TestLoadTruth(t *testing.T) {
	tests := make(map[string]func(*testing.T))
	for _, q := range queueTruths() {
		tests[q.name] = func(t *testing.T) {
			p := slowPath(t, q.link)
			var loaded []Sample
			measure := func() []string {
				r := p.probe(New(Options{}), q.module)
				loaded = r.Windows[1].Samples
				return q.wrong(t, r)
			}
			bestOf(t, 3, measure)
			p.server.CheckClean()
			if !q.stock || t.Failed() {
				return
			}
			// The stock client's own loads do leave errors in the server's log.
			var means []time.Duration
			for range 3 {
				means = append(means, q.stockMean(t, p))
			}
			bestOf(t, 3, func() []string {
				if loaded == nil {
					measure()
				}
				ours := mean(loaded, (*Sample).RTT)
				loaded = nil
				t.Logf("mean RTT %v, the stock client's %v", ours, means)
				least, most := slices.Min(means), slices.Max(means)
				// Three runs that happen to agree have no spread; the means of runs do vary
				// by a tenth, since the bounces that the queue drops take 200 ms or more.
				margin := max(most-least, least/10)
				if ours < least-margin || ours > most+margin {
					return []string{fmt.Sprintf("mean RTT %v, the stock client's %v", ours, means)}
				}
				return nil
			})
		}
	}
	sideBySide(t, tests)
}

// module measures long enough for a few of reno's cycles, after its start-up.
func (q queueTruth) module(m *config.Module) {
	const baseline = time.Second
	m.TripTimes, m.Period, m.Count = true, 20*ms, config.MaxCount
	m.Duration, m.Timeout = q.duration, baseline+q.warmup+q.duration+20*time.Second
	m.Congest = &config.Congest{Direction: q.direction, Streams: 1, Baseline: baseline, Warmup: q.warmup}
}

func mean(ss []Sample, f func(*Sample) time.Duration) time.Duration {
	return stats.Summarize(sorted(ss, f)).Mean
}

// wrong is what is wrong with a test.
func (q queueTruth) wrong(t *testing.T, r *Result) (wrong []string) {
	t.Helper()
	check := func(ok bool, format string, args ...any) {
		s := fmt.Sprintf(format, args...)
		t.Log(s)
		if !ok {
			wrong = append(wrong, s)
		}
	}
	within := func(what string, d, least, most time.Duration) {
		check(d >= least && d <= most, "%s is %v, want %v to %v", what, d, least, most)
	}
	idle, loaded := r.Windows[0].Samples, r.Windows[1].Samples
	within("idle p50", median(idle, (*Sample).RTT), 2*q.link.Delay, 2*q.link.Delay+1500*time.Microsecond+2*q.transmission())
	check(r.OWDValid(), "one-way delays: %+v", *r.Clock)
	growth := func(what string, full bool, f func(*Sample) time.Duration) {
		least, most := -3*ms, 3*ms
		if full {
			least, most = q.growth[0], q.growth[1]
		}
		within("growth "+what, median(loaded, f)-median(idle, f), least, most)
	}
	growth("to server", q.to, (*Sample).OWDToServer)
	growth("from server", q.from, (*Sample).OWDFromServer)
	if q.to != q.from {
		growth("of the round trip", true, (*Sample).RTT)
	}
	rate := func(what string, full bool, b Optional[uint64], rows int64) {
		if !full {
			check(!b.OK && rows == 0, "bytes %s: %+v, %d in the rows, want none", what, b, rows)
			return
		}
		share := float64(b.V) / r.Load.Duration.Seconds() / (float64(q.link.Rate) / 8 * payload)
		check(b.OK && share >= 1-q.bytes && share <= 1+q.bytes, "%.3f of the link's payload rate %s", share, what)
		// The rows are read a moment before the whole, one packet or two.
		check(rows <= int64(b.V) && rows >= int64(b.V)-64<<10, "%d bytes %s, %d in the rows", b.V, what, rows)
	}
	up, down := q.checkRows(r, check)
	rate("to server", q.to, r.Load.BytesToServer, up)
	rate("from server", q.from, r.Load.BytesFromServer, down)
	check(r.Load.TCPRTTMean.OK == q.to && r.Load.TCPRetransmits.OK == q.to, "of the sender: RTT %+v, retransmits %+v", r.Load.TCPRTTMean, r.Load.TCPRetransmits)
	if q.to && !q.from {
		within("TCP's own RTT of the load", r.Load.TCPRTTMean.V, q.growth[0], 2*q.link.Delay+q.growth[1]+10*ms)
	}
	return wrong
}

// transmission is how long the link takes for a bounce.
func (q queueTruth) transmission() time.Duration {
	return time.Duration(152 * 8 * 1e9 / q.link.Rate)
}

// checkRows: a row a second, each with bounces and, where there is a load, with
// its bytes. It returns the sums of the latter.
func (q queueTruth) checkRows(r *Result, check func(bool, string, ...any)) (up, down int64) {
	for i, w := range r.Windows {
		end := w.Start
		for k, row := range w.Rows {
			loaded := i == 1
			check(row.Window == i && row.Replies > 0 && row.RTTMax >= row.RTTSum/time.Duration(max(row.Replies, 1)) &&
				(row.LoadUp > 0) == (loaded && q.to) && (row.LoadDown > 0) == (loaded && q.from) && row.TCP.RTT.OK,
				"row %d of window %d after %v: %d replies, mean %v, max %v, load %d up %d down", k, i, time.Duration(row.End-end),
				row.Replies, row.RTTSum/time.Duration(max(row.Replies, 1)), row.RTTMax, row.LoadUp, row.LoadDown)
			end = row.End
			up, down = up+row.LoadUp, down+row.LoadDown
		}
	}
	want := int(q.duration / time.Second)
	rows := len(r.Windows[1].Rows)
	check(rows == want || rows == want+1, "%d rows in %v", rows, q.duration)
	return up, down
}

// stockMean runs the stock client's own loaded test and returns its mean RTT from
// the third second on, when the queue has filled.
func (q queueTruth) stockMean(t *testing.T, p *path) time.Duration {
	t.Helper()
	option := q.direction
	if option == "both" {
		option = "bidir"
	}
	var out string
	for range 4 {
		c := iperftest.StartClient(t, p.A.Command, p.server.Addr, "--bounceback=1", "--bounceback-period", "0.02",
			"--bounceback-congest="+option, "-t", "8", "-i", "2")
		var err error
		// This client hangs for ever if a reply takes half an interval, as one that the
		// queue drops now and then does.
		if out, _, err = c.Wait(12 * time.Second); err != nil {
			t.Logf("the stock client: %v", err)
		} else if mean, ok := meanOfRows(t, out, 2); ok {
			return mean
		}
	}
	t.Fatalf("no means in the stock client's report:\n%s", out)
	return 0
}

// stockRow is a line of the stock client's report: interval, count and mean RTT.
var stockRow = regexp.MustCompile(`(?m)^\[ *\d+\] (\d+\.\d+)-(\d+\.\d+) sec .*? (\d+)=(\d+\.\d+)/`)

// meanOfRows is the mean of a report's lines that begin at skip seconds or later.
func meanOfRows(t *testing.T, out string, skip float64) (time.Duration, bool) {
	t.Helper()
	var n, sum float64
	number := func(s string) float64 {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for _, row := range stockRow.FindAllStringSubmatch(out, -1) {
		if number(row[1]) >= skip {
			count := number(row[3])
			n, sum = n+count, sum+count*number(row[4])
		}
	}
	return time.Duration(sum / n * float64(time.Millisecond)), n > 0
}

// A path of which a lot is under way at any time is filled too, though the load
// wakes up seldom to read.
func TestLoadFillsALongPath(t *testing.T) {
	const rate = 50e6
	l := netlab.Link{Delay: 40 * ms, Rate: rate, Queue: 400}
	tests := make(map[string]func(*testing.T))
	for _, dir := range []string{"up", "down"} {
		tests[dir] = func(t *testing.T) {
			p := slowPath(t, l)
			bestOf(t, 3, func() []string {
				pr := New(Options{})
				r := p.probe(pr, loaded(dir, 1, 4*time.Second), func(m *config.Module) {
					m.Congest.Warmup, m.Timeout = 3*time.Second, 20*time.Second
				})
				checkEnded(t, pr, 10*time.Second)
				share := float64(max(r.Load.BytesToServer.V, r.Load.BytesFromServer.V)) / r.Load.Duration.Seconds() / (rate / 8 * payload)
				t.Logf("%.3f of the link's payload rate", share)
				if share < 0.85 {
					return []string{fmt.Sprintf("%.3f of the link's payload rate", share)}
				}
				return nil
			})
			p.server.CheckClean()
		}
	}
	sideBySide(t, tests)
}

// Over a satellite, opening two streams one after the other takes two seconds;
// none of them ends before the window does.
func TestLoadOpensOnALongPath(t *testing.T) {
	tests := make(map[string]func(*testing.T))
	for _, dir := range []string{"up", "down", "both"} {
		tests[dir] = func(t *testing.T) {
			l := netlab.Link{Delay: 250 * ms, Rate: 20e6}
			p := newPath(t, l, l)
			pr := New(Options{})
			r := p.probe(pr, loaded(dir, 2, time.Second), func(m *config.Module) { m.Timeout = 20 * time.Second })
			checkLoad(t, r, 20e3)
			checkEnded(t, pr, 20*time.Second)
			p.server.CheckClean()
		}
	}
	sideBySide(t, tests)
}
