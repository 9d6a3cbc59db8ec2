package promcompat

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// binary finds a program by the variable that names it, or on the path. test/promtools
// says how to build them.
func binary(t *testing.T, variable, name string) string {
	t.Helper()
	if path := os.Getenv(variable); path != "" {
		return path
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("no %s here; set %s", name, variable)
	}
	return path
}

// TestPromtoolCheckMetrics lints what a success, a load and a failure serve.
func TestPromtoolCheckMetrics(t *testing.T) {
	promtool := binary(t, "PROMTOOL", "promtool")
	probes, _ := scenario()
	for name, h := range map[string]http.Handler{
		"success": handler(probes[0]), "load": handler(underLoad(probes[0])), "failure": handler(failed()),
	} {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequest("GET", "/probe", nil))
		cmd := exec.Command(promtool, "check", "metrics")
		cmd.Stdin = rec.Body
		if out, err := cmd.CombinedOutput(); err != nil || len(bytes.TrimSpace(out)) > 0 {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// TestServer has a real Prometheus scrape the real handler, which probes a real
// responder: with the scrape loop, the relabelling and the HTTP in between.
func TestServer(t *testing.T) {
	prometheus := binary(t, "PROMETHEUS", "prometheus")
	if out, err := exec.Command(prometheus, "--version").CombinedOutput(); err == nil && strings.Contains(string(out), "version 2.") {
		t.Skip("Prometheus 2 has another configuration for native histograms")
	}
	h, probes := exporter(t)
	web := httptest.NewServer(h)
	defer web.Close()
	api := startServer(t, prometheus, ownServer(t), web.Listener.Addr().String())

	const histogram = `probe_bounceback_rtt_seconds{instance!="",module="paced",load="none"}`
	deadline := time.Now().Add(90 * time.Second)
	for {
		if n := api.number(`count_over_time(` + histogram + `[1h])`); n >= 3 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("three scrapes did not succeed in time")
		}
		time.Sleep(500 * time.Millisecond)
	}
	// Everything that was scraped is among what was measured; so ask the server
	// first.
	n := api.number(`histogram_count(sum_over_time(` + histogram + `[1h]))`)
	var replies float64
	for _, r := range probes.take() {
		for _, w := range r.Windows {
			replies += float64(len(w.Samples))
		}
	}
	if n == 0 || n > replies {
		t.Errorf("the server has %v round trips of %v", n, replies)
	}
	if sum := api.number(`sum_over_time(probe_bounceback_replies{module="paced"}[1h])`); sum < n {
		t.Errorf("%v replies, but %v round trips", sum, n)
	}
	if typ := api.metadata("probe_bounceback_rtt_seconds"); typ != "gaugehistogram/seconds" {
		t.Errorf("the server takes the histogram for %s", typ)
	}
	if notes := api.notes(`rate(probe_bounceback_rtt_seconds[1m])`); !strings.Contains(notes, "not a counter") {
		t.Errorf("rate() comes with %q", notes)
	}
}

// server is the HTTP interface of a running Prometheus.
type server struct {
	t    *testing.T
	base string
}

// startServer runs a Prometheus with the configuration that the documents tell
// people to use. It ends with the test.
func startServer(t *testing.T, path, target, exporter string) *server {
	t.Helper()
	dir := t.TempDir()
	conf := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf(`
global:
  scrape_interval: 2s
  scrape_timeout: 2s
  scrape_native_histograms: true
scrape_configs:
- job_name: bounceback
  metrics_path: /probe
  params: {module: [paced]}
  static_configs: [{targets: ['%s']}]
  relabel_configs:
  - {source_labels: [__address__], target_label: __param_target}
  - {source_labels: [__param_target], target_label: instance}
  - {source_labels: [__param_module], target_label: module}
  - {target_label: __address__, replacement: '%s'}
`, target, exporter)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	_ = ln.Close()
	var log bytes.Buffer
	cmd := exec.Command(path, "--config.file="+conf, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+addr)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	s := &server{t, "http://" + addr}
	for range 300 {
		if resp, err := http.Get(s.base + "/-/ready"); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return s
			}
		}
		time.Sleep(200 * time.Millisecond)
	}
	t.Fatal("the server does not get ready")
	return nil
}

func (s *server) get(path string, query url.Values, into any) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", s.base+path+"?"+query.Encode(), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := json.Unmarshal(body, into); err != nil {
		s.t.Fatalf("%s: %v", body, err)
	}
}

// answer is as much of a query's answer as is needed here.
type answer struct {
	Warnings, Infos []string
	Data            struct {
		Result []struct{ Value [2]any }
	}
}

func (s *server) query(expr string) answer {
	s.t.Helper()
	var a answer
	s.get("/api/v1/query", url.Values{"query": {expr}}, &a)
	return a
}

// number is the only value of a query, 0 if there is none; a warning is an error.
func (s *server) number(expr string) float64 {
	s.t.Helper()
	a := s.query(expr)
	if len(a.Warnings)+len(a.Infos) > 0 {
		s.t.Errorf("%s: %v %v", expr, a.Warnings, a.Infos)
	}
	if len(a.Data.Result) != 1 {
		return 0
	}
	text, _ := a.Data.Result[0].Value[1].(string)
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

// notes are the warnings of a query.
func (s *server) notes(expr string) string {
	s.t.Helper()
	a := s.query(expr)
	return strings.Join(append(a.Warnings, a.Infos...), "\n")
}

// metadata is the type and unit of a family.
func (s *server) metadata(name string) string {
	s.t.Helper()
	var a struct {
		Data map[string][]struct{ Type, Unit string }
	}
	s.get("/api/v1/metadata", url.Values{"metric": {name}}, &a)
	if len(a.Data[name]) != 1 {
		return fmt.Sprint(a.Data)
	}
	return a.Data[name][0].Type + "/" + a.Data[name][0].Unit
}
