package config

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// parseDuration reads what time.ParseDuration does (500ms, 1.5s, 1m30s) and the
// days and weeks that Prometheus has in front of that (1d, 1w2d12h). A day has 24
// hours.
func parseDuration(s string) (time.Duration, error) {
	var sum time.Duration
	rest := s
	for _, u := range []struct {
		name string
		span time.Duration
	}{{"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}} {
		digits, after, ok := strings.Cut(rest, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 32)
		if err != nil || int64(n) > (math.MaxInt64-int64(sum))/int64(u.span) {
			return 0, errors.New("not a duration")
		}
		sum += time.Duration(n) * u.span
		rest = after
	}
	if rest == "" && s != "" {
		return sum, nil
	}
	v, err := time.ParseDuration(rest)
	if err != nil || sum > 0 && (v < 0 || v > math.MaxInt64-sum) || rest == "0" {
		return 0, errors.New("not a duration")
	}
	return sum + v, nil
}

// formatDuration is time.Duration.String without units of zero and in ASCII: 5m,
// 1h, 100us.
func formatDuration(v time.Duration) string {
	s := strings.Replace(v.String(), "µs", "us", 1)
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}
