package web

import (
	"net/http"
	"testing"
	"time"
)

func TestProbeTimeout(t *testing.T) {
	const ms = time.Millisecond
	header := func(values ...string) http.Header {
		h := http.Header{}
		for _, v := range values {
			h.Add(scrapeTimeoutHeader, v)
		}
		return h
	}
	for _, tc := range []struct {
		name   string
		header http.Header
		module time.Duration
		want   time.Duration // 0: 400
	}{
		{"absent", header(), 10 * time.Second, 10 * time.Second},
		{"10", header("10"), 10 * time.Second, 9500 * ms},
		{"10 as Prometheus writes it", header("10.000000"), 20 * time.Second, 9500 * ms},
		{"module is smaller", header("10"), 300 * ms, 300 * ms},
		{"offset is at most half", header("0.3"), 10 * time.Second, 150 * ms},
		{"exactly twice the offset", header("1"), 10 * time.Second, 500 * ms},
		{"exponent", header("1e1"), time.Minute, 9500 * ms},
		{"more than a Duration holds", header("1e300"), 10 * time.Second, 10 * time.Second},
		{"less than a Duration holds", header("1e-300"), 10 * time.Second, 1},
		{"zero", header("0"), 10 * time.Second, 0},
		{"minus zero", header("-0"), 10 * time.Second, 0},
		{"underflows to zero", header("1e-400"), 10 * time.Second, 0},
		{"negative", header("-5"), 10 * time.Second, 0},
		{"NaN", header("NaN"), 10 * time.Second, 0},
		{"Inf", header("Inf"), 10 * time.Second, 0},
		{"+Inf", header("+Inf"), 10 * time.Second, 0},
		{"infinity", header("infinity"), 10 * time.Second, 0},
		{"overflows", header("1e400"), 10 * time.Second, 0},
		{"word", header("abc"), 10 * time.Second, 0},
		{"unit", header("10s"), 10 * time.Second, 0},
		{"hexadecimal", header("0x1p3"), 10 * time.Second, 0},
		{"underscore", header("1_0"), 10 * time.Second, 0},
		{"comma", header("0,3"), 10 * time.Second, 0},
		{"list", header("10, 10"), 10 * time.Second, 0},
		{"space", header("1 0"), 10 * time.Second, 0},
		{"empty", header(""), 10 * time.Second, 0},
		{"twice", header("10", "10"), 10 * time.Second, 0},
		{"twice, once empty", header("", "10"), 10 * time.Second, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := probeTimeout(tc.header, tc.module, 500*ms)
			if (err != nil) != (tc.want == 0) || got != tc.want {
				t.Errorf("got %v, %v; want %v", got, err, tc.want)
			}
		})
	}
}

func TestProbeTimeoutOffsets(t *testing.T) {
	h := http.Header{}
	h.Set(scrapeTimeoutHeader, "4")
	for offset, want := range map[time.Duration]time.Duration{
		0:                4 * time.Second,
		time.Second:      3 * time.Second,
		time.Hour:        2 * time.Second,
		-5 * time.Second: 4 * time.Second, // never more than the scrape timeout
	} {
		if got, err := probeTimeout(h, time.Minute, offset); err != nil || got != want {
			t.Errorf("offset %v: got %v, %v; want %v", offset, got, err, want)
		}
	}
}

func FuzzProbeTimeout(f *testing.F) {
	for _, s := range []string{"10", "0.3", "0", "-5", "NaN", "Inf", "1e400", "abc", "", "1e-320", "0x1", "١", "+1", "1e+1", ".5", "5.", "e"} {
		f.Add(s, int64(10*time.Second), int64(500*time.Millisecond))
	}
	f.Fuzz(func(t *testing.T, value string, module, offset int64) {
		if module <= 0 {
			t.Skip("a module's timeout is positive")
		}
		h := http.Header{scrapeTimeoutHeader: {value}}
		got, err := probeTimeout(h, time.Duration(module), time.Duration(offset))
		switch {
		case err != nil && got != 0:
			t.Errorf("%q: an error and %v", value, got)
		case err == nil && (got <= 0 || got > time.Duration(module)):
			t.Errorf("%q, module %v: got %v", value, time.Duration(module), got)
		}
	})
}
