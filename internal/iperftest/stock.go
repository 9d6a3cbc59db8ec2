package iperftest

import (
	"fmt"
	"net/netip"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Stock is a stock client's bounceback test that is watched for being disturbed:
// it bounces a hundred times a second for a given time.
type Stock struct {
	t      testing.TB
	client *Client
	length time.Duration
}

// StartStock starts one against addr in the background; wrap may be nil.
func StartStock(t testing.TB, wrap Wrap, addr netip.AddrPort, length time.Duration) *Stock {
	t.Helper()
	if wrap == nil {
		wrap = Direct
	}
	seconds := func(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) }
	return &Stock{t: t, length: length, client: StartClient(t, wrap, addr,
		"--bounceback=1", "--bounceback-period", "0.01", "-t", seconds(length),
		// The client takes a reply later than half a report interval for an error.
		"-i", seconds(max(length, 10*time.Second)))}
}

// StockReport is what a stock client said of its test.
type StockReport struct {
	Interval time.Duration // of the whole test, its end included
	Bounces  int
	Output   string
}

// lastLine is the client's line for the whole test.
var lastLine = regexp.MustCompile(`(?m)^\[ *\d+\] 0\.0+-(\d+\.\d+) sec .*? (\d+)=\d`)

// Late is how much longer than it should a stock test may take that nothing has
// disturbed: of 600 with nobody beside them three took a second more, since a 2.1.8
// server loses a wake-up now and then. A test whose end goes unanswered takes two.
const Late = 1500 * time.Millisecond

// Wait waits for the test's end and tells what is wrong with it: a client that
// failed or complained, an end not within late of the test's time, or too few
// bounces. A server that was hurt cuts a test short, or does not answer its end:
// then the client waits for it as long again, but at least two seconds.
func (s *Stock) Wait(late time.Duration) (StockReport, error) {
	out, took, err := s.client.Wait(s.length + 20*time.Second)
	r := StockReport{Output: out}
	if err != nil {
		return r, fmt.Errorf("after %v: %w", took, err)
	}
	lines := lastLine.FindAllStringSubmatch(out, -1)
	if lines == nil {
		return r, fmt.Errorf("no report of the whole test")
	}
	last := lines[len(lines)-1]
	sec, err := strconv.ParseFloat(last[1], 64)
	if err != nil {
		return r, err
	}
	r.Interval = time.Duration(sec * 1e9)
	if r.Bounces, err = strconv.Atoi(last[2]); err != nil {
		return r, err
	}
	if early := s.length - 20*time.Millisecond; r.Interval < early || r.Interval > s.length+late {
		return r, fmt.Errorf("a test of %v took %v", s.length, r.Interval)
	}
	// A busy machine misses ticks, but not nearly all of them.
	if least := int(s.length / (200 * time.Millisecond)); r.Bounces < least {
		return r, fmt.Errorf("%d bounces in %v, at least %d should have been possible", r.Bounces, s.length, least)
	}
	for _, w := range []string{"fail", "WARN", "error", "reset", "Broken pipe"} {
		if strings.Contains(out, w) {
			return r, fmt.Errorf("the client says %q", w)
		}
	}
	return r, nil
}

// CheckUndisturbed waits for the test's end and fails the test if something is
// wrong with it.
func (s *Stock) CheckUndisturbed(late time.Duration) {
	s.t.Helper()
	if r, err := s.Wait(late); err != nil {
		s.t.Errorf("the stock client's test was disturbed: %v\n%s", err, r.Output)
	}
}

// Iperf3 is a running iperf3 -s.
func Iperf3(t testing.TB) netip.AddrPort {
	t.Helper()
	if _, err := exec.LookPath("iperf3"); err != nil {
		t.Skip("needs iperf3 in PATH (Debian package iperf3)")
	}
	addr := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), FreePort(t))
	cmd := exec.Command("iperf3", "-s", "-B", "127.0.0.1", "-p", strconv.Itoa(int(addr.Port())))
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting iperf3 -s: %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for range 1000 {
		if SocketsIn(t, addr.Port(), listen) > 0 {
			return addr
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("iperf3 -s does not listen")
	return addr
}
