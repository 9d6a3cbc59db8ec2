package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// duration writes one duration with three significant digits in the unit that
// suits it: 4.21 us, 312 us, 1.04 ms, 2.00 s.
func duration(d time.Duration) string {
	abs := d.Abs()
	switch {
	case d == 0:
		return "0 us"
	// The borders lie where three digits would round up to the next unit.
	case abs < 999500:
		return threeDigits(float64(d)/1e3) + " us"
	case abs < 999500*time.Microsecond:
		return threeDigits(float64(d)/1e6) + " ms"
	}
	return threeDigits(float64(d)/1e9) + " s"
}

// signedDuration is duration with a plus sign where the value is positive.
func signedDuration(d time.Duration) string {
	if d > 0 {
		return "+" + duration(d)
	}
	return duration(d)
}

// threeDigits writes v with three significant digits and never an exponent.
func threeDigits(v float64) string {
	prec := 0
	switch abs := math.Abs(v); {
	case abs < 9.995:
		prec = 2
	case abs < 99.95:
		prec = 1
	}
	return strconv.FormatFloat(v, 'f', prec, 64)
}

// scaled writes v with a decimal prefix: 1.18 M, 472 k.
func scaled(v float64) string {
	prefixes := [...]string{"", "k", "M", "G", "T", "P", "E"}
	i := 0
	for i < len(prefixes)-1 && math.Abs(v) >= 999.5 {
		v /= 1000
		i++
	}
	if i == 0 && v == math.Trunc(v) {
		return fmt.Sprintf("%.0f ", v)
	}
	return threeDigits(v) + " " + prefixes[i]
}

// byteCount writes a number of bytes with a decimal prefix: 118 MB.
func byteCount(n uint64) string { return scaled(float64(n)) + "B" }

// bitRate is the rate of n bytes in d as bits a second: 472 Mbit/s. It is empty
// for a d that is not positive.
func bitRate(n uint64, d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return scaled(float64(n)*8/d.Seconds()) + "bit/s"
}

// plural is "1 bounce", "2 bounces".
func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + one + "s"
}

// unit is the one unit of a table of durations, so that its rows can be compared.
type unit struct {
	name     string
	size     time.Duration
	decimals int
}

// unitFor chooses the unit by the largest magnitude that it has to show:
// microseconds below 10 ms, milliseconds above.
func unitFor(largest time.Duration) unit {
	if largest < 10*time.Millisecond {
		return unit{"us", time.Microsecond, 1}
	}
	return unit{"ms", time.Millisecond, 3}
}

// format writes d in the unit, without the unit's name.
func (u unit) format(d time.Duration) string {
	s := strconv.FormatFloat(float64(d)/float64(u.size), 'f', u.decimals, 64)
	if v, err := strconv.ParseFloat(s, 64); err == nil && v == 0 && s[0] == '-' {
		return s[1:] // a minus before nothing but zeros says nothing
	}
	return s
}

// exactly is the unit with as many decimals as the values need, down to the
// nanosecond.
func (u unit) exactly(values ...time.Duration) unit {
	u.decimals = 0
	for part := u.size; part > 1; part /= 10 {
		if !slices.ContainsFunc(values, func(v time.Duration) bool { return v%part != 0 }) {
			break
		}
		u.decimals++
	}
	return u
}
