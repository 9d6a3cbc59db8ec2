package stats

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"testing"
	"time"
)

// TestIperfVectors lays our histogram beside two that iperf 2 printed for runs
// over a real path: values in the middle of each bin must give the same points
// and outliers.
func TestIperfVectors(t *testing.T) {
	var file struct {
		Histograms []struct {
			BinWidth int            `json:"bin_width_us"`
			Count    int            `json:"count"`
			Bins     map[string]int `json:"bins"`
			P5       int            `json:"p5_bin"`
			P95      int            `json:"p95_bin"`
			P997     int            `json:"p99_7_bin"`
			Outliers int            `json:"outliers"`
		} `json:"histograms"`
	}
	raw, err := os.ReadFile("testdata/iperf2-bb8.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Histograms) != 2 {
		t.Fatalf("%d vectors, want 2", len(file.Histograms))
	}
	for i, want := range file.Histograms {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			if time.Duration(want.BinWidth)*time.Microsecond != IperfBinWidth {
				t.Fatalf("bin width %d us", want.BinWidth)
			}
			var values []time.Duration
			for name, count := range want.Bins {
				number, err := strconv.Atoi(name)
				if err != nil {
					t.Fatal(err)
				}
				for range count {
					values = append(values, time.Duration(number)*IperfBinWidth-IperfBinWidth/2)
				}
			}
			rand.Shuffle(len(values), func(a, b int) { values[a], values[b] = values[b], values[a] })
			h := Iperf(values)
			bins := map[string]int{}
			for _, b := range h.Bins {
				bins[strconv.Itoa(b.Number)] = b.Count
			}
			if !reflect.DeepEqual(bins, want.Bins) {
				t.Errorf("bins %v\nwant %v", bins, want.Bins)
			}
			h.Bins = nil
			if w := (IperfHistogram{N: want.Count, P5: want.P5, P95: want.P95, P997: want.P997,
				Outliers: want.Outliers}); !reflect.DeepEqual(h, w) {
				t.Errorf("got  %+v\nwant %+v", h, w)
			}
		})
	}
}

func TestIperfBins(t *testing.T) {
	const us = time.Microsecond
	for _, tt := range []struct {
		v    time.Duration
		want string // "bin below above"
	}{
		{0, "1 0 0"},
		{99 * us, "1 0 0"},
		{99999 * time.Nanosecond, "1 0 0"},
		{100 * us, "2 0 0"},
		{199 * us, "2 0 0"},
		{200 * us, "3 0 0"},
		{10 * time.Millisecond, "101 0 0"},
		{-1 * us, "1 0 0"}, // truncation is toward zero
		{-99 * us, "1 0 0"},
		{-100 * us, "0 1 0"},
		{-time.Hour, "0 1 0"},
		{9999950 * us, "100000 0 0"},
		{10 * time.Second, "0 0 1"},
		{200 * 365 * 24 * time.Hour, "0 0 1"},
		// Single precision can't tell these from the next bin's bound.
		{time.Second - 1, "10001 0 0"},
		{10*time.Second - 1, "0 0 1"},
	} {
		h := Iperf([]time.Duration{tt.v})
		number := 0
		if len(h.Bins) > 0 {
			number = h.Bins[0].Number
		}
		if got := fmt.Sprint(number, h.Below, h.Above); got != tt.want || h.N != 1 {
			t.Errorf("%v: %s, want %s (N %d)", tt.v, got, tt.want, h.N)
		}
	}
}

// fill makes count values in the middle of each of the bins.
func fill(bins ...[2]int) (values []time.Duration) {
	for _, b := range bins {
		for range b[1] {
			values = append(values, time.Duration(b[0])*IperfBinWidth-IperfBinWidth/2)
		}
	}
	return values
}

func TestIperfPoints(t *testing.T) {
	for name, tt := range map[string]struct {
		values        []time.Duration
		p5, p95, p997 int
	}{
		"none":              {nil, 0, IperfBins, IperfBins},
		"one":               {fill([2]int{7, 1}), 7, 7, 7},
		"strictly greater":  {fill([2]int{1, 5}, [2]int{2, 90}, [2]int{3, 5}), 2, 3, 3},
		"just above":        {fill([2]int{1, 6}, [2]int{2, 90}, [2]int{3, 4}), 1, 2, 3},
		"99.7 not reached":  {fill([2]int{1, 997}, [2]int{2, 3}), 1, 1, 2},
		"all below":         {[]time.Duration{-time.Second, -time.Second}, 0, IperfBins, IperfBins},
		"those above count": {append(fill([2]int{4, 95}), slicesOf(5, time.Minute)...), 4, IperfBins, IperfBins},
		"those below count": {append(fill([2]int{4, 96}), slicesOf(4, -time.Minute)...), 4, 4, IperfBins},
	} {
		t.Run(name, func(t *testing.T) {
			h := Iperf(tt.values)
			if h.P5 != tt.p5 || h.P95 != tt.p95 || h.P997 != tt.p997 {
				t.Errorf("points %d/%d/%d, want %d/%d/%d", h.P5, h.P95, h.P997, tt.p5, tt.p95, tt.p997)
			}
		})
	}
}

func slicesOf(n int, v time.Duration) (values []time.Duration) {
	for range n {
		values = append(values, v)
	}
	return values
}

func TestIperfOutliers(t *testing.T) {
	for name, tt := range map[string]struct {
		bins [][2]int
		want int
	}{
		// low 10, high 20, so the fence is 20 + 3*10 = 50, held against the index.
		"beyond the fence":                 {[][2]int{{10, 5}, {20, 70}, {21, 15}, {51, 4}, {52, 6}}, 6},
		"the bin that reaches 90 % itself": {[][2]int{{10, 5}, {20, 70}, {900, 25}}, 0},
		// The first bin holds 10 % or more: low stays 0.
		"no bin below 10 %": {[][2]int{{10, 10}, {20, 70}, {21, 15}, {80, 2}, {82, 3}}, 3},
		// The first bin holds 90 % or more: no fence, whatever comes.
		"no bin below 90 %": {[][2]int{{10, 90}, {2000, 5}, {90000, 5}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Iperf(fill(tt.bins...)).Outliers; got != tt.want {
				t.Errorf("%d outliers, want %d", got, tt.want)
			}
		})
	}
}

// TestIperfFollowsItsDefinition compares with the rules written down the slow way,
// all 100000 bins, on random data.
func TestIperfFollowsItsDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		values := make([]time.Duration, 1+r.IntN(400))
		scale := []float64{3e4, 1e6, 1e8, 4e9}[r.IntN(4)]
		for i := range values {
			values[i] = time.Duration(r.ExpFloat64() * scale)
			if r.IntN(20) == 0 {
				values[i] *= -1
			}
		}
		got, want := Iperf(values), slowIperf(values)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%v\ngot  %+v\nwant %+v", values, got, want)
		}
	}
}

func slowIperf(values []time.Duration) IperfHistogram {
	h := IperfHistogram{N: len(values), P95: IperfBins, P997: IperfBins, Bins: []IperfBin{}}
	counts := make([]int, IperfBins)
	for _, v := range values {
		f := float32(float64(v) / 1e9)
		f *= 1e6
		f /= 100
		switch {
		case f <= -1:
			h.Below++
		case f >= IperfBins:
			h.Above++
		default:
			counts[int(f)]++
		}
	}
	share := func(sum int) float64 { return float64(sum) / float64(h.N) }
	sum, low, high, fence := 0, 0, 0, -1
	for i, c := range counts {
		if c == 0 {
			continue
		}
		sum += c
		h.Bins = append(h.Bins, IperfBin{i + 1, c})
		if share(sum) > 0.05 && h.P5 == 0 {
			h.P5 = i + 1
		}
		if share(sum) > 0.95 && h.P95 == IperfBins {
			h.P95 = i + 1
		}
		if share(sum) > 0.997 && h.P997 == IperfBins {
			h.P997 = i + 1
		}
		if share(sum) < 0.1 {
			low = i + 1
		}
		if share(sum) < 0.9 {
			high = i + 1
			continue
		}
		if fence <= 0 {
			fence = high + 3*(high-low)
		} else if i > fence {
			h.Outliers += c
		}
	}
	return h
}
