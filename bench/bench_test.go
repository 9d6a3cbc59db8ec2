//go:build linux

package main

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"
)

// What iperf 2.1.8 printed.
const stock218 = `[  1] local 127.0.0.1%lo port 48278 connected with 127.0.0.1 port 25111 (bb w/quickack len/hold=100/0) (sock=3) (icwnd/mss/irtt=319/32741/28) (ct=0.34 ms) on 2026-11-30 21:54:16 (UTC)
[ ID] Interval            Transfer    Bandwidth         BB cnt=avg/min/max/stdev         Rtry  Cwnd/RTT    RPS
[  1] 0.0000-1.0000 sec  1.90 MBytes  15.9 Mbits/sec    9999=0.098/0.013/1.464/0.487 ms    0  576K/62 us    10200 rps
[  1] 0.0000-1.0155 sec  1.91 MBytes  15.8 Mbits/sec    10030=0.099/0.013/146.464/1.487 ms    0  576K/1962 us    10109 rps
[  1] 0.0000-1.0155 sec BB8(f)-PDF: bin(w=100us):cnt(10030)=1:9479,2:401 (5.00/95.00/99.7%=1/2/33,Outliers=0,obl/obu=0/0)
`

func TestParseStockTakesTheFinalLine(t *testing.T) {
	m, err := parseStock([]byte(stock218), 200600*time.Microsecond)
	if err != nil {
		t.Fatal(err)
	}
	if m[figRate] != 10109 {
		t.Errorf("rate %v, the final line says 10109", m[figRate])
	}
	if got := m[figAllCPU]; math.Abs(got-20) > 1e-9 {
		t.Errorf("CPU per bounce %v us, 200.6 ms for 10030 bounces are 20", got)
	}
	if got := m[figMean]; math.Abs(got-1e6/10109) > 1e-9 {
		t.Errorf("mean %v us", got)
	}
	if _, ok := m[figP50]; ok {
		t.Error("a median, which 100 us bins can't tell")
	}
}

func TestParseStockRefuses(t *testing.T) {
	for _, out := range []string{
		"", "connect failed: Connection refused\n",
		"[  1] 0.0-1.0 sec 0 Bytes 0 bits/sec    0=0.000/0.000/0.000/0.000 ms    0  576K/62 us    0 rps\n",
		"[  1] 0.0-1.0 sec 0 Bytes 0 bits/sec    5=0.1/0.1/0.1/0.0 ms    0  576K/62 us    . rps\n",
	} {
		if m, err := parseStock([]byte(out), time.Second); err == nil {
			t.Errorf("%q: %v, want an error", out, m)
		}
	}
}

const stockBoth = `[ ID] Interval       Transfer     Bandwidth
[  1] 0.0000-1.0000 sec  200000000 Bytes  200000000 Bytes/sec
[  2] 0.0000-1.0000 sec  100000000 Bytes  100000000 Bytes/sec
[ *1] 0.0000-1.2500 sec  250000000 Bytes  200000000 Bytes/sec
[SUM] 0.0000-1.2500 sec  550000000 Bytes  440000000 Bytes/sec
`

func TestParseStockLoadAddsStreamsNotSums(t *testing.T) {
	m, err := parseStockLoad([]byte(stockBoth), 110*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	for fig, want := range map[string]float64{figUp: 0.3 / 1.25, figDown: 0.25 / 1.25, figGigCPU: 0.2} {
		if math.Abs(m[fig]-want) > 1e-9 {
			t.Errorf("%s = %v, want %v", fig, m[fig], want)
		}
	}
	if m, err := parseStockLoad([]byte("connect failed: Connection refused\n"), 0); err == nil {
		t.Errorf("%v of nothing", m)
	}
}

func TestChildsOutputSurvives(t *testing.T) {
	var buf bytes.Buffer
	rtt := []time.Duration{40e3, 10e3, 30e3, 20e3}
	if err := encode(&buf, header{N: 4, Late: 2, CPU: 80e3, Wall: 1e6}, rtt, []time.Duration{5e3, 1e3}); err != nil {
		t.Fatal(err)
	}
	m, err := decode(buf.Bytes(), 120*time.Microsecond)
	if err != nil {
		t.Fatal(err)
	}
	want := measured{figP50: 20, figP99: 40, figMean: 25, figRate: 40000, figCPU: 20, figAllCPU: 30, figLate50: 1, figLate99: 5}
	for fig, v := range want {
		if math.Abs(m[fig]-v) > 1e-6 {
			t.Errorf("%s = %v, want %v", fig, m[fig], v)
		}
	}
	for cut := range buf.Len() {
		if _, err := decode(buf.Bytes()[:cut], 0); err == nil {
			t.Errorf("the first %d of %d bytes were taken for the whole", cut, buf.Len())
		}
	}
}

func TestRatiosAreTakenWithinRounds(t *testing.T) {
	// The second round was disturbed: both doubled, their ratio did not.
	a := series{{figMean: 11}, {figMean: 22}, {figMean: 11}}
	b := series{{figMean: 10}, {figMean: 20}, {figMean: 10}}
	for _, r := range a.ratios(figMean, b) {
		if math.Abs(r-1.1) > 1e-9 {
			t.Errorf("ratio %v, want 1.1", r)
		}
	}
	if a.ratios(figP50, b) != nil {
		t.Error("ratios of a figure that nobody measured")
	}
	if got := median([]float64{4, 1, 3, 2}); got != 2.5 {
		t.Errorf("median of 1 to 4 is %v", got)
	}
	if got := cell(nil, "%.1f"); got != "-" {
		t.Errorf("nothing measured prints %q", got)
	}
}

func TestOptionsSayWhatIsAllowed(t *testing.T) {
	good := options{what: "nothing", rounds: 1, count: 1, size: 100, duration: time.Second, streams: 1, clientCPU: 1}
	for want, change := range map[string]func(*options){
		"-rounds 0: at least 1":      func(o *options) { o.rounds = 0 },
		"-count 100001: 1 to 100000": func(o *options) { o.count = 100001 },
		"-size 67: 68 to 131072":     func(o *options) { o.size = 67 },
		"must differ":                func(o *options) { o.clientCPU = 0 },
		"-nice -21: -20 to 19":       func(o *options) { o.nice = -21 },
		"-hold 2s: 0s to 1s":         func(o *options) { o.hold = 2 * time.Second },
		"-duration 1.5s: whole":      func(o *options) { o.duration = 1500 * time.Millisecond },
		"-streams 65: 1 to 64":       func(o *options) { o.streams = 65 },
		"-what \"nothing\":":         func(*options) {},
	} {
		o := good
		change(&o)
		err := o.run()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
