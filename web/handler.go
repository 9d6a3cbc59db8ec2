// Package web is the HTTP side: /probe with its admission, shared load results and
// history, the pages, reload and health, and the life cycle of the server.
package web

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/bounceback-exporter/bounceback_exporter/collector"
	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/prober"
	"github.com/bounceback-exporter/bounceback_exporter/prober/peers"
)

// Runner does probes. *prober.Prober is one.
type Runner interface {
	Resolve(ctx context.Context, job *prober.Job) *prober.Result
	Run(ctx context.Context, job *prober.Job) *prober.Result
}

// Background is what goes on after answers were given. *prober.Prober is one.
type Background interface {
	DrainsInFlight() int
	Wait(ctx context.Context) error
	HalfCloseAll()
}

// Entrance admits probes to an address. *peers.Table is one.
type Entrance interface {
	Enter(ctx context.Context, addr netip.AddrPort, exclusive bool) (*peers.Lease, error)
}

// ConfigSource is the configuration in force. *config.Store is one.
type ConfigSource interface {
	Current() *config.Config
	// Reload reads it again and puts it in force if all of it is valid.
	Reload() error
}

// Options are what a Handler needs; all without a default are required.
type Options struct {
	Runner     Runner
	Background Background
	Peers      Entrance
	Config     ConfigSource
	Self       *collector.Self
	// Gatherer of /metrics.
	Gatherer prometheus.Gatherer
	Logger   *slog.Logger
	// ProbeLogLevel is the level at which the log says what targets do.
	ProbeLogLevel slog.Level
	// TimeoutOffset is taken off the scrape timeout.
	TimeoutOffset time.Duration
	// HistoryLimit is how many requests are remembered; 0: none.
	HistoryLimit int
	URLs         URLs
	// Version for people.
	Version string
	// ExampleTarget is what the ready-made links probe.
	ExampleTarget string
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Handler serves all paths. It is safe for concurrent use.
type Handler struct {
	runner        Runner
	background    Background
	peers         Entrance
	config        ConfigSource
	self          *collector.Self
	logger        *slog.Logger
	probeLogLevel slog.Level
	timeoutOffset time.Duration
	urls          URLs
	version       string
	exampleTarget string
	now           func() time.Time
	writeTime     time.Duration // for the client to take an answer

	admission *admission
	loads     *loads
	history   *history
	pages     *pages
	routes    map[string]route
	stopping  atomic.Bool
	reloading sync.Mutex
}

type route struct {
	methods []string
	serve   http.HandlerFunc
}

// writeTime is how long a client may take to read an answer.
const writeTime = 30 * time.Second

// maxURL bounds the path and query of a request in bytes. The longest sensible
// ones are a name of 255 bytes and a module name.
const maxURL = 4 << 10

// NewHandler makes a Handler and counts the configuration in force as loaded.
func NewHandler(o Options) *Handler {
	h := &Handler{
		runner: o.Runner, background: o.Background, peers: o.Peers, config: o.Config, self: o.Self,
		logger: o.Logger, probeLogLevel: o.ProbeLogLevel, timeoutOffset: o.TimeoutOffset,
		urls: o.URLs, version: o.Version, exampleTarget: o.ExampleTarget, now: o.Now,
		writeTime: writeTime, history: newHistory(o.HistoryLimit), pages: newPages(o.URLs, o.Version),
	}
	if h.now == nil {
		h.now = time.Now
	}
	h.loads = newLoads(h.now)
	h.admission = newAdmission(o.Config.Current().Limits, o.Background.DrainsInFlight,
		func() int { return backToBackPerCPU * runtime.GOMAXPROCS(0) }, o.Self.Waiting)
	h.loaded()

	get := []string{http.MethodGet, http.MethodHead}
	h.routes = map[string]route{
		// No HEAD: a probe whose result nobody gets would load a server for nothing.
		"/probe":          {[]string{http.MethodGet}, h.probe},
		"/metrics":        {get, promhttp.HandlerFor(o.Gatherer, promhttp.HandlerOpts{}).ServeHTTP},
		"/":               {get, h.landing},
		"/config":         {get, h.configPage},
		"/history":        {get, h.historyPage},
		"/history/latest": {get, h.latestPage},
		"/-/healthy":      {get, h.healthy},
		"/-/ready":        {get, h.ready},
		"/-/reload":       {[]string{http.MethodPost, http.MethodPut}, h.reload},
	}
	return h
}

// ServeHTTP finds the page, and bounds what a request may cost before it is one.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer h.survive(w)
	setWriteDeadline(w, h.writeTime)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if len(r.RequestURI) > maxURL {
		http.Error(w, "the URL is too long", http.StatusRequestURITooLong)
		return
	}
	if r.ContentLength != 0 {
		// Nothing here reads a body, and waiting for one that trickles in would
		// keep the connection busy.
		refuseBody(w)
		return
	}
	local, ok := h.urls.local(r.URL.Path)
	if !ok {
		if home := r.URL.Path == "/" || r.URL.Path == h.urls.route; home && r.Method != http.MethodConnect {
			http.Redirect(w, r, h.urls.path("/"), http.StatusFound)
			return
		}
		http.NotFound(w, r)
		return
	}
	rt, ok := h.routes[local]
	if !ok && strings.HasPrefix(local, "/history/") {
		rt, ok = route{h.routes["/history"].methods, h.entryPage}, true
	}
	switch {
	case !ok:
		http.NotFound(w, r)
	case !slices.Contains(rt.methods, r.Method):
		w.Header().Set("Allow", strings.Join(rt.methods, ", "))
		http.Error(w, methodText(r.Method, rt.methods), http.StatusMethodNotAllowed)
	default:
		rt.serve(w, r)
	}
}

// methodText says which methods a page takes: GET is not allowed here; POST and
// PUT are.
func methodText(method string, allowed []string) string {
	verb := "is"
	if len(allowed) > 1 {
		verb = "are"
	}
	return fmt.Sprintf("%s is not allowed here; %s %s", method, strings.Join(allowed, " and "), verb)
}

// survive answers 500 where a page has a bug.
func (h *Handler) survive(w http.ResponseWriter) {
	v := recover()
	if v == nil {
		return
	}
	if v == http.ErrAbortHandler {
		panic(v)
	}
	h.logger.Error("a page panicked; please report this", "panic", v, "stack", string(debug.Stack()))
	http.Error(w, "a bug of the exporter; its log says more", http.StatusInternalServerError)
}

// setWriteDeadline bounds the time from now until the client has taken the
// answer. A writer without deadlines, as in tests, is fine.
func setWriteDeadline(w http.ResponseWriter, d time.Duration) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d))
}

// refuseBody answers without waiting for a request's body.
func refuseBody(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now())
	w.Header().Set("Connection", "close")
	http.Error(w, "a request with a body is not allowed here", http.StatusRequestEntityTooLarge)
}

func (h *Handler) healthy(w http.ResponseWriter, _ *http.Request) {
	plainText(w, []byte("bounceback_exporter is healthy.\n"))
}

func (h *Handler) ready(w http.ResponseWriter, _ *http.Request) {
	if h.stopping.Load() {
		http.Error(w, "bounceback_exporter is stopping.", http.StatusServiceUnavailable)
		return
	}
	plainText(w, []byte("bounceback_exporter is ready.\n"))
}
