package collector

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// BenchmarkRender is what a /probe with trip_times costs between the end of its
// test and its answer: 1000 bounces, the histograms of RTT, network RTT, one-way
// delay (two) and asymmetry, and all gauges.
func BenchmarkRender(b *testing.B) {
	// /probe serves protobuf with names as they are, which spares a copy.
	unescaped := strings.Replace(acceptProtobuf, "encoding=delimited;", "encoding=delimited;escaping=allow-utf-8;", 1)
	for name, accept := range map[string]string{"text": acceptText, "protobuf": unescaped} {
		b.Run(name, func(b *testing.B) {
			r := richResult(1000)
			req := httptest.NewRequest("GET", "/probe", nil)
			req.Header.Set("Accept", accept)
			b.ReportAllocs()
			for b.Loop() {
				h := promhttp.HandlerFor(Gatherer(r, Extra{}), promhttp.HandlerOpts{})
				h.ServeHTTP(&discard{header: http.Header{}}, req)
			}
		})
	}
	b.Run("families only", func(b *testing.B) {
		r := richResult(1000)
		b.ReportAllocs()
		for b.Loop() {
			Families(r, Extra{})
		}
	})
}

// discard is a ResponseWriter that costs nothing.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return io.Discard.Write(p) }
func (d *discard) WriteHeader(int)             {}
