//go:build linux

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// series is one way's figures, a run per round.
type series []measured

// of are the values of a figure in the order of the rounds; nil if the way does
// not have it.
func (s series) of(fig string) []float64 {
	var v []float64
	for _, m := range s {
		if x, ok := m[fig]; ok {
			v = append(v, x)
		}
	}
	return v
}

// ratios are one figure of s over that of ref, round by round: what disturbed both
// alike drops out.
func (s series) ratios(fig string, ref series) []float64 {
	a, b := s.of(fig), ref.of(fig)
	if len(a) == 0 || len(a) != len(b) {
		return nil
	}
	r := make([]float64, len(a))
	for i := range a {
		r[i] = a[i] / b[i]
	}
	return r
}

// median of v; v is not empty.
func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// table prints aligned Markdown, so that it can be pasted.
func table(w io.Writer, head []string, rows [][]string) {
	width := make([]int, len(head))
	for _, row := range append([][]string{head}, rows...) {
		for i, c := range row {
			width[i] = max(width[i], len(c))
		}
	}
	line := func(row []string) {
		for i, c := range row {
			if i == 0 {
				fmt.Fprintf(w, "| %-*s ", width[i], c)
			} else {
				fmt.Fprintf(w, "| %*s ", width[i], c)
			}
		}
		fmt.Fprintln(w, "|")
	}
	line(head)
	rule := make([]string, len(head))
	for i := range rule {
		rule[i] = strings.Repeat("-", width[i])
		if i > 0 {
			rule[i] = strings.Repeat("-", max(width[i]-1, 1)) + ":"
		}
	}
	line(rule)
	for _, row := range rows {
		line(row)
	}
}

// cell is the median of v, or what stands for "can't be told".
func cell(v []float64, format string) string {
	if len(v) == 0 {
		return "-"
	}
	return fmt.Sprintf(format, median(v))
}

// ratioCell is the median of ratios with their smallest and largest.
func ratioCell(v []float64) string {
	if len(v) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f (%.2f to %.2f)", median(v), slices.Min(v), slices.Max(v))
}
