package web

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/prober"
)

func mustURLs(t *testing.T, external, prefix string) URLs {
	t.Helper()
	u, err := NewURLs(external, prefix)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

var (
	links   = regexp.MustCompile(`(?:href|action)="([^"]*)"`)
	sources = regexp.MustCompile(`(?i)(src|url\(|@import|<script|<iframe|<object|javascript:|on[a-z]+=)`)
)

// Every link and form of every page leads to a page of ours, whatever the
// external URL and the prefix are.
func TestLinks(t *testing.T) {
	for _, tc := range []struct {
		external, prefix string
		base, route      string // of links, of requests
	}{
		{"", "", "", ""},
		{"/", "/", "", ""},
		{"", "/x", "", "/x"},
		{"http://host:1/", "", "", ""},
		{"https://host/bounce/back/", "", "/bounce/back", "/bounce/back"},
		{"https://host/bounce", "/", "/bounce", ""},
		{"https://host/a%20b", "", "/a%20b", "/a b"},
		{"/only/path", "deep/er/", "/only/path", "/deep/er"},
	} {
		t.Run(tc.external+" "+tc.prefix, func(t *testing.T) {
			cfg := testConfig(testModule("rtt"), testModule("owd"))
			l := newLab(cfg, func(o *Options) { o.URLs = mustURLs(t, tc.external, tc.prefix) })
			route := func(p string) string { return (&url.URL{Path: tc.route}).EscapedPath() + p }
			l.get(route("/probe?target=192.0.2.1&module=rtt"))
			l.get(route("/probe?target=no.such.host&module=owd"))
			seen := map[string]bool{}
			todo := []string{tc.base + "/"}
			for len(todo) > 0 {
				link := todo[0]
				todo = todo[1:]
				if seen[link] {
					continue
				}
				seen[link] = true
				local, ok := strings.CutPrefix(link, tc.base+"/")
				if !ok {
					t.Errorf("the link %s leads elsewhere", link)
					continue
				}
				if local == "probe" { // the form
					continue
				}
				w := l.get(route("/"+local), "Accept", "text/html")
				if w.Code != 200 {
					t.Errorf("%s answers %d %s", link, w.Code, w.Body)
				}
				if !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
					continue
				}
				for _, m := range links.FindAllStringSubmatch(w.Body.String(), -1) {
					if m[1] != "data:," {
						todo = append(todo, html.UnescapeString(m[1]))
					}
				}
			}
			for _, page := range []string{"/", "/config", "/metrics", "/history", "/history/1", "/history/2", "/probe",
				"/probe?debug=true&module=rtt&target=localhost", "/history?module=owd&target=no.such.host"} {
				if !seen[tc.base+page] {
					t.Errorf("nothing leads to %s; seen %v", page, seen)
				}
			}
		})
	}
}

func TestRoutePrefix(t *testing.T) {
	l := newLab(testConfig(testModule("rtt")), func(o *Options) { o.URLs = mustURLs(t, "https://host/out/in", "/in") })
	for path, want := range map[string]int{
		"/in/": 200, "/in/-/healthy": 200, "/in/metrics": 200, "/in/probe?target=192.0.2.1": 200,
		"/": 302, "/in": 302,
		"/-/healthy": 404, "/metrics": 404, "/inner/metrics": 404, "/in/in/metrics": 404, "/in//metrics": 404, "/in/../metrics": 404,
	} {
		w := l.get(path)
		if w.Code != want {
			t.Errorf("%s: %d; want %d", path, w.Code, want)
		}
		if to := w.Header().Get("Location"); w.Code == 302 && to != "/out/in/" {
			t.Errorf("%s leads to %s", path, to)
		}
	}
}

func TestNewURLsRefuses(t *testing.T) {
	for _, external := range []string{"ftp://host/", "http://", "http:host", "https:///x", `"http://host/"`, "http://host/?a=b", "http://host/#a", "http://%zz/"} {
		if u, err := NewURLs(external, ""); err == nil {
			t.Errorf("%s was taken as %+v", external, u)
		}
	}
}

func TestPaths(t *testing.T) {
	l := newLab(testConfig(testModule("rtt")), nil)
	for _, tc := range []struct {
		method, path string
		want         int
	}{
		{"GET", "/", 200}, {"HEAD", "/", 200}, {"GET", "/config", 200}, {"GET", "/history", 200},
		{"GET", "/-/healthy", 200}, {"GET", "/-/ready", 200}, {"GET", "/metrics", 200},
		{"POST", "/-/reload", 200}, {"PUT", "/-/reload", 200},

		{"GET", "/-/reload", 405}, {"HEAD", "/-/reload", 405}, {"DELETE", "/-/reload", 405},
		{"POST", "/probe?target=192.0.2.1", 405}, {"HEAD", "/probe?target=192.0.2.1", 405},
		{"POST", "/", 405}, {"POST", "/metrics", 405}, {"POST", "/history/1", 405}, {"TRACE", "/", 405},

		{"GET", "/nope", 404}, {"GET", "/probe/", 404}, {"GET", "/Probe", 404}, {"GET", "//", 404}, {"GET", "/favicon.ico", 404},
		{"GET", "/debug/pprof/", 404}, {"GET", "/config.yml", 404}, {"GET", "/templates/base.html", 404},
		{"GET", "/history/1", 404}, {"GET", "/history/", 404}, {"GET", "/history/x", 404}, {"GET", "/history/-1", 404},
		{"GET", "/history/99999999999999999999", 404}, {"GET", "/history/latest", 404},

		{"GET", "/history?target=a&target=b", 400}, {"GET", "/history?x=y", 400}, {"GET", "/history?outcome=odd", 400},
		{"GET", "/history/latest?%zz", 400},
		{"GET", "/history?target=" + strings.Repeat("a", maxURL), 414},
	} {
		w := l.do(httptest.NewRequest(tc.method, tc.path, nil))
		if w.Code != tc.want {
			t.Errorf("%s %.60s: %d; want %d", tc.method, tc.path, w.Code, tc.want)
		}
		if w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s %.60s: a browser may guess the type", tc.method, tc.path)
		}
		if w.Code == 405 && w.Header().Get("Allow") == "" {
			t.Errorf("%s %.60s: 405 without Allow", tc.method, tc.path)
		}
		if tc.path == "/-/reload" && tc.method == "GET" && !strings.Contains(w.Body.String(), "GET is not allowed here; POST and PUT are") {
			t.Errorf("it says %q", w.Body)
		}
	}
	if l.runner.runs.Load() != 0 {
		t.Error("something was probed")
	}
}

// The pages load nothing, and the browser is told to load and run nothing but the
// one style that is in them.
func TestPagesLoadNothing(t *testing.T) {
	l := newLab(testConfig(testModule("rtt")), nil)
	l.get("/probe?target=192.0.2.1")
	for _, page := range []string{"/", "/config", "/history", "/history/1"} {
		w := l.get(page, "Accept", "text/html")
		body := w.Body.String()
		_, rest, _ := strings.Cut(body, "<style>")
		style, rest, ok := strings.Cut(rest, "</style>")
		if !ok {
			t.Fatalf("%s has no style", page)
		}
		sum := sha256.Sum256([]byte(style))
		policy := w.Header().Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'") ||
			!strings.Contains(policy, "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'") {
			t.Errorf("%s: the policy %q does not fit the style", page, policy)
		}
		if m := sources.FindString(style + rest); m != "" {
			t.Errorf("%s has %q", page, m)
		}
		if strings.Contains(rest, "style=") {
			t.Errorf("%s has a style that the policy forbids", page)
		}
	}
}

// What came from outside stays text on every page.
func TestPagesEscape(t *testing.T) {
	const evil = `<script>alert(1)</script>"'><b>`
	m := testModule("rtt")
	m.Interface = evil
	l := newLab(testConfig(m), nil)
	l.runner.run = func(_ context.Context, job *prober.Job) *prober.Result {
		r := bounced(job)
		r.Target.Host = evil
		r.Err = &prober.Error{Phase: prober.PhaseBounce, Reason: prober.ReasonBadReply, Cause: errors.New(evil)}
		r.Log = append(r.Log, prober.LogLine{Message: evil})
		return r
	}
	l.get("/probe?target=192.0.2.1")
	l.history.add(&Entry{Target: evil, Module: evil, Outcome: Failed, Reason: "x" + evil, Cause: evil, Addr: evil, Report: evil})
	q := url.Values{"target": {evil}, "module": {evil}}.Encode()
	for _, page := range []string{"/", "/config", "/history", "/history?" + q, "/history/1", "/history/2", "/history/latest?" + q} {
		w := l.get(page, "Accept", "text/html")
		if body := w.Body.String(); strings.Contains(body, "<script") || strings.Contains(body, "<b>") || strings.Contains(body, `"'>`) {
			t.Errorf("%s lets markup through: %s", page, body)
		}
	}
	for _, path := range []string{"/probe?target=" + url.QueryEscape(evil), "/probe?target=a&" + url.QueryEscape(evil) + "=1", "/probe?target=a&module=" + url.QueryEscape(evil)} {
		if w := l.get(path); w.Code != 400 || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
			t.Errorf("%s: %d as %s", path, w.Code, w.Header().Get("Content-Type"))
		}
	}
}

func TestConfigPageIsTheConfiguration(t *testing.T) {
	m := testModule("rtt")
	m.Size, m.Timeout = 1470, 7*time.Second
	l := newLab(testConfig(m), nil)
	w := l.get("/config")
	if ct := w.Header().Get("Content-Type"); !strings.HasPrefix(ct, "text/plain") {
		t.Fatalf("curl gets %s", ct)
	}
	cfg, err := config.Parse("page", w.Body.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if got := cfg.Modules["rtt"]; got.Hash() != m.Hash() {
		t.Errorf("got %+v; want %+v", got, m)
	}
	if page := l.get("/config", "Accept", "text/html,*/*;q=0.8").Body.String(); !strings.Contains(page, "size: 1470") {
		t.Error("the page for people lacks the module")
	}
}

func TestReload(t *testing.T) {
	old, renamed := testConfig(testModule("rtt")), testConfig(testModule("owd"))
	l := newLab(old, nil)
	const ok, stamp = "bounceback_exporter_config_last_reload_successful", "bounceback_exporter_config_last_reload_success_timestamp_seconds"
	first := l.metric(stamp)
	if l.metric(ok) != "1" || first == "" || first == "0" {
		t.Errorf("at the start: %s, %s", l.metric(ok), first)
	}

	l.source.next = func() (*config.Config, error) {
		return nil, config.Errors{{File: "a.yml", Line: 3, Key: "modules.rtt.size", Value: "1.5", Message: "want a whole number"}}
	}
	w := l.do(httptest.NewRequest(http.MethodPost, "/-/reload", nil))
	if w.Code != 500 || !strings.Contains(w.Body.String(), "a.yml:3: modules.rtt.size") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if l.metric(ok) != "0" || l.metric(stamp) != first {
		t.Errorf("after a failure: %s, %s", l.metric(ok), l.metric(stamp))
	}
	if log := l.log.String(); !strings.Contains(log, "line=3") || !strings.Contains(log, "the old one stays in force") {
		t.Errorf("log: %s", log)
	}
	if w := l.get("/probe?target=192.0.2.1&module=rtt"); w.Code != 200 {
		t.Errorf("the old module is gone: %d", w.Code)
	}

	l.source.next = func() (*config.Config, error) { return renamed, nil }
	if w := l.do(httptest.NewRequest(http.MethodPost, "/-/reload", nil)); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if l.metric(ok) != "1" {
		t.Error("a good reload does not show")
	}
	if w := l.get("/probe?target=192.0.2.1&module=rtt"); w.Code != 400 {
		t.Errorf("the removed module answers %d", w.Code)
	}
	if l.metric(`bounceback_exporter_probes_total{module="owd"}`) != "0" || l.metric(`bounceback_exporter_probes_total{module="rtt"}`) != "" {
		t.Error("the series are not those of the new modules")
	}
}

func TestReadyWhileStopping(t *testing.T) {
	l := newLab(testConfig(testModule("rtt")), nil)
	l.stopping.Store(true)
	if w := l.get("/-/ready"); w.Code != 503 {
		t.Errorf("ready answers %d", w.Code)
	}
	if w := l.get("/-/healthy"); w.Code != 200 {
		t.Errorf("healthy answers %d", w.Code)
	}
}

func TestHistoryPages(t *testing.T) {
	l := newLab(testConfig(testModule("rtt"), testModule("owd")), nil)
	l.get("/probe?target=192.0.2.1&module=rtt")
	l.get("/probe?target=no.such.host&module=rtt")
	l.get("/probe?target=192.0.2.1&module=owd")
	if w := l.get("/history/latest?target=192.0.2.1&module=rtt"); w.Code != 302 || w.Header().Get("Location") != "/history/1" {
		t.Errorf("%d to %s", w.Code, w.Header().Get("Location"))
	}
	if w := l.get("/history/latest?outcome=failed"); w.Header().Get("Location") != "/history/2" {
		t.Errorf("%d to %s", w.Code, w.Header().Get("Location"))
	}
	page := l.get("/history/2").Body.String()
	for _, want := range []string{"failed: resolve", "no.such.host", "What to do", "Check the spelling"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in %s", want, page)
		}
	}
	page = l.get("/history/3").Body.String()
	for _, want := range []string{"bounced three times", "Bounceback to 192.0.2.1:5001: success", "<th>Phases</th><td>wait "} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in %s", want, page)
		}
	}
	if page := l.get("/history?module=owd").Body.String(); !strings.Contains(page, `"/history/3"`) || strings.Contains(page, `"/history/1"`) {
		t.Errorf("the filter lets through: %s", page)
	}
}

func TestNoHistory(t *testing.T) {
	l := newLab(testConfig(testModule("rtt")), func(o *Options) { o.HistoryLimit = 0 })
	if body := l.get("/probe?target=192.0.2.1&debug=true").Body.String(); strings.Contains(body, "/history/") {
		t.Errorf("a link to nowhere: %s", body[:100])
	}
	for _, page := range []string{"/", "/history"} {
		if w := l.get(page); w.Code != 200 || strings.Contains(w.Body.String(), "<td>192.0.2.1") {
			t.Errorf("%s: %d", page, w.Code)
		}
	}
}

func TestLandingPageChoosesNoLoad(t *testing.T) {
	l := newLab(testConfig(loadModule("a-load", time.Minute), testModule("plain"), testModule("rtt")), nil)
	if page := l.get("/").Body.String(); !strings.Contains(page, "<option selected>plain</option>") || strings.Count(page, " selected>") != 1 {
		t.Errorf("the form: %s", page)
	}
}
