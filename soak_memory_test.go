package main

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/bounceback-exporter/bounceback_exporter/internal/race"
	"github.com/bounceback-exporter/bounceback_exporter/prober"
)

// memoryCase is a module, and what docs/CONFIGURATION.md says of the memory of one
// probe of it, in MiB.
type memoryCase struct {
	name, module   string
	told           string        // how the document writes the module
	running, whole float64       // while it runs; and all that it allocates
	after          time.Duration // when all it needs is there
}

func memoryCases() []memoryCase {
	return []memoryCase{
		{"monitoring", "{period: 20ms, duration: 2s}", "`{period: 20ms, duration: 2s}`", 0.1, 0.2, 300 * time.Millisecond},
		// A hold makes it long enough to be looked at.
		{"default", "{hold: 2ms}", "`{}`, which is 1000 bounces", 0.1, 0.3, 300 * time.Millisecond},
		{"large", "{period: 20ms, duration: 2s, size: 131072}", "`{period: 20ms, duration: 2s, size: 131072}`", 0.3, 0.7, 300 * time.Millisecond},
		{"load", "{period: 20ms, duration: 2s, congest: {min_interval: 0}}", "`{period: 20ms, duration: 2s, congest: true}`", 0.6, 0.9, 1800 * time.Millisecond},
		{"most", "{count: 100000, trip_times: true, timeout: 2m}", "`{count: 100000, trip_times: true}`, the most there is", 5.5, 17, 300 * time.Millisecond},
	}
}

// responderProcess is a responder in a process of its own, so that its memory is not
// counted here.
func responderProcess(t testing.TB) string {
	t.Helper()
	p := startExporter(t, "--responder.listen-address=127.0.0.1:0")
	m := regexp.MustCompile(`msg="the responder is listening" address=(\S+)`).FindStringSubmatch(p.logged())
	if m == nil {
		t.Fatal("no responder")
	}
	return m[1]
}

// memoryInUse is heap and stacks after a collection, in bytes.
func memoryInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// A probe needs about as much memory as the document says: not twice as much, nor
// less than a quarter of it where that is not lost among what else goes on.
func TestSoakMemoryOfAProbe(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector takes memory of its own; CI runs this without it too")
	}
	document, err := os.ReadFile("docs/CONFIGURATION.md")
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprintf("sets %d bytes aside for each bounce", unsafe.Sizeof(prober.Sample{})); !strings.Contains(string(document), text) {
		t.Errorf("docs/CONFIGURATION.md does not say %q", text)
	}
	target := responderProcess(t)
	w := newWhole(t, "allowed_targets: {networks: [127.0.0.0/8]}\n"+modulesOf(memoryCases()), prober.Options{})
	for i, c := range memoryCases() {
		if row := fmt.Sprintf("| %s | %g MiB | %g MiB |\n", c.told, c.running, c.whole); !strings.Contains(string(document), row) {
			t.Errorf("docs/CONFIGURATION.md has no row %s", row)
		}
		probe := func() {
			if code, body := w.get("/probe?target=" + target + "&module=" + c.name); code != 200 || series(body, "probe_success") != "1" {
				t.Errorf("%s: %d %s", c.name, code, body)
			}
		}
		if i == 0 {
			probe() // so that what is kept anyhow is there
			w.quiet(t)
		}
		whole := allocated()
		probe()
		w.quiet(t)
		whole = allocated() - whole

		before := memoryInUse()
		var running sync.WaitGroup
		running.Go(probe)
		eventually(t, "the probe", func() bool { return w.metric("bounceback_exporter_probes_in_flight") == "1" })
		time.Sleep(c.after)
		if w.metric("bounceback_exporter_probes_in_flight") != "1" {
			t.Errorf("%s: it ended too soon to be looked at", c.name)
		}
		during := memoryInUse() - before
		running.Wait()
		w.quiet(t)
		t.Logf("%s: %d KiB while it runs, %d KiB in all", c.name, during>>10, whole>>10)
		for what, v := range map[string][2]float64{"while it runs": {float64(during), c.running}, "in all": {float64(whole), c.whole}} {
			if got, told := v[0]/(1<<20), v[1]; got > 2*told+0.1 || told > 0.2 && got < told/4 {
				t.Errorf("%s needs %.2f MiB %s; the document says %g", c.name, got, what, told)
			}
		}
	}
}

// allocated is all that was ever allocated, in bytes.
func allocated() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.TotalAlloc)
}

func modulesOf(cases []memoryCase) string {
	var b strings.Builder
	b.WriteString("modules:\n")
	for _, c := range cases {
		fmt.Fprintf(&b, "  %s: %s\n", c.name, c.module)
	}
	return b.String()
}

// All that one probe allocates, its answer included, is an upper bound of its peak.
func BenchmarkProbeMemory(b *testing.B) {
	target := responderProcess(b)
	w := newWhole(b, "allowed_targets: {networks: [127.0.0.0/8]}\n"+modulesOf(memoryCases()), prober.Options{})
	for _, c := range memoryCases() {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, body := w.get("/probe?target=" + target + "&module=" + c.name); series(body, "probe_success") != "1" {
					b.Fatal(body)
				}
			}
			w.quiet(b)
		})
	}
}
