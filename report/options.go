package report

import "strings"

// Options shape a report. The zero value is what a pipe or a file should get: 80
// columns, Unicode bars, no colour, everything shown.
type Options struct {
	// HideIPs masks addresses and host names, also inside error texts. Ports
	// stay.
	HideIPs bool
	// Width in columns that Text keeps to where it can, at least 60; 0: 80.
	// iperf's own histogram line is never wrapped.
	Width int
	// ASCII draws bars without any character outside of ASCII.
	ASCII bool
	// Color uses the eight basic colours of a terminal.
	Color bool
	// OmitRows leaves the rows a second out, because Follow has shown them.
	OmitRows bool
	// Log appends what happened during the probe.
	Log bool
}

// Limits of Options.Width in columns.
const (
	defaultWidth = 80
	minWidth     = 60
)

func (o *Options) width() int {
	switch {
	case o.Width == 0:
		return defaultWidth
	case o.Width < minWidth:
		return minWidth
	}
	return o.Width
}

// UTF8Locale tells whether the environment asks for UTF-8, by the rule of POSIX:
// the first of LC_ALL, LC_CTYPE and LANG that is set and not empty decides.
func UTF8Locale(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToLower(getenv(name)); v != "" {
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}

// ANSI sequences of the few things that are worth a colour.
const (
	styleBold  = "\x1b[1m"
	styleRed   = "\x1b[1;31m"
	styleGreen = "\x1b[32m"
	styleReset = "\x1b[0m"
)

// paint wraps s in a style where colour is wanted.
func (o *Options) paint(style, s string) string {
	if !o.Color || s == "" {
		return s
	}
	return style + s + styleReset
}
