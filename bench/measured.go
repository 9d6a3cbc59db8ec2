//go:build linux

package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/prober/stats"
)

// header is the first line of what a measuring child prints; N RTTs follow, then
// Late kernel-to-user delays: 64 bit nanoseconds.
type header struct {
	N    int   `json:"n"`
	CPU  int64 `json:"cpu_ns"`  // of the process, from before the first bounce to after the last
	Wall int64 `json:"wall_ns"` // likewise
	Late int   `json:"late,omitempty"`

	// With a load: bytes in the measured window, which Wall then is the length of.
	Up   uint64 `json:"up,omitempty"`
	Down uint64 `json:"down,omitempty"`
}

// measured is what one run of one way yielded. What a way can't tell is NaN-free:
// it is simply not in the map.
type measured map[string]float64

// The figures of a run.
const (
	figP50    = "p50"    // us
	figP99    = "p99"    // us
	figMean   = "mean"   // us
	figRate   = "rate"   // bounces per second as iperf counts them: 1 / mean RTT
	figCPU    = "cpu"    // us per bounce, of the measuring alone
	figAllCPU = "allcpu" // us per bounce, of the whole process, its start included
	figLate50 = "late50" // us, kernel receive stamp to our read
	figLate99 = "late99" // us
	figUp     = "up"     // GB (10^9 bytes) per second to the server
	figDown   = "down"   // GB per second from the server
	figGigCPU = "gigcpu" // CPU seconds per GB, both directions together
)

// decode reads what a child printed.
func decode(out []byte, process time.Duration) (measured, error) {
	line, rest, ok := bytes.Cut(out, []byte("\n"))
	if !ok {
		return nil, errors.New("no header")
	}
	var h header
	if err := json.Unmarshal(line, &h); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	if h.N < 1 || h.Late < 0 || len(rest) != 8*(h.N+h.Late) {
		return nil, fmt.Errorf("%d bytes of samples for n=%d", len(rest), h.N)
	}
	rtt := durations(rest[:8*h.N])
	n := float64(h.N)
	var sum time.Duration
	for _, d := range rtt {
		sum += d
	}
	slices.Sort(rtt)
	m := measured{
		figP50: us(stats.Quantile(rtt, 0.5)), figP99: us(stats.Quantile(rtt, 0.99)),
		figMean: us(sum) / n, figRate: n / sum.Seconds(),
		figCPU: float64(h.CPU) / 1e3 / n, figAllCPU: us(process) / n,
	}
	if h.Late > 0 {
		late := durations(rest[8*h.N:])
		slices.Sort(late)
		m[figLate50], m[figLate99] = us(stats.Quantile(late, 0.5)), us(stats.Quantile(late, 0.99))
	}
	if h.Up+h.Down > 0 {
		m.load(h.Up, h.Down, time.Duration(h.Wall), time.Duration(h.CPU))
	}
	return m, nil
}

// load adds the figures of a load.
func (m measured) load(up, down uint64, wall, cpu time.Duration) {
	if up > 0 {
		m[figUp] = float64(up) / float64(wall)
	}
	if down > 0 {
		m[figDown] = float64(down) / float64(wall)
	}
	m[figGigCPU] = float64(cpu) / float64(up+down)
}

func durations(b []byte) []time.Duration {
	d := make([]time.Duration, len(b)/8)
	for i := range d {
		d[i] = time.Duration(binary.NativeEndian.Uint64(b[8*i:]))
	}
	return d
}

// encode writes what decode reads.
func encode(w io.Writer, h header, columns ...[]time.Duration) error {
	line, err := json.Marshal(h)
	if err != nil {
		return err
	}
	b := append(line, '\n')
	for _, c := range columns {
		for _, d := range c {
			b = binary.NativeEndian.AppendUint64(b, uint64(d))
		}
	}
	_, err = w.Write(b)
	return err
}

func us(d time.Duration) float64 { return float64(d) / 1e3 }
