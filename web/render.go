package web

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"

	"github.com/bounceback-exporter/bounceback_exporter/collector"
	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/prober"
	"github.com/bounceback-exporter/bounceback_exporter/report"
)

// extra is what belongs to this request rather than to the result it gets.
func (a *answered) extra() collector.Extra {
	return collector.Extra{Duration: a.elapsed, Timeout: a.timeout, ResultAge: a.age}
}

// render answers with the metrics of a result, or with a page for people.
func (h *Handler) render(w http.ResponseWriter, r *http.Request, a *answered) {
	w.Header().Set("Cache-Control", "no-store")
	if a.params.debug {
		h.renderDebug(w, a)
		return
	}
	// Plain options: with EnableOpenMetrics a gauge histogram comes out misnamed.
	promhttp.HandlerFor(collector.Gatherer(a.outcome.result, a.extra()), promhttp.HandlerOpts{}).ServeHTTP(w, withoutEscaping(r))
}

// withoutEscaping lets a request for protobuf accept names as they are, where it
// says nothing of it, as Prometheus does not. Ours never need escaping, and
// promhttp copies every family to find that out.
func withoutEscaping(r *http.Request) *http.Request {
	const proto = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;"
	accept := r.Header.Get("Accept")
	if !strings.Contains(accept, proto) || strings.Contains(accept, proto+"escaping=") {
		return r
	}
	as := *r
	as.Header = http.Header{
		"Accept":          {strings.Replace(accept, proto, proto+"escaping=allow-utf-8;", 1)},
		"Accept-Encoding": r.Header["Accept-Encoding"],
	}
	return &as
}

// renderDebug shows all there is about one probe as plain text.
func (h *Handler) renderDebug(w http.ResponseWriter, a *answered) {
	var b bytes.Buffer
	res := a.outcome.result
	if a.id != 0 {
		fmt.Fprintf(&b, "History: %s\n", h.urls.path(fmt.Sprintf("/history/%d", a.id)))
	}
	if a.age > 0 {
		fmt.Fprintf(&b, "This result was measured by another request; its test ended %s ago.\n", a.age.Round(time.Millisecond))
	}
	section(&b, "Log of the probe")
	if len(res.Log) == 0 {
		b.WriteString("(empty)\n")
	}
	writeLog(&b, res.Log)
	section(&b, "Result")
	b.WriteString(h.reportText(res))
	section(&b, "Metrics that would have been returned")
	enc := expfmt.NewEncoder(&b, expfmt.NewFormat(expfmt.TypeTextPlain))
	for _, f := range collector.Families(res, a.extra()) {
		if err := enc.Encode(f); err != nil {
			fmt.Fprintf(&b, "# %s: %v\n", f.GetName(), err)
		}
	}
	section(&b, "Module")
	b.WriteString(moduleYAML(a.params.module))
	plainText(w, b.Bytes())
}

func section(b *bytes.Buffer, title string) {
	fmt.Fprintf(b, "\n%s:\n%s\n", title, strings.Repeat("-", len(title)+1))
}

// writeLog writes lines with the time since the start of their probe.
func writeLog(b *bytes.Buffer, lines []prober.LogLine) {
	for _, l := range lines {
		fmt.Fprintf(b, "%12s  %s\n", l.At.Round(time.Microsecond), printable(l.Message))
	}
}

// printable keeps what a peer or a user wrote from acting on a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// reportText is the report for people, as the command line prints it.
func (h *Handler) reportText(res *prober.Result) string {
	var b strings.Builder
	if err := report.Text(&b, res, report.Options{}); err != nil {
		return err.Error() + "\n"
	}
	return b.String()
}

// moduleYAML is one module as it is in force, defaults included.
func moduleYAML(m *config.Module) string {
	one := config.Config{Modules: map[string]*config.Module{m.Name: m}}
	text, err := one.YAML()
	if err != nil {
		return err.Error() + "\n"
	}
	return string(text)
}

// plainText answers with text that no browser takes for a page.
func plainText(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write(body)
}
