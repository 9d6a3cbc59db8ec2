package config

import "time"

// Ranges of a module's values. Sizes are in bytes, header included.
const (
	// MinSize is the smallest request that every iperf 2 release answers.
	MinSize = 68
	// MaxSize is the largest message that every release survives: servers up to
	// 2.1.9 overflow their heap above it.
	MaxSize = 131072
	// MinReplySize is the smallest reply that carries a whole header.
	MinReplySize = 64

	// MinPeriod keeps the schedule above what a host can wake up for.
	MinPeriod = 100 * time.Microsecond
	// MinTimeout and MaxTimeout bound a probe. The upper end also keeps a hold
	// within the 32 bits of microseconds that it has on the wire.
	MinTimeout = time.Millisecond
	MaxTimeout = time.Hour

	// MaxStreams is the largest number of load streams of a module.
	MaxStreams = 64
	// MaxMinInterval is the longest time for which a load result is given again.
	MaxMinInterval = 7 * 24 * time.Hour

	MinBucketFactor   = 1.003 // the finest schema there is, 8
	MaxBucketFactor   = 2.0   // schema 0
	MinMaxBuckets     = 16
	MaxMaxBuckets     = 1000
	MaxClassicBuckets = 100

	// MaxModules bounds the series on /metrics: each module has its own.
	MaxModules = 1000
)

// Values that a module has unless it says otherwise.
const (
	DefaultModuleName = "bounceback" // of the built-in module, where no file is given

	DefaultSize     = 100 // as iperf 2
	DefaultDuration = 2 * time.Second
	DefaultCount    = 1000
	DefaultTimeout  = 10 * time.Second

	DefaultBucketFactor          = 1.05 // 4.4 % wide buckets
	DefaultAsymmetryBucketFactor = 1.1  // 9.1 %
	DefaultMaxBuckets            = 256
)

// DefaultModule is a module that sets nothing.
func DefaultModule(name string) *Module {
	return &Module{
		Name:                name,
		Size:                DefaultSize,
		Burst:               1,
		Duration:            DefaultDuration,
		Count:               DefaultCount,
		QuickAck:            true,
		Timeout:             DefaultTimeout,
		PreferredIPProtocol: "ip6",
		IPProtocolFallback:  true,
		Histograms: Histograms{
			BucketFactor:            DefaultBucketFactor,
			AsymmetryBucketFactor:   DefaultAsymmetryBucketFactor,
			MaxBuckets:              DefaultMaxBuckets,
			ClassicBuckets:          DefaultClassicBuckets(),
			AsymmetryClassicBuckets: DefaultAsymmetryClassicBuckets(),
		},
	}
}

// DefaultCongest is what `congest: true` stands for.
func DefaultCongest() *Congest {
	return &Congest{
		Direction:   "both",
		Streams:     1,
		Baseline:    time.Second,
		Warmup:      500 * time.Millisecond,
		MinInterval: 5 * time.Minute,
	}
}

// DefaultLimits are those of a configuration that sets none.
func DefaultLimits() Limits {
	return Limits{MaxConcurrentProbes: 100, MaxPerTarget: 10, MaxWaiting: 200, MaxDrains: 200}
}

// DefaultClassicBuckets are the upper bounds of RTT and OWD in seconds: steps of
// 1, 2, 5 from a local network to a broken path.
func DefaultClassicBuckets() []float64 {
	return []float64{
		0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005,
		0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2,
	}
}

// DefaultAsymmetryClassicBuckets are the upper bounds of the asymmetry in
// seconds, the same on both sides of zero.
func DefaultAsymmetryClassicBuckets() []float64 {
	return []float64{
		-0.1, -0.05, -0.02, -0.01, -0.005, -0.002, -0.001, -0.0005, -0.0002, -0.0001,
		0,
		0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1,
	}
}

// Default is the configuration without a file: one module, DefaultModuleName, and
// nothing forbidden.
func Default() *Config {
	return &Config{
		Limits:  DefaultLimits(),
		Modules: map[string]*Module{DefaultModuleName: DefaultModule(DefaultModuleName)},
	}
}
