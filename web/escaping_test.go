package web

import (
	"net/http/httptest"
	"strings"
	"testing"
)

// What Prometheus sends for protobuf gets the names as they are; what says how to
// escape them, or wants text, is left alone.
func TestNamesAreNotEscaped(t *testing.T) {
	for accept, want := range map[string]string{
		prometheusAccept: "encoding=delimited;escaping=allow-utf-8;",
		"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;escaping=underscores;q=1": "escaping=underscores",
		"text/plain": "text/plain",
		"":           "",
	} {
		r := httptest.NewRequest("GET", "/probe", nil)
		r.Header.Set("Accept", accept)
		got := withoutEscaping(r).Header.Get("Accept")
		if !strings.Contains(got, want) || strings.Count(got, "escaping=allow-utf-8") > 1+strings.Count(accept, "escaping=allow-utf-8") {
			t.Errorf("Accept %q became %q", accept, got)
		}
		if r.Header.Get("Accept") != accept {
			t.Errorf("the request itself was changed to %q", r.Header.Get("Accept"))
		}
	}
}
