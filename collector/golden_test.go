package collector

import (
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"google.golang.org/protobuf/encoding/prototext"

	"github.com/bounceback-exporter/bounceback_exporter/prober"
)

// How a Prometheus 3.16 asks, with native histograms switched on and off.
const (
	acceptProtobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.7," +
		"application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5," +
		"text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
	acceptText = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.7,application/openmetrics-text;version=0.0.1;q=0.6," +
		"text/plain;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.4,*/*;q=0.3"
)

func fixtures() map[string]struct {
	result *prober.Result
	extra  Extra
} {
	type f = struct {
		result *prober.Result
		extra  Extra
	}
	return map[string]f{
		"rich":   {richResult(40), Extra{}},
		"failed": {failedResult(), Extra{}},
		"load":   {loadResult(40), Extra{Duration: 3 * ms, Timeout: 4500 * ms, ResultAge: 90 * time.Second}},
	}
}

// serve renders a gatherer as /probe does.
func serve(t testing.TB, g prometheus.Gatherer, accept string) (contentType string, body []byte) {
	t.Helper()
	req := httptest.NewRequest("GET", "/probe", nil)
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	rec := httptest.NewRecorder()
	promhttp.HandlerFor(g, promhttp.HandlerOpts{}).ServeHTTP(rec, req)
	if rec.Code != 200 {
		t.Fatalf("status %d: %s", rec.Code, rec.Body)
	}
	return rec.Header().Get("Content-Type"), rec.Body.Bytes()
}

// TestGolden keeps every name, label, type and number that a probe exposes. Run it
// with UPDATE_GOLDEN=1 to write the files anew, and read the difference.
func TestGolden(t *testing.T) {
	for name, f := range fixtures() {
		t.Run(name, func(t *testing.T) {
			g := Gatherer(f.result, f.extra)
			contentType, text := serve(t, g, "")
			if want := "text/plain; version=0.0.4"; !strings.HasPrefix(contentType, want) {
				t.Errorf("content type %q, want %q", contentType, want)
			}
			golden(t, name+".prom", text)

			contentType, wire := serve(t, g, acceptProtobuf)
			if want := "application/vnd.google.protobuf"; !strings.HasPrefix(contentType, want) {
				t.Fatalf("content type %q, want %q", contentType, want)
			}
			golden(t, name+".textproto", dump(t, wire))
		})
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(got), "\n")); d != "" {
		t.Errorf("%s differs (-file +now):\n%s", path, d)
	}
}

// decode reads a delimited protobuf exposition.
func decode(t testing.TB, wire []byte) []*dto.MetricFamily {
	t.Helper()
	var out []*dto.MetricFamily
	d := expfmt.NewDecoder(strings.NewReader(string(wire)), expfmt.NewFormat(expfmt.TypeProtoDelim))
	for {
		mf := new(dto.MetricFamily)
		if err := d.Decode(mf); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			t.Fatal(err)
		}
		out = append(out, mf)
	}
}

// dump is a protobuf exposition for readers: buckets, spans and labels have a line
// each, and all deltas share one. prototext inserts spaces at random, so that
// nobody relies on them.
func dump(t *testing.T, wire []byte) []byte {
	t.Helper()
	spaces := regexp.MustCompile(`([:}]) +`)
	pair := regexp.MustCompile(`\{\n\s+(\w+: \S+)\n\s+(\w+: \S+)\n\s+\}`)
	delta := regexp.MustCompile(`(_delta:(?: -?\d+)+)\n\s+(?:positive|negative)_delta: `)
	var out strings.Builder
	for _, mf := range decode(t, wire) {
		s := prototext.MarshalOptions{Multiline: true, Indent: "  "}.Format(mf)
		s = pair.ReplaceAllString(spaces.ReplaceAllString(s, "$1 "), "{ $1 $2 }")
		for delta.MatchString(s) {
			s = delta.ReplaceAllString(s, "$1 ")
		}
		out.WriteString(s + "\n")
	}
	return []byte(out.String())
}

func TestLint(t *testing.T) {
	for name, f := range fixtures() {
		problems, err := testutil.GatherAndLint(Gatherer(f.result, f.extra))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			t.Errorf("%s: %s: %s", name, p.Metric, p.Text)
		}
		// A gatherer of gatherers checks types, labels and duplicates.
		if _, err := (prometheus.Gatherers{Gatherer(f.result, f.extra)}).Gather(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
