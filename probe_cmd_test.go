package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.uber.org/goleak"

	"github.com/bounceback-exporter/bounceback_exporter/internal/iperftest"
)

// call runs the probe command inside this process.
type call struct {
	ctx      context.Context
	signals  chan os.Signal
	terminal bool
	env      map[string]string
	leaves   bool // with something still going on in the background

	stdout, stderr bytes.Buffer
}

func (c *call) run(t *testing.T, args ...string) int {
	t.Helper()
	if !c.leaves {
		defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	}
	app := kingpin.New(program, "").Terminate(nil)
	flags := addProbeFlags(app)
	if _, err := app.Parse(append([]string{"probe"}, args...)); err != nil {
		t.Fatal(err)
	}
	if c.ctx == nil {
		c.ctx = t.Context()
	}
	if c.signals == nil {
		c.signals = make(chan os.Signal, 4)
	}
	cmd := &probeCmd{flags: flags, stdout: &c.stdout, stderr: &c.stderr, signals: c.signals,
		getenv:  func(k string) string { return c.env[k] },
		columns: func(w io.Writer) (int, bool) { return 100, c.terminal && w == &c.stdout },
	}
	return cmd.run(c.ctx)
}

// write makes a file in a directory of the test's own.
func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const testModules = `
allowed_targets: {networks: [127.0.0.0/8]}
modules:
  short: {count: 20}
  long: {period: 10ms, duration: 5s, trip_times: true}
  rows: {period: 20ms, duration: 2100ms}
`

func TestProbeWithoutTarget(t *testing.T) {
	var c call
	if code := c.run(t); code != exitOK {
		t.Fatalf("exit %d\n%s%s", code, &c.stdout, &c.stderr)
	}
	if !strings.Contains(c.stderr.String(), "built-in responder on 127.0.0.1:") {
		t.Errorf("it does not say what it tests: %q", &c.stderr)
	}
	// The report knows the responder by the version it tells.
	for _, want := range []string{": success\n", "a responder of bounceback_exporter", "1000 bounces for 1000 requests", "cnt(1000)="} {
		if !strings.Contains(c.stdout.String(), want) {
			t.Errorf("%q is not in\n%s", want, &c.stdout)
		}
	}
	if i := strings.IndexFunc(c.stdout.String(), func(r rune) bool { return r > 127 }); i >= 0 {
		t.Errorf("not ASCII at %d without a UTF-8 locale", i)
	}
}

func TestProbeFormats(t *testing.T) {
	t.Run("json", func(t *testing.T) {
		var c call
		if code := c.run(t, "--format", "json"); code != exitOK {
			t.Fatalf("exit %d", code)
		}
		var doc struct {
			SchemaVersion int `json:"schema_version"`
			Success       bool
			Windows       []struct{ Replies int }
		}
		if err := json.Unmarshal(c.stdout.Bytes(), &doc); err != nil {
			t.Fatal(err)
		}
		if doc.SchemaVersion != 1 || !doc.Success || len(doc.Windows) != 1 || doc.Windows[0].Replies != 1000 {
			t.Errorf("%+v", doc)
		}
	})
	t.Run("prometheus", func(t *testing.T) {
		for _, hide := range []bool{false, true} {
			var c call
			args := []string{"--format", "prometheus"}
			if hide {
				args = append(args, "--hide-ips")
			}
			if code := c.run(t, args...); code != exitOK {
				t.Fatalf("exit %d", code)
			}
			parser := expfmt.NewTextParser(model.UTF8Validation)
			families, err := parser.TextToMetricFamilies(&c.stdout)
			if err != nil {
				t.Fatal(err)
			}
			if f := families["probe_success"]; f == nil || f.GetMetric()[0].GetGauge().GetValue() != 1 {
				t.Errorf("probe_success is %v", f)
			}
			if _, there := families["probe_ip_addr_hash"]; there == hide {
				t.Errorf("hide %v, but the address's hash is there: %v", hide, there)
			}
		}
	})
}

func TestProbeHidesAddresses(t *testing.T) {
	for _, format := range []string{"text", "json", "prometheus"} {
		raw := filepath.Join(t.TempDir(), "raw")
		var c call
		if code := c.run(t, "--hide-ips", "--verbose", "--format", format, "--raw", raw); code != exitOK {
			t.Fatalf("exit %d", code)
		}
		stamps, err := os.ReadFile(raw)
		if err != nil {
			t.Fatal(err)
		}
		for name, out := range map[string]string{format: c.stdout.String(), "raw": string(stamps)} {
			if strings.Contains(out, "127.0.0.1") || len(out) == 0 {
				t.Errorf("%s shows the address, or nothing:\n%.500s", name, out)
			}
		}
	}
}

func TestProbeUsage(t *testing.T) {
	cfg := writeFile(t, "c.yml", testModules)
	bad := writeFile(t, "bad.yml", "modules: {x: {size: 1.5}}\n")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"127.0.0.1:99999"}, "port must be a number from 1 to 65535"},
		{[]string{"--config.file", cfg}, "--module is needed; the modules are: long, rows, short"},
		{[]string{"--config.file", cfg, "--module", "nope"}, `there is no module "nope"; the modules are: long, rows, short`},
		{[]string{"--config.file", cfg + ".not"}, cfg + ".not"},
		{[]string{"--config.file", bad}, "bad.yml:1"},
		{[]string{"--timeout=-1s"}, "--timeout -1s is negative"},
		{[]string{"--raw", filepath.Join(t.TempDir(), "no", "such")}, "--raw: open "},
	} {
		t.Run(strings.Join(c.args[:1], " "), func(t *testing.T) {
			var got call
			if code := got.run(t, c.args...); code != exitUsage {
				t.Errorf("exit %d", code)
			}
			if !strings.Contains(got.stderr.String(), c.want) || got.stdout.Len() > 0 {
				t.Errorf("%q is not in %q, or a report was written: %q", c.want, &got.stderr, &got.stdout)
			}
		})
	}
	for _, args := range [][]string{{"probe", "--no-such-flag"}, {"probe", "--format", "xml"}, {"probe", "a", "b"}} {
		if code := run(args); code != exitUsage {
			t.Errorf("%v: exit %d", args, code)
		}
	}
}

func TestProbeFails(t *testing.T) {
	port := strconv.Itoa(int(iperftest.FreePort(t)))
	raw := filepath.Join(t.TempDir(), "raw")
	var c call
	if code := c.run(t, "127.0.0.1:"+port, "--raw", raw); code != exitError {
		t.Errorf("exit %d", code)
	}
	for _, want := range []string{"FAILED in phase connect: connect_refused", "what to do"} {
		if !strings.Contains(c.stdout.String(), want) {
			t.Errorf("%q is not in\n%s", want, &c.stdout)
		}
	}
	stamps, err := os.ReadFile(raw)
	if err != nil || !strings.Contains(string(stamps), `"reason":"connect_refused"`) {
		t.Errorf("the raw file of a failed probe: %v %q", err, stamps)
	}
}

func TestProbeObeysTheAllowList(t *testing.T) {
	cfg := writeFile(t, "c.yml", "allowed_targets: {networks: [192.0.2.0/24]}\nmodules: {x: {count: 5}}\n")
	var c call
	if code := c.run(t, "127.0.0.1:9", "--config.file", cfg); code != exitError {
		t.Errorf("exit %d", code)
	}
	if !strings.Contains(c.stdout.String(), "target_denied") {
		t.Errorf("not denied:\n%s", &c.stdout)
	}
	// The built-in responder is ours, whatever the list says.
	c = call{}
	if code := c.run(t, "--config.file", cfg); code != exitOK {
		t.Errorf("without a target: exit %d\n%s", code, &c.stdout)
	}
}

func TestProbeTimeoutFlag(t *testing.T) {
	var c call
	if code := c.run(t, "--timeout", "500ms"); code != exitError {
		t.Errorf("exit %d", code)
	}
	if !strings.Contains(c.stdout.String(), "timeout_too_short") {
		t.Errorf("2 s of test in 500 ms:\n%s", &c.stdout)
	}
}

func TestProbeRealServer(t *testing.T) {
	server := iperftest.Start(t)
	cfg := writeFile(t, "c.yml", testModules)
	c := call{terminal: true, env: map[string]string{"LANG": "C.UTF-8"}}
	if code := c.run(t, server.Addr.String(), "--config.file", cfg, "--module", "rows"); code != exitOK {
		t.Fatalf("exit %d\n%s%s", code, &c.stdout, &c.stderr)
	}
	out := c.stdout.String()
	for _, want := range []string{"iperf 2.1.8", "retransmit", "TCP RTT", "█", "\x1b[1m"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	// On a terminal the rows come while the test runs, and only once.
	if n := strings.Count(out, "sec  count"); n != 1 || !strings.HasPrefix(strings.TrimSpace(out), "sec") {
		t.Errorf("%d headers of rows:\n%s", n, out)
	}
	if bad := server.Troubles(); len(bad) > 0 {
		t.Errorf("the server complains: %q", bad)
	}
}

func TestProbeCancelled(t *testing.T) {
	server := iperftest.Start(t)
	cfg := writeFile(t, "c.yml", testModules)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	interrupted, interrupt := context.WithCancel(t.Context())
	context.AfterFunc(ctx, interrupt)
	c := call{ctx: interrupted}
	if code := c.run(t, server.Addr.String(), "--config.file", cfg, "--module", "long"); code != exitError {
		t.Errorf("exit %d", code)
	}
	out := c.stdout.String()
	m := regexp.MustCompile(`(\d+) bounces for \d+ requests`).FindStringSubmatch(out)
	if !strings.Contains(out, "FAILED in phase bounce: cancelled") || m == nil {
		t.Fatalf("what was measured until then is missing:\n%s", out)
	}
	if n, _ := strconv.Atoi(m[1]); n < 1 || n > 60 {
		t.Errorf("%d bounces in half a second with a period of 10 ms", n)
	}
	if bad := server.Troubles(); len(bad) > 0 || !server.Alive() {
		t.Errorf("the server complains: %q", bad)
	}
}

func TestTimeoutFlag(t *testing.T) {
	for in, want := range map[string]string{
		"5": "5 has no unit: write 5s", "1.5": "write 1.5s", "soon": `"soon" is no duration`, "": `"" is no duration`, "1d": "write it like",
	} {
		var d durationFlag
		if err := d.Set(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
	}
	var d durationFlag
	if err := d.Set("1m30s"); err != nil || d.String() != "1m30s" {
		t.Errorf("%v, %v", d, err)
	}
}

// TestProbeSaysWhatItWaitsFor: of another Ctrl-C is the word only after a first one.
func TestProbeSaysWhatItWaitsFor(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() { // mute, and late to close
				_, _ = io.Copy(io.Discard, conn)
				time.Sleep(1500 * time.Millisecond)
				conn.Close()
			}()
		}
	}()
	cfg := writeFile(t, "c.yml", "modules: {x: {count: 1, timeout: 300ms}}\n")
	c := call{leaves: true}
	if code := c.run(t, ln.Addr().String(), "--config.file", cfg); code != exitError {
		t.Errorf("exit %d", code)
	}
	if got := c.stderr.String(); !strings.Contains(got, "waiting up to 8s") || !strings.Contains(got, "; Ctrl-C leaves at once") {
		t.Errorf("it says %q", got)
	}
}

// TestProbeLeavesAtOnce is the second Ctrl-C: a peer that never closes does not
// hold the command, and still sees our FIN rather than a reset.
func TestProbeLeavesAtOnce(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	ended := make(chan error, 1)
	accepted := make(chan net.Conn, 1)
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			ended <- err
			return
		}
		accepted <- conn
		_, err = io.Copy(io.Discard, conn) // nil: it saw EOF
		ended <- err
	}()
	ctx, interrupt := context.WithCancel(t.Context())
	c := call{ctx: ctx, signals: make(chan os.Signal, 4), leaves: true}
	var conn net.Conn
	go func() {
		conn = <-accepted
		c.signals <- syscall.SIGINT // main's context is cancelled by the same signal
		interrupt()
		time.Sleep(100 * time.Millisecond)
		c.signals <- syscall.SIGINT
	}()
	begin := time.Now()
	if code := c.run(t, ln.Addr().String()); code != exitError {
		t.Errorf("exit %d", code)
	}
	if took := time.Since(begin); took > drainTime/2 {
		t.Errorf("it took %s to leave", took)
	}
	if !strings.Contains(c.stdout.String(), "cancelled") {
		t.Errorf("report:\n%s", &c.stdout)
	}
	if err := <-ended; err != nil {
		t.Errorf("the peer saw %v instead of our FIN", err)
	}
	conn.Close()
}

// helperArgs is set in the environment of a test process that is to be the
// program itself.
const helperArgs = "BOUNCEBACK_EXPORTER_TEST_ARGS"

func TestHelperProcess(t *testing.T) {
	args, ok := os.LookupEnv(helperArgs)
	if !ok {
		t.Skip("only of use as a process of TestProbeSignal")
	}
	os.Exit(run(strings.Split(args, " ")))
}

// TestProbeSignal sends a real Ctrl-C to a real process.
func TestProbeSignal(t *testing.T) {
	server := iperftest.Start(t)
	cfg := writeFile(t, "c.yml", testModules)
	cmd := exec.Command(os.Args[0], "-test.run=^TestHelperProcess$")
	cmd.Env = append(os.Environ(), helperArgs+"=probe "+server.Addr.String()+" --config.file "+cfg+" --module long")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); !strings.Contains(server.Log(), "trip-times"); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > 10*time.Second {
			t.Fatalf("the server has not seen the test:\n%s", server.Log())
		}
	}
	time.Sleep(200 * time.Millisecond)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitError {
		t.Errorf("exit %d\n%s", code, &stderr)
	}
	if out := stdout.String(); !strings.Contains(out, "cancelled") || !strings.Contains(out, "bounces for") {
		t.Errorf("what was measured is missing:\n%s", out)
	}
	if bad := server.Troubles(); len(bad) > 0 || !server.Alive() {
		t.Errorf("the server complains: %q", bad)
	}
}
