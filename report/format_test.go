package report

import (
	"testing"
	"time"
)

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                                   "0 us",
		1:                                   "0.00 us",
		4210:                                "4.21 us",
		9994:                                "9.99 us",
		9995:                                "10.0 us",
		99949:                               "99.9 us",
		99950:                               "100 us",
		999499:                              "999 us",
		999500:                              "1.00 ms",
		1_040_000:                           "1.04 ms",
		-12_300_000:                         "-12.3 ms",
		999_499_999:                         "999 ms",
		999_500_000:                         "1.00 s",
		2 * time.Second:                     "2.00 s",
		90 * time.Minute:                    "5400 s",
		-5 * time.Second:                    "-5.00 s",
		time.Duration(-9223372036854775808): "-9223372037 s",
	} {
		if got := duration(d); got != want {
			t.Errorf("duration(%d) = %q, want %q", d, got, want)
		}
	}
	if got := signedDuration(1500); got != "+1.50 us" {
		t.Errorf("signedDuration: %q", got)
	}
}

func TestScaled(t *testing.T) {
	for n, want := range map[uint64]string{
		0:                    "0 B",
		1:                    "1 B",
		999:                  "999 B",
		1000:                 "1.00 kB",
		999_499:              "999 kB",
		999_500:              "1.00 MB",
		118_000_000:          "118 MB",
		18446744073709551615: "18.4 EB",
	} {
		if got := byteCount(n); got != want {
			t.Errorf("byteCount(%d) = %q, want %q", n, got, want)
		}
	}
	if got := bitRate(1_180_000, time.Second); got != "9.44 Mbit/s" {
		t.Errorf("bitRate: %q", got)
	}
	for _, d := range []time.Duration{0, -time.Second} {
		if got := bitRate(1, d); got != "" {
			t.Errorf("bitRate over %s is %q: a rate over no time is none", d, got)
		}
	}
}

func TestUnitFormat(t *testing.T) {
	us, ms := unitFor(9_999_999), unitFor(10*time.Millisecond)
	if us.name != "us" || ms.name != "ms" {
		t.Fatalf("units %q and %q", us.name, ms.name)
	}
	for _, c := range []struct {
		u    unit
		d    time.Duration
		want string
	}{
		{us, 12073, "12.1"},
		{us, -40, "0.0"}, // not -0.0
		{ms, 10_213_456, "10.213"},
		{ms, -400_000, "-0.400"},
	} {
		if got := c.u.format(c.d); got != c.want {
			t.Errorf("%d in %s is %q, want %q", c.d, c.u.name, got, c.want)
		}
	}
}

func TestPlus(t *testing.T) {
	for in, want := range map[string]string{"0.000": "0.000", "1.2": "+1.2", "-1.2": "-1.2", "0.001": "+0.001"} {
		if got := plus(in); got != want {
			t.Errorf("plus(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestUTF8Locale(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want bool
	}{
		{nil, false},
		{map[string]string{"LANG": "C"}, false},
		{map[string]string{"LANG": "en_US.UTF-8"}, true},
		{map[string]string{"LANG": "de_DE.utf8"}, true},
		{map[string]string{"LANG": "C.UTF-8", "LC_ALL": "C"}, false},
		{map[string]string{"LANG": "C", "LC_CTYPE": "C.UTF-8"}, true},
		{map[string]string{"LC_ALL": "", "LANG": "C.UTF-8"}, true}, // empty is not set
	} {
		if got := UTF8Locale(func(k string) string { return c.env[k] }); got != c.want {
			t.Errorf("%v: %v, want %v", c.env, got, c.want)
		}
	}
}
