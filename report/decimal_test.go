package report

import (
	"bytes"
	"encoding/json"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"
)

// UnmarshalJSON reads what MarshalJSON writes, for tests that look at whole
// documents.
func (d *decimal) UnmarshalJSON(b []byte) error {
	whole, err := time.ParseDuration(string(b) + "s")
	*d = decimal(whole)
	return err
}

func TestDecimal(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                        "0",
		1:                        "0.000000001",
		-1:                       "-0.000000001",
		800:                      "0.0000008",
		1983514621:               "1.983514621",
		-2 * time.Second:         "-2",
		100 * time.Second:        "100",
		10500 * time.Millisecond: "10.5",
		math.MaxInt64:            "9223372036.854775807",
		math.MinInt64:            "-9223372036.854775808",
	} {
		got, err := json.Marshal(decimal(d))
		if err != nil || string(got) != want {
			t.Errorf("%d ns became %s, %v; want %s", d, got, err, want)
		}
	}
}

// TestNoExponents: every number of every report is decimal digits, and times have
// no more than nine behind the point.
func TestNoExponents(t *testing.T) {
	number := regexp.MustCompile(`": (-?[0-9][^,\s]*)`)
	plain := regexp.MustCompile(`^-?[0-9]+(\.[0-9]{1,9})?$`)
	for name, r := range fixtures() {
		var b bytes.Buffer
		if err := JSON(&b, r, Options{}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			m := number.FindStringSubmatch(line)
			if m != nil && !strings.Contains(line, "bounces_per_second") && !plain.MatchString(m[1]) {
				t.Errorf("%s: %s", name, strings.TrimSpace(line))
			}
		}
	}
}

func TestShare(t *testing.T) {
	for _, c := range []struct {
		sum, n int
		want   string
	}{
		{0, 7, "  0.0%"}, {1, 3, " 33.3%"}, {2, 3, " 66.7%"}, {1, 16, "  6.3%"},
		{99999, 100000, " 99.9%"}, {7, 7, "100.0%"},
	} {
		if got := share(c.sum, c.n); got != c.want {
			t.Errorf("%d of %d is %q, want %q", c.sum, c.n, got, c.want)
		}
	}
}

// TestIperfLineIsBounded: hundreds of bins do not fill the screen; what is left
// out is told, and the figures behind the bins stay.
func TestIperfLineIsBounded(t *testing.T) {
	var v []time.Duration
	for i := range 500 {
		v = append(v, time.Duration(i)*time.Millisecond)
	}
	whole, none := iperfLine(v, math.MaxInt)
	line, omitted := iperfLine(v, 200)
	head, tail, _ := strings.Cut(line, ",...")
	if none != 0 || omitted == 0 || len(head) > 210 || !strings.HasPrefix(whole, head+",") || !strings.HasSuffix(whole, tail) {
		t.Errorf("%d bins left out in %s", omitted, line)
	}
	if shown := strings.Count(head, ":") - 2; shown+omitted != 500 {
		t.Errorf("%d bins shown and %d left out of 500", shown, omitted)
	}
}
