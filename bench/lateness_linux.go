package main

import (
	"fmt"
	"io"
	"os/exec"
	"time"
)

// lateness tells how late our own process reads a reply, from the kernel's receive
// stamp on, while a load runs: in the same process, as the exporter does it, or
// from a stock client beside it. The client's processes share one CPU, which is
// the worst case: with a free CPU there is nothing to wait for.
func (b *bench) lateness(w io.Writer) error {
	if err := b.startServer(); err != nil {
		return err
	}
	plain := job{Addr: b.addr, Size: b.size, Period: 2 * time.Millisecond, Duration: b.duration}
	ways := []way{{"no load", func() (measured, error) { return b.ours(plain) }}}
	for _, d := range directions {
		loaded := plain
		loaded.Direction, loaded.Streams = d.name, b.streams
		ways = append(ways,
			way{"ours " + d.name, func() (measured, error) { return b.ours(loaded) }},
			way{"stock " + d.name, func() (measured, error) { return b.besideStock(d, plain) }})
	}
	got, err := b.rounds(ways)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\n%d rounds, a bounce every %v for %v, load of %d streams\n\n", b.options.rounds, plain.Period, b.duration, b.streams)
	var rows [][]string
	for _, way := range ways {
		s := got[way.name]
		rows = append(rows, []string{way.name, cell(s.of(figLate50), "%.0f"), cell(s.of(figLate99), "%.0f"),
			cell(s.of(figP50), "%.0f"), cell(s.of(figP99), "%.0f"), cell(s.of(figUp), "%.2f"), cell(s.of(figDown), "%.2f")})
	}
	table(w, []string{"load", "kernel to user p50 us", "p99 us", "RTT p50 us", "p99 us", "GB/s to the server", "from it"}, rows)
	return nil
}

// besideStock bounces while a stock client loads the path from the same CPU.
func (b *bench) besideStock(d direction, j job) (measured, error) {
	argv, err := b.stockLoadCommand(d)
	if err != nil {
		return nil, err
	}
	load := exec.Command(argv[0], argv[1:]...)
	if err := b.start(load, b.clientCPU); err != nil {
		return nil, err
	}
	time.Sleep(200 * time.Millisecond) // it is well under way then, and ours ends before it
	j.Duration -= 500 * time.Millisecond
	m, err := b.ours(j)
	if err != nil {
		_ = load.Process.Kill()
		_ = load.Wait()
		return nil, err
	}
	if err := load.Wait(); err != nil {
		return nil, fmt.Errorf("%s: %w", argv[0], err)
	}
	return m, nil
}
