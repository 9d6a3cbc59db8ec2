package promcompat

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"

	"github.com/bounceback-exporter/bounceback_exporter/collector"
	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/prober"
	"github.com/bounceback-exporter/bounceback_exporter/prober/peers"
	"github.com/bounceback-exporter/bounceback_exporter/responder"
	"github.com/bounceback-exporter/bounceback_exporter/web"
)

// modules of the real exporter in these tests: short, since time is dear.
const modules = `
allowed_targets:
  networks: [127.0.0.0/8]
modules:
  rtt:
    trip_times: true
    count: 300
    duration: 5s
  paced:
    trip_times: true
    period: 5ms
    burst: 3
    hold: 1ms
    duration: 300ms
  load:
    duration: 300ms
    period: 5ms
    congest:
      baseline: 200ms
      warmup: 100ms
      min_interval: 1h
`

// recorder keeps what the prober found: the truth that the server's figures are
// held against.
type recorder struct {
	*prober.Prober
	mu      sync.Mutex
	results []*prober.Result
}

func (r *recorder) Run(ctx context.Context, job *prober.Job) *prober.Result {
	res := r.Prober.Run(ctx, job)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results = append(r.results, res)
	return res
}

// take returns what was found since the last call.
func (r *recorder) take() []*prober.Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.results
	r.results = nil
	return out
}

// exporter is the whole HTTP side with the real prober behind it.
func exporter(t *testing.T) (*web.Handler, *recorder) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "bounceback.yml")
	if err := os.WriteFile(file, []byte(modules), 0o600); err != nil {
		t.Fatal(err)
	}
	store, err := config.NewStore([]string{file})
	if err != nil {
		t.Fatal(err)
	}
	urls, err := web.NewURLs("", "")
	if err != nil {
		t.Fatal(err)
	}
	table := peers.New(peers.Options{})
	p := prober.New(prober.Options{Peers: table})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := p.Wait(ctx); err != nil {
			t.Errorf("something still goes on in the background: %v", err)
		}
	})
	registry := prometheus.NewRegistry()
	r := &recorder{Prober: p}
	return web.NewHandler(web.Options{
		Runner: r, Background: p, Peers: table, Config: store,
		Self: collector.NewSelf(registry, collector.SelfOptions{
			DrainsInFlight: p.DrainsInFlight, DrainsAbandoned: p.DrainsAbandoned,
		}),
		Gatherer: registry, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), URLs: urls,
	}), r
}

// servers are those that can be had here.
func servers(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{"our responder": ownServer(t)}
	if path, err := exec.LookPath("iperf"); err == nil {
		out["iperf 2"] = iperfServer(t, path)
	} else {
		t.Log("no iperf 2 is installed: only our own responder is probed")
	}
	return out
}

func ownServer(t *testing.T) string {
	t.Helper()
	ln, err := responder.Listen(context.Background(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	r := responder.New(responder.Options{})
	go func() { done <- r.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return ln.Addr().String()
}

func iperfServer(t *testing.T, path string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "-s", "-p", port)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	// No bare connection may ask whether it listens: that would damage the server.
	time.Sleep(500 * time.Millisecond)
	return addr
}

// TestRealProbe: what the real handler serves of real probes, native and classic.
func TestRealProbe(t *testing.T) {
	for name, address := range servers(t) {
		for _, mod := range []string{"rtt", "paced"} {
			t.Run(name+", "+mod, func(t *testing.T) {
				h, probes := exporter(t)
				url := fmt.Sprintf("/probe?target=%s&module=%s", address, mod)
				p := newProm(t, true)
				const n = 3
				at := epoch()
				for i := range n {
					at = epoch().Add(time.Duration(i) * interval)
					p.scrape(h, url, at, target()...)
				}
				var truth measured
				for _, res := range probes.take() {
					if !res.Success() {
						t.Fatalf("a probe failed: %v", res.Err)
					}
					truth.add(res)
				}
				if got := p.number("sum_over_time(probe_success[1h])", at); got != n {
					t.Errorf("%v probes succeeded, want %d", got, n)
				}
				holdsHour(t, p, at, "probe_bounceback_rtt_seconds", truth.rtt)
				holdsHour(t, p, at, "probe_bounceback_network_rtt_seconds", truth.network)
				holdsHour(t, p, at, `probe_bounceback_owd_seconds{direction="to_server"}`, truth.to)
				holdsHour(t, p, at, `probe_bounceback_owd_seconds{direction="from_server"}`, truth.from)
				holdsHour(t, p, at, "probe_bounceback_asymmetry_seconds", truth.asymmetry)
				replies := p.number("sum_over_time(probe_bounceback_replies[1h])", at)
				discarded := p.number("sum_over_time(probe_bounceback_network_rtt_discarded[1h])", at)
				if replies != float64(len(truth.rtt)) || replies != float64(len(truth.network))+discarded {
					t.Errorf("%v replies, %v discarded; %d round trips, %d of the network", replies, discarded, len(truth.rtt), len(truth.network))
				}
				onlyGauges(t, p)

				q := newProm(t, false)
				q.scrape(h, url, epoch(), target()...)
				one := probes.take()[0]
				got := q.number(`probe_bounceback_rtt_seconds_bucket{le="+Inf"}`, epoch())
				if want := len(one.Windows[0].Samples); got != float64(want) {
					t.Errorf("classic: %v round trips, want %d", got, want)
				}
			})
		}
	}
}

// holdsHour compares count, mean and quantiles of a distribution with its values.
func holdsHour(t *testing.T, p *prom, at time.Time, expr string, values []float64) {
	t.Helper()
	sum := fmt.Sprintf("sum_over_time(%s[1h])", expr)
	h := p.histogram(sum, at)
	if h.Count != float64(len(values)) || len(values) == 0 {
		t.Fatalf("%s: count %v, want %d", expr, h.Count, len(values))
	}
	mean := 0.0
	for _, v := range values {
		mean += v / float64(len(values))
	}
	if got := p.number("histogram_avg("+sum+")", at); math.Abs(got-mean) > 1e-12 {
		t.Errorf("%s: mean %v, want %v", expr, got, mean)
	}
	slices.Sort(values)
	for _, q := range []float64{.01, .25, .5, .75, .95, .99} {
		got := p.number(fmt.Sprintf("histogram_quantile(%v, %s)", q, sum), at)
		if exact := quantiles(values, q); !inBucketOf(h, got, exact) {
			t.Errorf("%s: quantile %v is %v, exactly %v", expr, q, got, exact)
		}
	}
}

// onlyGauges: nothing of a probe accumulates.
func onlyGauges(t *testing.T, p *prom) {
	t.Helper()
	for name, typ := range p.types {
		if typ != model.MetricTypeGauge && typ != model.MetricTypeGaugeHistogram {
			t.Errorf("%s is a %s", name, typ)
		}
	}
}

// TestRealLoad: a load's two windows, and the same result given again, which must
// not count twice where only fresh ones are taken.
func TestRealLoad(t *testing.T) {
	h, probes := exporter(t)
	url := fmt.Sprintf("/probe?target=%s&module=load", ownServer(t))
	p := newProm(t, true)
	at := epoch()
	for i := range 3 {
		at = epoch().Add(time.Duration(i) * interval)
		p.scrape(h, url, at, target()...)
	}
	results := probes.take()
	if len(results) != 1 || !results[0].Success() {
		t.Fatalf("%d loads were run, the first ended with %v; want one success", len(results), results[0].Err)
	}
	for _, w := range results[0].Windows {
		expr := fmt.Sprintf(`probe_bounceback_rtt_seconds{load=%q}`, w.Load)
		if got := p.histogram(expr, at); got.Count != float64(len(w.Samples)) {
			t.Errorf("%s: %v, want %d", expr, got.Count, len(w.Samples))
		}
		fresh := fmt.Sprintf("histogram_count(sum_over_time((%s and on (job, instance, module) probe_bounceback_result_age_seconds == 0)[1h:1m]))", expr)
		if got := p.number(fresh, at); got != float64(len(w.Samples)) {
			t.Errorf("%s: %v, want %d: a repeated result counted", fresh, got, len(w.Samples))
		}
	}
	if v := p.clean("probe_bounceback_load_bytes > 0", at); len(v) != 2 {
		t.Errorf("bytes in %d directions, want 2", len(v))
	}
}
