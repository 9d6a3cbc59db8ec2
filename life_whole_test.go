package main

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bounceback-exporter/bounceback_exporter/collector"
	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/prober"
	"github.com/bounceback-exporter/bounceback_exporter/prober/peers"
	"github.com/bounceback-exporter/bounceback_exporter/web"
)

// whole is the exporter inside this process, put together as serve does, for what
// can't be had from outside: a resolver of the test's own, shorter bounds, and a
// look at its memory.
type whole struct {
	http.Handler
	prober *prober.Prober
	peers  *peers.Table
	log    *lockedText
}

// newWhole makes one of a configuration; o.Peers is its own.
func newWhole(t testing.TB, configuration string, o prober.Options) *whole {
	t.Helper()
	store, err := config.NewStore([]string{writeConfig(t, configuration)})
	if err != nil {
		t.Fatal(err)
	}
	w := &whole{peers: peers.New(peers.Options{}), log: &lockedText{}}
	o.Peers = w.peers
	w.prober = prober.New(o)
	registry := prometheus.NewRegistry()
	w.Handler = web.NewHandler(web.Options{
		Runner: w.prober, Background: w.prober, Peers: w.peers, Config: store,
		Self: collector.NewSelf(registry, collector.SelfOptions{
			DrainsInFlight: w.prober.DrainsInFlight, DrainsAbandoned: w.prober.DrainsAbandoned,
		}),
		Gatherer: registry, Logger: slog.New(slog.NewTextHandler(w.log, nil)), ProbeLogLevel: slog.LevelDebug,
		TimeoutOffset: 500 * time.Millisecond, HistoryLimit: 100, Version: "test", ExampleTarget: "localhost",
	})
	return w
}

// get asks the handler itself, without HTTP in between; header are pairs.
func (w *whole) get(path string, header ...string) (int, string) {
	return w.getContext(context.Background(), path, header...)
}

// getContext is get for a client that goes away when ctx ends.
func (w *whole) getContext(ctx context.Context, path string, header ...string) (int, string) {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r)
	return rec.Code, rec.Body.String()
}

// metric is a series of /metrics.
func (w *whole) metric(name string) string {
	_, body := w.get("/metrics")
	return series(body, name)
}

// quiet waits until nothing goes on in the background.
func (w *whole) quiet(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := w.prober.Wait(ctx); err != nil {
		t.Errorf("%d connections are still being ended", w.prober.DrainsInFlight())
	}
}

// lockedText is a log that may be read while it is written.
type lockedText struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
