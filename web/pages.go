package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/prober"
	"github.com/bounceback-exporter/bounceback_exporter/report"
)

//go:embed templates
var templateFiles embed.FS

// pages are the HTML templates. Everything is in the page itself: nothing is
// loaded from anywhere, and the browser is told to load nothing.
type pages struct {
	byName  map[string]*template.Template
	style   template.CSS
	policy  string
	version string
	urls    URLs
}

// newPages parses the templates, which are part of the program.
func newPages(urls URLs, version string) *pages {
	css, err := templateFiles.ReadFile("templates/style.css")
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256(css)
	p := &pages{
		byName: map[string]*template.Template{}, urls: urls, version: version, style: template.CSS(css),
		// Only this one style, known by its hash, and forms to ourselves.
		policy: "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
			"'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
	}
	functions := template.FuncMap{
		"path": urls.path, "took": took, "clock": clock, "phases": phaseText, "describe": describe,
		"probeLink": func(target, module string, debug bool) string { return probeLink(urls, target, module, debug) },
		"entryLink": func(id uint64) string { return urls.path("/history/" + strconv.FormatUint(id, 10)) },
		"filterLink": func(target, module string) string {
			return urls.path("/history") + "?" + url.Values{"target": {target}, "module": {module}}.Encode()
		},
	}
	for _, name := range []string{"landing", "config", "history", "entry"} {
		p.byName[name] = template.Must(template.New("base.html").Funcs(functions).ParseFS(
			templateFiles, "templates/base.html", "templates/entries.html", "templates/"+name+".html"))
	}
	return p
}

// show writes one page; data is what its template needs.
func (p *pages) show(w http.ResponseWriter, name, title string, data any) {
	var b bytes.Buffer
	err := p.byName[name].Execute(&b, struct {
		Title, Version string
		Style          template.CSS
		Data           any
	}{title, p.version, p.style, data})
	if err != nil {
		http.Error(w, fmt.Sprintf("the page %s failed: %v", name, err), http.StatusInternalServerError)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", p.policy)
	header.Set("Referrer-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	_, _ = w.Write(b.Bytes())
}

// landingEntries is how many recent probes the landing page shows.
const landingEntries = 10

func (h *Handler) landing(w http.ResponseWriter, _ *http.Request) {
	cfg := h.config.Current()
	var modules []*config.Module
	chosen := ""
	for _, name := range cfg.ModuleNames() {
		m := cfg.Modules[name]
		modules = append(modules, m)
		if chosen == "" && m.Congest == nil { // nobody should load a path by a careless click
			chosen = name
		}
	}
	h.pages.show(w, "landing", "bounceback_exporter", struct {
		Modules []*config.Module
		Chosen  string
		Example string
		Recent  []*Entry
		Kept    bool
	}{modules, chosen, h.exampleTarget, h.history.find(filter{}, landingEntries), h.history.limit > 0})
}

func (h *Handler) configPage(w http.ResponseWriter, r *http.Request) {
	text, err := h.config.Current().YAML()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		plainText(w, text) // curl, scripts
		return
	}
	h.pages.show(w, "config", "Configuration", string(text))
}

func probeLink(urls URLs, target, module string, debug bool) string {
	query := url.Values{"target": {target}, "module": {module}}
	if debug {
		query.Set("debug", "true")
	}
	return urls.path("/probe") + "?" + query.Encode()
}

// describe says what a module does, in a line.
func describe(m *config.Module) string {
	parts := []string{fmt.Sprintf("%d bytes", m.Size)}
	if m.ReplySize != 0 && m.ReplySize != m.Size {
		parts[0] += fmt.Sprintf(" and %d back", m.ReplySize)
	}
	switch {
	case m.BackToBack():
		parts = append(parts, "back to back")
	case m.Burst > 1:
		parts = append(parts, fmt.Sprintf("%d every %s", m.Burst, m.Period))
	default:
		parts = append(parts, "one every "+m.Period.String())
	}
	if m.Hold > 0 {
		parts = append(parts, fmt.Sprintf("hold %s", m.Hold))
	}
	if m.Duration > 0 {
		parts = append(parts, "for "+m.Duration.String())
	}
	if m.Count < config.MaxCount || m.Duration == 0 {
		parts = append(parts, fmt.Sprintf("at most %d", m.Count))
	}
	if m.TripTimes {
		parts = append(parts, "one-way delays")
	}
	if c := m.Congest; c != nil {
		parts = append(parts, fmt.Sprintf("under load (%s)", c.Direction))
	}
	return strings.Join(parts, ", ")
}

// took is a duration with as many digits as people read.
func took(d time.Duration) string {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(10 * time.Nanosecond).String()
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

func phaseText(phases []PhaseTime) string {
	parts := make([]string, len(phases))
	for i, p := range phases {
		parts[i] = p.Phase + " " + took(p.Took)
	}
	return strings.Join(parts, ", ")
}

// advice is what a reason of failure means and what to do about it.
func advice(e *Entry) [2]string {
	if e.Outcome != Failed {
		return [2]string{}
	}
	meaning, next := report.Advice(prober.Reason(e.Reason))
	return [2]string{meaning, next}
}
