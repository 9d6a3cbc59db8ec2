package report

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// values makes one duration of each number of microseconds.
func values(us ...float64) []time.Duration {
	out := make([]time.Duration, len(us))
	for i, v := range us {
		out[i] = time.Duration(v * 1e3)
	}
	slices.Sort(out)
	return out
}

// checkBins states what is true of every drawn histogram.
func checkBins(t *testing.T, sorted []time.Duration) {
	t.Helper()
	bins := drawBins(sorted)
	if len(sorted) == 0 {
		if bins != nil {
			t.Fatal("bins of nothing")
		}
		return
	}
	if len(bins) == 0 || len(bins) > 1+bodyRows+1+tailRows {
		t.Fatalf("%d bins for %d values", len(bins), len(sorted))
	}
	sum := 0
	for i, b := range bins {
		sum += b.count
		if b.upper <= b.lower {
			t.Errorf("bin %d: [%d, %d)", i, b.lower, b.upper)
		}
		if i > 0 && !b.gap && b.lower != bins[i-1].upper {
			t.Errorf("bin %d begins at %d, the one before ends at %d", i, b.lower, bins[i-1].upper)
		}
		if i > 0 && b.gap && b.lower <= bins[i-1].upper {
			t.Errorf("bin %d has no gap before it", i)
		}
		n := 0
		for _, v := range sorted {
			if (v >= b.lower || b.openBelow) && (v < b.upper || b.openAbove) {
				n++
			}
		}
		if n != b.count {
			t.Errorf("bin %d [%d, %d) counts %d, holds %d", i, b.lower, b.upper, b.count, n)
		}
	}
	if sum != len(sorted) {
		t.Errorf("bins hold %d of %d values", sum, len(sorted))
	}
	if bins[0].count == 0 || bins[len(bins)-1].count == 0 {
		t.Error("an empty bin at an end")
	}
}

func TestDrawBins(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	normal := make([]time.Duration, 1000)
	for i := range normal {
		normal[i] = 10*time.Millisecond + time.Duration(rnd.NormFloat64()*1e5)
	}
	heavy := make([]time.Duration, 1000)
	for i := range heavy {
		heavy[i] = time.Duration(2e4 / (1 - rnd.Float64()))
	}
	for name, v := range map[string][]time.Duration{
		"none":          nil,
		"one":           values(12.073),
		"zero":          values(0),
		"equal":         values(20, 20, 20, 20),
		"two":           values(10, 30),
		"far apart":     values(1, 1e6),
		"negative":      values(-40, -3, 0, 7),
		"normal":        normal,
		"heavy tail":    heavy,
		"with outliers": append(slices.Clone(normal), 200*time.Millisecond, 3*time.Second),
		"low outlier":   append(slices.Clone(normal), 5*time.Microsecond),
		"largest":       {1, 1<<62 - 1},
	} {
		t.Run(name, func(t *testing.T) {
			v = slices.Clone(v)
			slices.Sort(v)
			checkBins(t, v)
		})
	}
	t.Run("detail in spite of an outlier", func(t *testing.T) {
		v := append(slices.Clone(normal), 3*time.Second)
		slices.Sort(v)
		filled := 0
		for _, b := range drawBins(v) {
			if b.count > 0 {
				filled++
			}
		}
		if filled < 5 {
			t.Errorf("the bulk of 1000 values fills only %d bins", filled)
		}
	})
}

func FuzzDrawBins(f *testing.F) {
	f.Add(int64(1000), int64(50), int64(7), uint8(30))
	f.Add(int64(1), int64(1)<<50, int64(3), uint8(200))
	f.Fuzz(func(t *testing.T, base, spread, seed int64, n uint8) {
		const limit = int64(1000 * time.Hour)
		base, spread = base%limit, spread%limit
		if spread < 0 {
			spread = -spread
		}
		rnd := rand.New(rand.NewPCG(uint64(seed), 1))
		v := make([]time.Duration, n)
		for i := range v {
			v[i] = time.Duration(base + rnd.Int64N(spread+1))
		}
		slices.Sort(v)
		checkBins(t, v)
		for _, ascii := range []bool{false, true} {
			var b strings.Builder
			drawHistogram(&b, v, "  ", &Options{ASCII: ascii})
			for _, line := range strings.Split(b.String(), "\n") {
				if c := utf8.RuneCountInString(line); c > defaultWidth {
					t.Errorf("line of %d columns: %s", c, line)
				}
			}
		}
	})
}

func TestBar(t *testing.T) {
	for _, c := range []struct {
		count, most int
		ascii       bool
		want        string
	}{
		{0, 8, false, "    "},
		{8, 8, false, "████"},
		{1, 1000, false, "▏   "},
		{1, 8, false, "▌   "},
		{7, 8, false, "███▌"},
		{0, 8, true, "    "},
		{1, 1000, true, ".   "},
		{7, 8, true, "####"},
		{4, 8, true, "##  "},
	} {
		if got := bar(c.count, c.most, 4, c.ascii); got != c.want {
			t.Errorf("bar(%d of %d, ascii %v) = %q, want %q", c.count, c.most, c.ascii, got, c.want)
		}
	}
}

// TestIperfLine lays our line beside those that iperf 2 printed for the same
// bins.
func TestIperfLine(t *testing.T) {
	raw, err := os.ReadFile("../prober/stats/testdata/iperf2-bb8.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Histograms []struct {
			Count    int
			Bins     map[string]int
			P5       int `json:"p5_bin"`
			P95      int `json:"p95_bin"`
			P997     int `json:"p99_7_bin"`
			Outliers int
		}
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Histograms) == 0 {
		t.Fatal("no histograms in the vectors")
	}
	for _, h := range doc.Histograms {
		var v []time.Duration
		for number, count := range h.Bins {
			n := 0
			for _, c := range number {
				n = n*10 + int(c-'0')
			}
			for range count {
				v = append(v, time.Duration(n)*100*time.Microsecond-50*time.Microsecond)
			}
		}
		got, omitted := iperfLine(v, math.MaxInt)
		if omitted != 0 {
			t.Errorf("%d bins are missing in %s", omitted, got)
		}
		for _, want := range []string{
			sprintf("BB8-PDF: bin(w=100us):cnt(%d)=62:1,", h.Count),
			sprintf(" (5.00/95.00/99.7%%=%d/%d/%d,Outliers=%d,obl/obu=0/0)", h.P5, h.P95, h.P997, h.Outliers),
		} {
			if !strings.Contains(got, want) {
				t.Errorf("%q is not in %s", want, got)
			}
		}
	}
}
