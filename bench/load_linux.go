package main

import (
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"time"
)

// load compares our load streams with the stock client's, direction by direction.
// Ours carry a thin bounce connection beside them, as they always do.
func (b *bench) load(w io.Writer) error {
	if err := b.startServer(); err != nil {
		return err
	}
	var ways []way
	for _, d := range directions {
		ways = append(ways,
			way{"stock " + d.name, func() (measured, error) { return b.stockLoad(d) }},
			way{"ours " + d.name, func() (measured, error) {
				return b.ours(job{Addr: b.addr, Size: b.size, Period: 100 * time.Millisecond, Duration: b.duration, Direction: d.name, Streams: b.streams})
			}})
	}
	got, err := b.rounds(ways)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\n%d rounds, %d streams for %v each\n\n", b.options.rounds, b.streams, b.duration)
	var rows [][]string
	for _, way := range ways {
		s := got[way.name]
		rows = append(rows, []string{way.name, cell(s.of(figUp), "%.2f"), cell(s.of(figDown), "%.2f"), cell(s.of(figGigCPU), "%.3f")})
	}
	table(w, []string{"median of rounds", "GB/s to the server", "GB/s from it", "CPU s per GB"}, rows)
	fmt.Fprintln(w)
	rows = nil
	for _, d := range directions {
		ours, stock := got["ours "+d.name], got["stock "+d.name]
		rows = append(rows, []string{"ours / stock " + d.name,
			ratioCell(ours.ratios(figUp, stock)), ratioCell(ours.ratios(figDown, stock)), ratioCell(ours.ratios(figGigCPU, stock))})
	}
	table(w, []string{"median of ratios (least to most)", "to the server", "from it", "CPU per GB"}, rows)
	return nil
}

// direction of a load, with the stock client's option for it.
type direction struct{ name, option string }

var directions = [...]direction{{"up", ""}, {"down", "-R"}, {"both", "--full-duplex"}}

func (b *bench) stockLoad(d direction) (measured, error) {
	argv, err := b.stockLoadCommand(d)
	if err != nil {
		return nil, err
	}
	out, cpu, err := b.runPinned(b.duration+time.Minute, argv[0], argv[1:]...)
	if err != nil {
		return nil, err
	}
	return parseStockLoad(out, cpu)
}

func (b *bench) stockLoadCommand(d direction) ([]string, error) {
	iperf, err := exec.LookPath("iperf")
	if err != nil {
		return nil, err
	}
	argv := []string{iperf, "-c", b.addr.Addr().String(), "-p", strconv.Itoa(int(b.addr.Port())),
		"-t", strconv.Itoa(int(b.duration / time.Second)), "-i", "0", "-f", "B", "-P", strconv.Itoa(b.streams)}
	if d.option != "" {
		argv = append(argv, d.option)
	}
	return argv, nil
}
