package web

import (
	"context"
	"testing"

	"github.com/bounceback-exporter/bounceback_exporter/prober"
)

// BenchmarkProbe is what a probe costs around the test itself, for a result of
// 1000 bounces: admission, rendering, history.
func BenchmarkProbe(b *testing.B) {
	for name, accept := range map[string]string{"text": "", "protobuf": prometheusAccept} {
		for kept, limit := range map[string]int{"history": 100, "no history": 0} {
			b.Run(name+", "+kept, func(b *testing.B) {
				l := newLab(testConfig(testModule("rtt")), func(o *Options) { o.HistoryLimit = limit })
				l.runner.run = func(_ context.Context, job *prober.Job) *prober.Result {
					r := bounced(job)
					w := &r.Windows[0]
					for i := range int64(997) {
						s := w.Samples[0]
						s.Received += i * i % 100_000
						w.Samples = append(w.Samples, s)
					}
					w.Requests = len(w.Samples)
					return r
				}
				b.ReportAllocs()
				for b.Loop() {
					l.get("/probe?target=192.0.2.1", "Accept", accept)
				}
			})
		}
	}
}

func BenchmarkResolveFailure(b *testing.B) {
	l := newLab(testConfig(testModule("rtt")), nil)
	for b.Loop() {
		l.get("/probe?target=no.such.host")
	}
}
