package web

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// scrapeTimeoutHeader is what Prometheus sends with each scrape: its
// scrape_timeout in seconds.
const scrapeTimeoutHeader = "X-Prometheus-Scrape-Timeout-Seconds"

// probeTimeout is how long a probe may take from the arrival of its request to
// its answer: the smaller of the module's timeout and the scrape timeout in the
// header, if there is one, less the offset. The offset leaves time to carry the
// answer; it is never more than half of the scrape timeout. The result is always
// positive. A header that is no positive finite number of seconds, or that comes
// twice, is an error: guessing would end in scrapes that fail without a word.
func probeTimeout(h http.Header, module, offset time.Duration) (time.Duration, error) {
	values := h.Values(scrapeTimeoutHeader)
	switch len(values) {
	case 0:
		return module, nil
	case 1:
	default:
		return 0, fmt.Errorf("header %s is there %d times; at most one is allowed", scrapeTimeoutHeader, len(values))
	}
	seconds, err := positiveSeconds(values[0])
	if err != nil {
		return 0, fmt.Errorf("header %s: %q %w", scrapeTimeoutHeader, values[0], err)
	}
	left := seconds - min(max(offset.Seconds(), 0), seconds/2)
	// Compared as numbers: a huge timeout does not fit into a Duration.
	if left >= module.Seconds() {
		return module, nil
	}
	return max(time.Duration(left*float64(time.Second)), 1), nil
}

// errSeconds says what a number of seconds has to look like.
var errSeconds = errors.New("is not a positive finite number of seconds, such as 10 or 0.5")

// positiveSeconds reads a decimal number. strconv.ParseFloat alone would also
// take hexadecimal, infinities and NaN.
func positiveSeconds(s string) (float64, error) {
	if strings.Trim(s, "0123456789.eE+-") != "" {
		return 0, errSeconds
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v > 0) {
		return 0, errSeconds
	}
	return v, nil
}
