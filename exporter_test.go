package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// One command, no configuration: the exporter answers, and its own responder is
// there to be probed.
func TestExporterWithoutConfiguration(t *testing.T) {
	p := startExporter(t, "--responder.listen-address=127.0.0.1:0")
	m := regexp.MustCompile(`msg="the responder is listening" address=(\S+)`).FindStringSubmatch(p.logged())
	if m == nil {
		t.Fatal("no responder")
	}
	_, body := p.get(t, "/probe?target="+m[1])
	if series(body, "probe_success") != "1" || series(body, `probe_bounceback_replies{load="none"}`) != "1000" {
		t.Errorf("got %s", body)
	}
	if _, page := p.get(t, "/"); !strings.Contains(page, m[1]) {
		t.Error("the landing page does not offer the responder")
	}
	_, metrics := p.get(t, "/metrics")
	if series(metrics, `bounceback_exporter_probes_total{module="bounceback"}`) != "1" {
		t.Error("the probe is not counted")
	}
	p.signal(t, syscall.SIGTERM)
	if code := p.exit(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

const slowModule = "modules:\n  slow: {period: 20ms, duration: 1500ms, timeout: 20s}\n"

// A stop in mid-probe: nobody new is let in, the scrape gets its whole answer,
// and the server sees no reset.
func TestExporterStopsInOrder(t *testing.T) {
	r, target := startResponder(t, "127.0.0.1")
	p := startExporter(t, "--config.file="+writeConfig(t, slowModule))
	var code int
	var body string
	var err error
	var wg sync.WaitGroup
	wg.Go(func() { code, body, err = tryGet(p.url + "/probe?target=" + target) })
	eventually(t, "the probe", func() bool { return r.Stats().Bounces > 5 })
	p.signal(t, syscall.SIGTERM)
	eventually(t, "the port to close", func() bool {
		c, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	if n := r.Stats().Active; n == 0 {
		t.Error("the probe was over before the port closed: this shows nothing")
	}
	wg.Wait()
	if err != nil || code != 200 || series(body, "probe_success") != "1" {
		t.Errorf("%d, %v: %s", code, err, body)
	}
	if code := p.exit(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if s := r.Stats(); s.Resets != 0 {
		t.Errorf("%d connections were reset", s.Resets)
	}
}

// The second signal ends the process at once, and still no server sees a reset
// before our FIN.
func TestExporterStopsAtOnce(t *testing.T) {
	r, target := startResponder(t, "127.0.0.1")
	p := startExporter(t, "--config.file="+writeConfig(t,
		"modules: {long: {period: 1ms, burst: 5, duration: 15s, timeout: 20s}}"))
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() { _, _, _ = tryGet(p.url + "/probe?target=" + target) })
	}
	eventually(t, "the probes", func() bool { return r.Stats().Tests == 5 && r.Stats().Bounces > 200 })
	p.signal(t, syscall.SIGTERM)
	eventually(t, "the stop", func() bool { return strings.Contains(p.logged(), "stopping") })
	began := time.Now()
	p.signal(t, syscall.SIGINT)
	if code := p.exit(t); code == 0 {
		t.Error("exit code 0, as after an orderly stop")
	}
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("it took %v, with 15 s to go: that is not at once", took)
	}
	wg.Wait()
	eventually(t, "the connections to end", func() bool { return r.Stats().Active == 0 })
	if s := r.Stats(); s.Resets != 0 {
		t.Errorf("%d of %d connections were reset", s.Resets, s.Accepted)
	}
}

func TestExporterReloads(t *testing.T) {
	r, target := startResponder(t, "127.0.0.1")
	name := writeConfig(t, slowModule)
	p := startExporter(t, "--config.file="+name)
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	// In mid-probe: it stays on its module, though that is gone.
	var body string
	var wg sync.WaitGroup
	wg.Go(func() { _, body, _ = tryGet(p.url + "/probe?target=" + target + "&module=slow") })
	eventually(t, "the probe", func() bool { return r.Stats().Bounces > 5 })
	write("modules: {other: {period: 20ms, duration: 100ms}}")
	p.signal(t, syscall.SIGHUP)
	eventually(t, "the reload", func() bool {
		code, _, err := tryGet(p.url + "/probe?target=" + target + "&module=other")
		return err == nil && code == 200
	})
	wg.Wait()
	bounced, _ := strconv.ParseFloat(series(body, `probe_bounceback_phase_duration_seconds{phase="bounce"}`), 64)
	if series(body, "probe_success") != "1" || bounced < 1.4 {
		t.Errorf("the probe that ran got %s", body)
	}
	if code, _ := p.get(t, "/probe?target="+target+"&module=slow"); code != 400 {
		t.Errorf("the removed module answers %d", code)
	}

	// A mistake leaves everything as it is.
	write("modules: {other: {size: 1.5}}")
	p.signal(t, syscall.SIGHUP)
	eventually(t, "the refusal", func() bool { return strings.Contains(p.logged(), "the old one stays in force") })
	_, metrics := p.get(t, "/metrics")
	if series(metrics, "bounceback_exporter_config_last_reload_successful") != "0" {
		t.Error("the failure does not show")
	}
	if code, _ := p.get(t, "/probe?target="+target+"&module=other"); code != 200 {
		t.Errorf("the old module answers %d", code)
	}

	// By HTTP, with the mistakes in the answer.
	res, err := http.Post(p.url+"/-/reload", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, _ := io.ReadAll(res.Body)
	res.Body.Close()
	if res.StatusCode != 500 || !strings.Contains(string(answer), "size") || !strings.Contains(string(answer), "1.5") {
		t.Errorf("%d %s", res.StatusCode, answer)
	}
}

func TestExporterExitCodes(t *testing.T) {
	good, bad := writeConfig(t, slowModule), writeConfig(t, "modules:\n  m: {size: 1.5, hold: -1s}\n  n: {nope: 1}\n")
	broken := writeConfig(t, "tls_server_config: {cert_file: /does/not/exist}\n")
	for _, tc := range []struct {
		args []string
		code int
		says []string
	}{
		{[]string{"--config.check"}, 0, []string{"configuration OK", "bounceback"}},
		{[]string{"--config.check", "--config.file=" + good}, 0, []string{"configuration OK", "slow"}},
		{[]string{"--config.check", "--config.file=" + bad}, 1, []string{":2: modules.m.size", ":2: modules.m.hold", ":3: modules.n.nope"}},
		{[]string{"--config.check", "--config.file=" + good, "--config.file=" + bad}, 1, []string{"modules.m.size"}},
		{[]string{"--config.check", "--config.file=/does/not/exist"}, 1, []string{"/does/not/exist"}},
		{[]string{"--config.check", "--web.config.file=" + broken}, 1, []string{broken}},
		{[]string{"--config.file=" + bad}, 1, []string{"level=error", "key=modules.m.size", "key=modules.n.nope", "line=3"}},
		{[]string{"--nope"}, 2, []string{"--nope", "--help"}},
		{[]string{"--timeout-offset=-1"}, 2, []string{"--timeout-offset"}},
		{[]string{"--timeout-offset=NaN"}, 2, []string{"--timeout-offset"}},
		{[]string{"--history.limit=-1"}, 2, []string{"--history.limit"}},
		{[]string{"--log.level=loud"}, 2, []string{"loud"}},
		{[]string{"surplus"}, 2, []string{"surplus"}},
		{[]string{"--web.external-url=ftp://x/"}, 2, []string{"external-url"}},
		{[]string{"--web.listen-address=nonsense"}, 1, []string{"nonsense"}},
		{[]string{"--responder.listen-address=nonsense"}, 1, []string{"nonsense"}},
		{[]string{"--version"}, 0, []string{program}},
		{[]string{"--help"}, 0, []string{"--config.file", "--web.listen-address", "--timeout-offset", "--log.prober", "probe", "10501"}},
		{[]string{"--help-man"}, 0, []string{".TH", "history.limit"}},
	} {
		t.Run(strings.Join(tc.args, " "), func(t *testing.T) {
			cmd := programCommand(tc.args...)
			timer := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
			defer timer.Stop()
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			if code := cmd.ProcessState.ExitCode(); code != tc.code {
				t.Errorf("exit code %d; want %d\n%s", code, tc.code, out)
			}
			for _, s := range tc.says {
				if !strings.Contains(string(out), s) {
					t.Errorf("it does not say %q:\n%s", s, out)
				}
			}
		})
	}
}

// Sockets from systemd: two of them, passed on as it does.
func TestExporterSystemdSockets(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("systemd is Linux")
	}
	var files []*os.File
	for range 2 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		f, err := ln.(*net.TCPListener).File()
		ln.Close()
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files = append(files, f)
	}
	cmd := programCommand()
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", `LISTEN_PID=$$ exec "$0" --web.systemd-socket`, os.Args[0]}
	cmd.Env = append(cmd.Env, "LISTEN_FDS=2")
	cmd.ExtraFiles = files
	p := startCommand(t, cmd, 2)
	for _, url := range p.urls {
		if code, _, err := tryGet(url + "/-/healthy"); err != nil || code != 200 {
			t.Errorf("%s: %d, %v", url, code, err)
		}
	}
	p.signal(t, syscall.SIGTERM)
	if code := p.exit(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TLS and basic auth on two addresses at once.
func TestExporterTLS(t *testing.T) {
	dir := t.TempDir()
	pool := writeCertificate(t, dir)
	webConfig := filepath.Join(dir, "web.yml")
	// The password is "secret", hashed with the least cost that bcrypt has.
	if err := os.WriteFile(webConfig, []byte(`
tls_server_config: {cert_file: cert.pem, key_file: key.pem}
basic_auth_users: {scraper: $2a$04$1sb0vMXF752NFus/nWmgku6Iuyb6cvqr8fiTjRZlmLrOePrSqCxjG}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startCommand(t, programCommand("--web.config.file="+webConfig,
		"--web.listen-address=127.0.0.1:0", "--web.listen-address=127.0.0.1:0"), 2)
	_, target := startResponder(t, "127.0.0.1")
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	for _, url := range p.urls {
		url = strings.Replace(url, "http:", "https:", 1)
		for password, want := range map[string]int{"secret": 200, "wrong": 401, "": 401} {
			req, _ := http.NewRequest(http.MethodGet, url+"/probe?target="+target, nil)
			if password != "" {
				req.SetBasicAuth("scraper", password)
			}
			res, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			res.Body.Close()
			if res.StatusCode != want || res.ProtoMajor != 2 || err != nil {
				t.Errorf("password %q: %s %d, %v; want %d", password, res.Proto, res.StatusCode, err, want)
			}
			if want == 200 && series(string(body), "probe_success") != "1" {
				t.Errorf("got %s", body)
			}
		}
	}
}

// 200 probes at once on real connections, reloads ten times a second, and readers
// of the history meanwhile.
func TestExporterEverythingAtOnce(t *testing.T) {
	var targets []string
	for i := range 8 {
		host := fmt.Sprintf("127.0.1.%d", i+1)
		if runtime.GOOS != "linux" {
			host = "127.0.0.1"
		}
		_, target := startResponder(t, host)
		targets = append(targets, target)
	}
	name := writeConfig(t, "")
	config := func(n int) string {
		return fmt.Sprintf("limits: {max_concurrent_probes: %d, max_per_target: 30, max_waiting: 300}\n"+
			"modules: {rtt: {period: 5ms, count: %d, timeout: 20s}, burst: {count: 50, timeout: 20s}}\n", 180+n%40, 20+n%10)
	}
	if err := os.WriteFile(name, []byte(config(0)), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startExporter(t, "--config.file="+name)
	stop := make(chan struct{})
	var others sync.WaitGroup
	var reloads atomic.Int32
	others.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for n := 1; ; n++ {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			// Renamed into place, as configuration management does.
			if err := os.WriteFile(name+".new", []byte(config(n)), 0o600); err == nil {
				_ = os.Rename(name+".new", name)
			}
			if res, err := http.Post(p.url+"/-/reload", "", nil); err == nil {
				if res.StatusCode == 200 {
					reloads.Add(1)
				}
				res.Body.Close()
			}
		}
	})
	others.Go(func() {
		for id := 1; ; id++ {
			select {
			case <-stop:
				return
			default:
			}
			for _, page := range []string{"/history", fmt.Sprintf("/history/%d", id), "/", "/metrics"} {
				if code, _, err := tryGet(p.url + page); err != nil || code != 200 && code != 404 {
					t.Errorf("%s: %d, %v", page, code, err)
				}
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	var succeeded atomic.Int32
	var probes sync.WaitGroup
	for i := range 200 {
		probes.Go(func() {
			module := []string{"rtt", "burst"}[i%2]
			code, body, err := tryGet(fmt.Sprintf("%s/probe?target=%s&module=%s", p.url, targets[i%len(targets)], module))
			switch {
			case err != nil || code != 200:
				t.Errorf("probe %d: %d, %v %s", i, code, err, body)
			case series(body, "probe_success") == "1":
				succeeded.Add(1)
			default:
				t.Errorf("probe %d failed: %s", i, regexp.MustCompile(`probe_failure_reason\{reason="(\w+)"\} 1`).FindString(body))
			}
		})
	}
	probes.Wait()
	close(stop)
	others.Wait()
	t.Logf("%d of 200 probes succeeded during %d reloads", succeeded.Load(), reloads.Load())
	if reloads.Load() < 2 {
		t.Errorf("%d reloads: this shows little", reloads.Load())
	}
	p.signal(t, syscall.SIGTERM)
	if code := p.exit(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
