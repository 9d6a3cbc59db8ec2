package responder

import (
	"context"
	"net"
	"net/netip"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/prober/wire"
)

// start serves on a free loopback port until the test ends.
func start(t testing.TB, o Options) (*Responder, netip.AddrPort) {
	t.Helper()
	return startAt(t, o, "127.0.0.1:0")
}

func startAt(t testing.TB, o Options, address string) (*Responder, netip.AddrPort) {
	t.Helper()
	ln, err := Listen(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	r := New(o)
	done := make(chan error, 1)
	go func() { done <- r.Serve(context.Background(), ln) }()
	t.Cleanup(func() {
		r.Close()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return r, ln.Addr().(*net.TCPAddr).AddrPort()
}

// stockIperf is the path of iperf 2.1.8, which Debian has; the expected output is
// that release's.
func stockIperf(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("iperf")
	if err != nil {
		t.Skip("needs iperf 2.1.8 (Debian package iperf)")
	}
	out, _ := exec.Command(path, "-v").CombinedOutput() // exits 1 by design
	if !strings.Contains(string(out), "version 2.1.8") {
		t.Skipf("needs iperf 2.1.8, this is %s", out)
	}
	return path
}

// runIperf runs a stock client to its end; it must exit 0.
func runIperf(t *testing.T, path string, to netip.AddrPort, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	args = append([]string{"-c", to.Addr().String(), "-p", strconv.Itoa(int(to.Port())), "-t", "1"}, args...)
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("iperf %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// complaint is what iperf 2.1.8 prints when something went wrong.
var complaint = regexp.MustCompile(`(?i)warn|error|fail|timeout|reset|refused|invalid|nan|mismatch`)

// summary is a bounce line of the client: count=avg/min/max/stdev.
var summary = regexp.MustCompile(`(?m)^\[ +(\d+)\] 0\.0+-\d+\.\d+ sec .* (\d+)=([\d.]+)/([\d.]+)/([\d.]+)/([\d.]+) ms`)

// bounces is what the client says in the end of one connection.
type bounces struct {
	count int
	least float64 // ms
}

// bounced is that of each bounce connection of a client's output.
func bounced(t *testing.T, out string) map[string]bounces {
	t.Helper()
	all := map[string]bounces{}
	for _, m := range summary.FindAllStringSubmatch(out, -1) {
		count, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		least, err := strconv.ParseFloat(m[4], 64)
		if err != nil {
			t.Fatal(err)
		}
		all[m[1]] = bounces{count, least} // the last line of a connection is its final one
	}
	return all
}

// Stock clients run against the responder without a complaint, exit 0, and agree
// with its counters.
func TestStockClients(t *testing.T) {
	path := stockIperf(t)
	for _, tc := range []struct {
		args  string
		conns int // bounce connections
		loads uint64
		up    bool // the load sends, receives
		down  bool
		want  string  // regexp in the output
		least float64 // RTT, ms
		as    *Emulation
	}{
		{args: "", conns: 1},
		{args: "--bounceback-hold 20", conns: 1, least: 20, as: &Emulation{Version: wire.V2_1_8}},
		{args: "--trip-times", conns: 1, want: `OWD Delays`, as: &Emulation{Version: wire.V2_1_9}},
		{args: "", conns: 1, as: &Emulation{NoAck: true}},
		{args: "--trip-times", conns: 1, want: `OWD Delays \(ms\) Cnt=\d+ To=`},
		{args: "--bounceback-hold 20", conns: 1, least: 20},
		{args: "-S 0x20", conns: 1, want: `tos rx/tx=0x20/0x20`},
		{args: "--bounceback-no-quickack", conns: 1},
		{args: "-l 68", conns: 1},
		{args: "-l 131072", conns: 1},
		{args: "-P 3", conns: 3},
		{args: "--bounceback-period 0", conns: 1},
		{args: "--bounceback-hold 5 --trip-times -S 0x20 --bounceback-period 0", conns: 1},
		{args: "--bounceback-congest=up", conns: 1, loads: 1, up: true},
		{args: "--bounceback-congest=down", conns: 1, loads: 1, down: true},
		{args: "--bounceback-congest", conns: 1, loads: 1, up: true, down: true},
		{args: "--bounceback-congest=up,2", conns: 1, loads: 2, up: true},
		{args: "--bounceback-congest=up --trip-times", conns: 1, loads: 1, up: true},
		{args: "--bounceback-congest=down --trip-times", conns: 1, loads: 1, down: true},
		{args: "--bounceback-congest --trip-times", conns: 1, loads: 1, up: true, down: true},
	} {
		t.Run(strings.TrimSpace("bounceback "+tc.args), func(t *testing.T) {
			r, addr := start(t, Options{Emulate: tc.as})
			out := runIperf(t, path, addr, append([]string{"--bounceback"}, strings.Fields(tc.args)...)...)
			if c := complaint.FindString(out); c != "" {
				t.Errorf("the client says %q", c)
			}
			if tc.want != "" && !regexp.MustCompile(tc.want).MatchString(out) {
				t.Errorf("no %s in the output", tc.want)
			}
			s := settled(t, r)
			total := 0
			for _, b := range bounced(t, out) {
				total += b.count
				if b.least < tc.least {
					t.Errorf("a round trip of %g ms with a hold of %g", b.least, tc.least)
				}
			}
			// A client may send one request more than it reads the reply of.
			if got := int(s.Bounces); got < total || got > total+tc.conns || total < 10*tc.conns {
				t.Errorf("the client counts %d bounces, the responder %d", total, got)
			}
			if int(s.Tests) != tc.conns || s.Loads != tc.loads || s.Accepted != uint64(tc.conns)+tc.loads {
				t.Errorf("%d tests and %d loads of %d connections", s.Tests, s.Loads, s.Accepted)
			}
			if tc.up != (s.LoadReceived > 1<<20) || tc.down != (s.LoadSent > 1<<20) {
				t.Errorf("load: %d bytes received, %d sent", s.LoadReceived, s.LoadSent)
			}
			if s.Garbage+s.TimedOut+s.Rejected+s.Evicted+s.LoadsRefused > 0 || s.Resets > tc.loads {
				t.Errorf("counted as bad: %+v", s)
			}
			if t.Failed() {
				t.Logf("output:\n%s", out)
			}
		})
	}
}

// settled returns the counters as soon as no connection is left.
func settled(t testing.TB, r *Responder) Stats {
	t.Helper()
	for range 1000 {
		if s := r.Stats(); s.Active == 0 {
			return s
		}
		time.Sleep(2 * time.Millisecond)
	}
	t.Fatalf("connections left: %+v", r.Stats())
	return Stats{}
}
