package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/prometheus/common/expfmt"

	"github.com/bounceback-exporter/bounceback_exporter/collector"
	"github.com/bounceback-exporter/bounceback_exporter/prober"
	"github.com/bounceback-exporter/bounceback_exporter/report"
)

// createRaw opens the file for the stamps before anything is measured, so that a
// test is not done in vain; nil if none is wanted.
func (c *probeCmd) createRaw() (io.WriteCloser, error) {
	if *c.flags.rawFile == "" {
		return nil, nil
	}
	// Without O_NONBLOCK a pipe that nobody reads would hold us here, deaf to signals.
	f, err := os.OpenFile(*c.flags.rawFile, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NONBLOCK, 0o666)
	if err != nil {
		return nil, fmt.Errorf("--raw: %w", err)
	}
	return f, nil
}

// write renders a result in every form that was asked for. rowsShown tells that
// the rows a second are on the terminal already.
func (c *probeCmd) write(r *prober.Result, raw io.WriteCloser, rowsShown bool) error {
	o := report.Options{
		HideIPs:  *c.flags.hideIPs,
		ASCII:    !report.UTF8Locale(c.getenv),
		OmitRows: rowsShown,
		Log:      *c.flags.verbose,
	}
	if columns, terminal := c.columns(c.stdout); terminal {
		o.Width = columns
		o.Color = c.getenv("NO_COLOR") == "" && c.getenv("TERM") != "dumb"
	}
	if raw != nil {
		err := report.Raw(raw, r, o)
		if closed := raw.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return fmt.Errorf("--raw: %w", err)
		}
	}
	var err error
	switch *c.flags.format {
	case formatJSON:
		err = report.JSON(c.stdout, r, o)
	case formatPrometheus:
		err = exposition(c.stdout, r, o.HideIPs)
	default:
		if rowsShown {
			fmt.Fprintln(c.stdout)
		}
		err = report.Text(c.stdout, r, o)
	}
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// exposition writes what /probe would answer to somebody who reads text.
func exposition(w io.Writer, r *prober.Result, hideIPs bool) error {
	buf := bufio.NewWriter(w)
	enc := expfmt.NewEncoder(buf, expfmt.NewFormat(expfmt.TypeTextPlain))
	for _, f := range collector.Families(r, collector.Extra{}) {
		// A hash of an IPv4 address is soon turned back into it.
		if hideIPs && f.GetName() == "probe_ip_addr_hash" {
			continue
		}
		if err := enc.Encode(f); err != nil {
			return err
		}
	}
	return buf.Flush()
}
