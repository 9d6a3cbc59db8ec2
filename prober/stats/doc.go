// Package stats is the arithmetic of the probes: exact statistics of a set of
// durations, and the binning of raw samples into Prometheus' native and classic
// buckets and into iperf 2's bins. It is pure: no sockets, no clock, no logger,
// and nothing of Prometheus.
//
// Everything is computed from the raw samples after a test, so that count, sum,
// minimum and maximum are exact and a bucket holds precisely what belongs into it.
package stats
