package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"time"
)

// way is one of the ways to bounce that are compared.
type way struct {
	name string
	run  func() (measured, error)
}

// bounce compares the ways, each once a round, in an order that moves on by one
// from round to round.
func (b *bench) bounce(w io.Writer) error {
	if err := b.startServer(); err != nil {
		return err
	}
	floor, kind, err := b.floorCommand()
	if err != nil {
		return err
	}
	floor = slices.Clip(floor) // each way appends its own last argument
	measuring := func(argv []string) func() (measured, error) {
		return func() (measured, error) { return b.measure(argv) }
	}
	ours := func(quick bool) func() (measured, error) {
		return func() (measured, error) {
			return b.ours(job{Addr: b.addr, Size: b.size, Hold: b.hold, Count: b.count, QuickAck: quick})
		}
	}
	stock := func() (measured, error) {
		iperf, err := exec.LookPath("iperf")
		if err != nil {
			return nil, err
		}
		out, cpu, err := b.runPinned(time.Minute, iperf, "-c", b.addr.Addr().String(), "-p", strconv.Itoa(int(b.addr.Port())),
			"--bounceback", "--bounceback-period", "0", "-l", strconv.Itoa(b.size),
			"--bounceback-hold", strconv.FormatFloat(b.hold.Seconds()*1e3, 'f', -1, 64), "-i", "0", "-t", "1")
		if err != nil {
			return nil, err
		}
		return parseStock(out, cpu)
	}
	ways := []way{
		{"floor", measuring(append(floor, "0"))},
		{"ours, no quickack", ours(false)},
		{"floor again", measuring(append(floor, "0"))},
		{"floor, quickack", measuring(append(floor, "1"))},
		{"ours", ours(true)},
		{"stock", stock},
	}
	got, err := b.rounds(ways)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\n%d rounds, %d bounces of %d bytes back to back each; floor: %s\n\n", b.options.rounds, b.count, b.size, kind)
	b.bounceTables(w, ways, got)
	return nil
}

// measure runs one of our measuring children.
func (b *bench) measure(argv []string) (measured, error) {
	out, cpu, err := b.runPinned(time.Minute, argv[0], argv[1:]...)
	if err != nil {
		return nil, err
	}
	return decode(out, cpu)
}

// ours runs one probe in a process of its own.
func (b *bench) ours(j job) (measured, error) {
	argv, err := j.command()
	if err != nil {
		return nil, err
	}
	return b.measure(argv)
}

// rounds runs every way once a round.
func (b *bench) rounds(ways []way) (map[string]series, error) {
	got := make(map[string]series)
	for round := range b.options.rounds {
		fmt.Fprintf(os.Stderr, "\rround %d of %d ", round+1, b.options.rounds)
		for i := range ways {
			way := ways[(i+round)%len(ways)]
			if err := b.rest(); err != nil {
				return nil, err
			}
			m, err := way.run()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", way.name, err)
			}
			got[way.name] = append(got[way.name], m)
		}
	}
	fmt.Fprintln(os.Stderr)
	return got, nil
}

func (b *bench) bounceTables(w io.Writer, ways []way, got map[string]series) {
	var rows [][]string
	for _, way := range ways {
		s := got[way.name]
		rows = append(rows, []string{way.name,
			cell(s.of(figP50), "%.1f"), cell(s.of(figP99), "%.1f"), cell(s.of(figMean), "%.1f"), cell(s.of(figRate), "%.0f"),
			cell(s.of(figCPU), "%.2f"), cell(s.of(figAllCPU), "%.2f"), cell(s.of(figLate50), "%.1f"), cell(s.of(figLate99), "%.1f")})
	}
	table(w, []string{"median of rounds", "p50 us", "p99 us", "mean us", "bounces/s", "CPU us", "process CPU us", "kernel to user p50 us", "p99 us"}, rows)
	fmt.Fprintln(w)
	rows = nil
	for _, pair := range [][2]string{
		{"floor again", "floor"}, {"ours, no quickack", "floor"}, {"ours", "floor, quickack"}, {"ours", "floor"}, {"ours", "stock"},
	} {
		a, ref := got[pair[0]], got[pair[1]]
		row := []string{pair[0] + " / " + pair[1]}
		for _, fig := range []string{figP50, figP99, figMean, figCPU, figAllCPU} {
			row = append(row, ratioCell(a.ratios(fig, ref)))
		}
		rows = append(rows, row)
	}
	table(w, []string{"median of ratios (least to most)", "p50", "p99", "mean", "CPU", "process CPU"}, rows)
}
