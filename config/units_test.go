package config

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	for s, want := range map[string]time.Duration{
		"500ms": 500 * time.Millisecond, "1.5s": 1500 * time.Millisecond, "2s": 2 * time.Second, "1m": time.Minute,
		"1m30s": 90 * time.Second, "100us": 100 * time.Microsecond, "100µs": 100 * time.Microsecond, "0s": 0,
		"1d": 24 * time.Hour, "1w": 168 * time.Hour, "1w2d12h": (168 + 48 + 12) * time.Hour, "1d1ms": 24*time.Hour + time.Millisecond,
		"-1s": -time.Second,
	} {
		if got, err := parseDuration(s); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", s, got, err, want)
		}
	}
	for _, s := range []string{"", "0", "5", "1.5", "s", "1", "1x", "1s2", "1.5d", "d", "1d2w", "1d1w", "1d-1s", "-1d", "1d0", "2 s", "1,5s",
		"999999999w", "16000w", "106751d25h", "1y", "inf", "1e3s"} {
		if got, err := parseDuration(s); err == nil {
			t.Errorf("%q is %s", s, got)
		}
	}
}

// TestFormatDuration: what is written is what is read.
func TestFormatDuration(t *testing.T) {
	for want, v := range map[string]time.Duration{
		"0s": 0, "1us": time.Microsecond, "1.5ms": 1500 * time.Microsecond, "20ms": 20 * time.Millisecond, "2s": 2 * time.Second,
		"1m": time.Minute, "10m": 10 * time.Minute, "1m30s": 90 * time.Second, "1h": time.Hour, "1h0m5s": time.Hour + 5*time.Second,
		"1h30m": 90 * time.Minute, "168h": 7 * 24 * time.Hour, "20h": 20 * time.Hour,
	} {
		if got := formatDuration(v); got != want {
			t.Errorf("%s is written as %s, want %s", v, got, want)
		}
		if got, err := parseDuration(want); err != nil || got != v {
			t.Errorf("%s is read as %s, %v", want, got, err)
		}
	}
}

// TestParseDSCP has the values of the IANA registry.
func TestParseDSCP(t *testing.T) {
	for s, want := range map[string]uint8{
		"0": 0, "46": 46, "63": 63, "be": 0, "default": 0, "DEFAULT": 0, "le": 1, "va": 44, "ef": 46, "EF": 46,
		"cs0": 0, "cs1": 8, "cs2": 16, "cs3": 24, "cs4": 32, "cs5": 40, "CS6": 48, "cs7": 56,
		"af11": 10, "af12": 12, "af13": 14, "af21": 18, "af22": 20, "af23": 22,
		"af31": 26, "af32": 28, "af33": 30, "af41": 34, "af42": 36, "AF43": 38,
	} {
		if got, ok := parseDSCP(s); !ok || got != want {
			t.Errorf("%s: %d, %v; want %d", s, got, ok, want)
		}
	}
	for _, s := range []string{"", "64", "256", "-1", "+1", "01", "cs8", "cs", "cs10", "af10", "af14", "af51", "af01", "af1", "efx", "0x2e", "1.0", " ef"} {
		if got, ok := parseDSCP(s); ok {
			t.Errorf("%q is %d", s, got)
		}
	}
}

func TestParseNetwork(t *testing.T) {
	for s, want := range map[string]string{
		"10.0.0.0/8": "10.0.0.0/8", "192.0.2.1": "192.0.2.1/32", "::1": "::1/128", "fd00::/8": "fd00::/8",
		"0.0.0.0/0": "0.0.0.0/0", "::/0": "::/0",
		// What is v4-mapped stands for IPv4, since that is how addresses are tested.
		"::ffff:10.1.2.3": "10.1.2.3/32", "::ffff:10.0.0.0/104": "10.0.0.0/8", "::ffff:0:0/96": "0.0.0.0/0",
		"::ffff:a01:0/112": "10.1.0.0/16",
	} {
		got, hint := parseNetwork(s)
		if hint != "" || got.String() != want {
			t.Errorf("%s: %s %s; want %s", s, got, hint, want)
		}
	}
	for _, s := range []string{"", "/", "10/8", "10.0.0/8", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/08", "fd00::/129", "10.0.0.1/8",
		"fe80::1%eth0", "fe80::%eth0/10", "012.0.0.1", "0x0a000001", "167772161", "localhost", "10.0.0.0 /8", "[::1]", "10.0.0.1:5001", "::ffff:10.0.0.0/8"} {
		if got, hint := parseNetwork(s); hint == "" {
			t.Errorf("%q is %s", s, got)
		}
	}
}

func TestNearest(t *testing.T) {
	known := []field{{name: "size"}, {name: "hold"}, {name: "trip_times"}, {name: "dscp"}, {name: "timeout"}}
	for key, want := range map[string]string{
		"sizes": "size", "Size": "size", "trip-times": "trip_times", "triptimes": "trip_times", "time_out": "timeout", "DSCP": "dscp",
		"hodl": "", "si": "", "prober": "", "": "", strings.Repeat("size", 1000): "",
	} {
		if got := nearest(key, known); got != want {
			t.Errorf("%.20q: %q, want %q", key, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"kitten", "sitting", 3}, {"abc", "abc", 0}, {"abc", "acb", 2}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%q to %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestHash(t *testing.T) {
	if a, b := DefaultModule("a").Hash(), DefaultModule("a").Hash(); a != b {
		t.Errorf("the same module has %s and %s", a, b)
	}
	m := DefaultModule("a")
	m.Histograms.ClassicBuckets = []float64{math.NaN()}
	m.Congest = &Congest{Streams: 1}
	first := m.Hash()
	m.Congest = &Congest{Streams: 1} // another pointer
	if m.Hash() != first {
		t.Error("the hash of a module with a NaN depends on an address")
	}
	if m.Congest.Streams = 2; m.Hash() == first {
		t.Error("the hash of a module with a NaN does not see its load")
	}
}
