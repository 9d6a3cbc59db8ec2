//go:build !race

// Package race tells tests whether they run with the race detector, which makes them
// several times as slow and takes memory of its own.
package race

// Enabled tells whether this was built with it.
const Enabled = false
