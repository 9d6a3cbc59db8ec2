package collector

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/collectors/version"

	"github.com/bounceback-exporter/bounceback_exporter/prober"
)

// SelfOptions are the figures whose truth lies elsewhere; they are asked for at
// each scrape. A nil function is a figure that is absent.
type SelfOptions struct {
	// DrainsInFlight is the number of connections being ended in the background.
	DrainsInFlight func() int
	// DrainsAbandoned is how many of them were closed at their bound so far.
	DrainsAbandoned func() uint64
}

// Self is the exporter's own metrics, those of /metrics. It is safe for concurrent
// use.
type Self struct {
	reloadOK, reloadTime prometheus.Gauge
	inFlight, waiting    prometheus.Gauge

	probes   *prometheus.CounterVec
	failures *prometheus.CounterVec
	duration *prometheus.HistogramVec
	rejected *prometheus.CounterVec

	// mu guards modules, and keeps a probe that ends late from bringing the series
	// of a removed module back.
	mu      sync.Mutex
	modules []string
}

// NewSelf registers the exporter's own metrics, its build information and the Go
// and process collectors. It panics if one of the exporter's own names is taken
// already.
func NewSelf(reg prometheus.Registerer, o SelfOptions) *Self {
	s := &Self{
		reloadOK:   newGauge(selfReloadOK, helpReloadOK),
		reloadTime: newGauge(selfReloadTime, helpReloadTime),
		inFlight:   newGauge(selfInFlight, helpInFlight),
		waiting:    newGauge(selfWaiting, helpWaiting),
		probes:     newCounters(selfProbes, helpProbes, labelModule),
		failures:   newCounters(selfFailures, helpFailures, labelModule, labelReason),
		rejected:   newCounters(selfRejected, helpRejected, labelCause),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: selfDuration, Help: helpDuration,
			Buckets:                        []float64{.01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 20, 50},
			NativeHistogramBucketFactor:    1.1,
			NativeHistogramMaxBucketNumber: 100,
		}, []string{labelModule}),
	}
	for _, cause := range Causes() {
		s.rejected.WithLabelValues(cause)
	}
	reg.MustRegister(version.NewCollector(program), s.reloadOK, s.reloadTime, s.inFlight, s.waiting,
		s.probes, s.failures, s.duration, s.rejected)
	if o.DrainsInFlight != nil {
		reg.MustRegister(prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Name: selfDrains, Help: helpDrains},
			func() float64 { return float64(o.DrainsInFlight()) }))
	}
	if o.DrainsAbandoned != nil {
		reg.MustRegister(prometheus.NewCounterFunc(
			prometheus.CounterOpts{Name: selfDrainsDropped, Help: helpDrainsDropped},
			func() float64 { return float64(o.DrainsAbandoned()) }))
	}
	// The default registry has these two from the start, which is just as well.
	_ = reg.Register(collectors.NewGoCollector())
	_ = reg.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return s
}

func newGauge(name, help string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

func newCounters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// SetModules makes the series of all these modules exist, at zero where they are
// new, and takes away those of all others. Call it after each load of the
// configuration.
func (s *Self) SetModules(names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, gone := range s.modules {
		if slices.Contains(names, gone) {
			continue
		}
		s.probes.DeleteLabelValues(gone)
		s.duration.DeleteLabelValues(gone)
		s.failures.DeletePartialMatch(prometheus.Labels{labelModule: gone})
	}
	s.modules = slices.Clone(names)
	for _, name := range names {
		s.probes.WithLabelValues(name)
		s.duration.WithLabelValues(name)
		for _, reason := range prober.Reasons() {
			s.failures.WithLabelValues(name, string(reason))
		}
	}
}

// ProbeStarted counts a probe as running. Each needs a ProbeDone. A request that
// is given the result of another one is no probe.
func (s *Self) ProbeStarted(module string) { s.inFlight.Inc() }

// ProbeDone counts a probe and, if it failed, its reason. Of a module that a
// reload has taken away meanwhile nothing is counted.
func (s *Self) ProbeDone(module string, r *prober.Result) {
	s.inFlight.Dec()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.modules, module) {
		return
	}
	s.probes.WithLabelValues(module).Inc()
	s.duration.WithLabelValues(module).Observe(r.Elapsed.Seconds())
	if r.Err != nil {
		s.failures.WithLabelValues(module, string(r.Err.Reason)).Inc()
	}
}

// Waiting changes the number of requests that wait for their admission by delta.
func (s *Self) Waiting(delta int) { s.waiting.Add(float64(delta)) }

// Rejected counts a request that was answered with 503; cause is one of Causes.
func (s *Self) Rejected(cause string) { s.rejected.WithLabelValues(cause).Inc() }

// Reloaded tells the outcome of an attempt to load the configuration, the first
// one included.
func (s *Self) Reloaded(ok bool, at time.Time) {
	if !ok {
		s.reloadOK.Set(0)
		return
	}
	s.reloadOK.Set(1)
	s.reloadTime.Set(float64(at.UnixMilli()) / 1e3)
}
