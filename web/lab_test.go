package web

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/bounceback-exporter/bounceback_exporter/collector"
	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/prober"
	"github.com/bounceback-exporter/bounceback_exporter/prober/peers"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		http.DefaultClient.CloseIdleConnections()
		if err := goleak.Find(); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			code = 1
		}
	}
	os.Exit(code)
}

// fakeRunner is a prober without a network. Resolving knows literal addresses and
// the names in hosts.
type fakeRunner struct {
	hosts map[string]string
	run   func(ctx context.Context, job *prober.Job) *prober.Result // nil: success at once
	runs  atomic.Int32
}

func (f *fakeRunner) Resolve(_ context.Context, job *prober.Job) *prober.Result {
	host := job.Target.Host
	if a, ok := f.hosts[host]; ok {
		host = a
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return unfinished(job, time.Now(), &prober.Error{Phase: prober.PhaseResolve, Reason: prober.ReasonResolve, Cause: err})
	}
	job.Addr = netip.AddrPortFrom(ip, job.Target.Port)
	job.ResolveTook = prober.Some(time.Millisecond)
	return nil
}

func (f *fakeRunner) Run(ctx context.Context, job *prober.Job) *prober.Result {
	f.runs.Add(1)
	if err := job.Allowed.Check(job.Addr); err != nil {
		return unfinished(job, time.Now(), &prober.Error{Phase: prober.PhaseConnect, Reason: prober.ReasonTargetDenied, Cause: err})
	}
	if f.run != nil {
		return f.run(ctx, job)
	}
	return bounced(job)
}

// bounced is a result with three bounces.
func bounced(job *prober.Job) *prober.Result {
	r := &prober.Result{
		Module: job.Module, Target: job.Target, Addr: job.Addr, Start: job.Start,
		Elapsed:      time.Since(job.Start),
		RequestBytes: job.Module.Size, ReplyBytes: job.Module.EffectiveReplySize(),
		Log: []prober.LogLine{{At: time.Millisecond, Message: "bounced three times"}},
	}
	r.Phases[prober.PhaseWait] = prober.Some(job.Waited)
	w := prober.Window{Load: prober.LoadNone, Requests: 3, End: int64(time.Second)}
	for i := range int64(3) {
		w.Samples = append(w.Samples, prober.Sample{
			Sent: i * 1e6, Received: i*1e6 + 250_000, SentWall: i * 1e6, ReceivedWall: i*1e6 + 250_000,
			ServerReceive: i*1e6 + 100_000, ServerSend: i*1e6 + 110_000})
	}
	r.Windows = []prober.Window{w}
	if job.Module.Congest != nil {
		r.Load = &prober.Load{Direction: prober.LoadBoth, Started: true, Streams: 1}
	}
	return r
}

// untilDone waits for the end of its probe and says why it failed.
func untilDone(ctx context.Context, job *prober.Job) *prober.Result {
	<-ctx.Done()
	reason := prober.ReasonSilent
	if ctx.Err() == context.Canceled {
		reason = prober.ReasonCancelled
	}
	return unfinished(job, time.Now(), &prober.Error{Phase: prober.PhaseHandshake, Reason: reason, Cause: ctx.Err()})
}

// fakeSource is a configuration that a test can change.
type fakeSource struct {
	mu   sync.Mutex
	cfg  *config.Config
	next func() (*config.Config, error) // nil: the same again
}

func (s *fakeSource) Current() *config.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cfg
}

func (s *fakeSource) Reload() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		return nil
	}
	cfg, err := s.next()
	if err == nil {
		s.cfg = cfg
	}
	return err
}

// fakeBackground has nothing going on unless told so.
type fakeBackground struct {
	drains     atomic.Int64
	halfClosed atomic.Int32
}

func (b *fakeBackground) DrainsInFlight() int { return int(b.drains.Load()) }
func (b *fakeBackground) HalfCloseAll()       { b.halfClosed.Add(1) }
func (b *fakeBackground) Wait(ctx context.Context) error {
	for b.drains.Load() > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

// lab is a Handler with everything around it.
type lab struct {
	*Handler
	runner     *fakeRunner
	source     *fakeSource
	background *fakeBackground
	registry   *prometheus.Registry
	log        *lockedBuffer
}

// lockedBuffer is a log that may be read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// newLab makes a lab with these modules; change may adjust the options.
func newLab(cfg *config.Config, change func(*Options)) *lab {
	l := &lab{
		runner: &fakeRunner{hosts: map[string]string{}}, source: &fakeSource{cfg: cfg},
		background: &fakeBackground{}, registry: prometheus.NewRegistry(), log: &lockedBuffer{},
	}
	o := Options{
		Runner: l.runner, Background: l.background, Peers: peers.New(peers.Options{}), Config: l.source,
		Self:     collector.NewSelf(l.registry, collector.SelfOptions{DrainsInFlight: l.background.DrainsInFlight}),
		Gatherer: l.registry, Logger: slog.New(slog.NewTextHandler(l.log, nil)), ProbeLogLevel: slog.LevelDebug,
		TimeoutOffset: 500 * time.Millisecond, HistoryLimit: 100, ExampleTarget: "localhost", Version: "test",
	}
	if change != nil {
		change(&o)
	}
	l.Handler = NewHandler(o)
	return l
}

// get asks the handler itself, without a network.
func (l *lab) get(path string, header ...string) *httptest.ResponseRecorder {
	return l.do(httptest.NewRequest(http.MethodGet, path, nil), header...)
}

func (l *lab) do(r *http.Request, header ...string) *httptest.ResponseRecorder {
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	l.ServeHTTP(w, r)
	return w
}

// metric is the value of a series of /metrics, as written there; "" if absent.
func (l *lab) metric(series string) string { return seriesOf(l.get("/metrics").Body.String(), series) }

// seriesOf finds a series in an exposition.
func seriesOf(exposition, series string) string {
	for line := range strings.Lines(exposition) {
		if v, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// serve puts the handler on a real port for the length of a test.
func (l *lab) serve(t *testing.T) string {
	srv := httptest.NewServer(l)
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	return srv.URL
}

// fetch gets a page over the network.
func fetch(t *testing.T, url string) (int, http.Header, string) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(body)
}
