package report

import (
	"strconv"
	"strings"
	"time"
)

// decimal is a time that JSON writes in seconds: digit by digit, to the
// nanosecond, and never with an exponent. A floating-point number would have
// digits that nobody measured.
type decimal time.Duration

// MarshalJSON writes 1.983514621, 0.0000008, -2.
func (d decimal) MarshalJSON() ([]byte, error) {
	digits := strconv.FormatInt(int64(d), 10)
	sign := ""
	if d < 0 {
		sign, digits = "-", digits[1:]
	}
	if missing := 10 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	point := len(digits) - 9
	s := sign + digits[:point]
	if fraction := strings.TrimRight(digits[point:], "0"); fraction != "" {
		s += "." + fraction
	}
	return []byte(s), nil
}
