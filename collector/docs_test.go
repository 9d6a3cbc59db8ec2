package collector

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/bounceback-exporter/bounceback_exporter/prober"
)

func document(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../docs/METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestEveryNameIsDocumented, and no name that does not exist.
func TestEveryNameIsDocumented(t *testing.T) {
	doc := document(t)
	known := map[string]bool{"bounceback_exporter": true}
	_, reg := newSelf(t)
	self, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, mf := range self {
		if strings.HasPrefix(mf.GetName(), program) {
			known[mf.GetName()] = true
		}
	}
	// Without a module these have no series yet.
	known[selfProbes], known[selfFailures], known[selfDuration] = true, true, true
	for _, d := range vocabulary() {
		known[d.name] = true
	}
	mentioned := map[string]bool{}
	for _, name := range regexp.MustCompile(`\b(?:probe|bounceback_exporter)_[a-z0-9_]*[a-z0-9]`).FindAllString(doc, -1) {
		mentioned[name] = true
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			name = strings.TrimSuffix(name, suffix)
		}
		if !known[name] {
			t.Errorf("the document has %s, which does not exist", name)
		}
	}
	for name := range known {
		if !mentioned[name] && name != program {
			t.Errorf("%s is not in the document", name)
		}
	}
}

func TestReasonsAndCausesAreDocumented(t *testing.T) {
	doc := document(t)
	for _, reason := range prober.Reasons() {
		if !strings.Contains(doc, "\n| `"+string(reason)+"` | ") {
			t.Errorf("no row for the reason %s", reason)
		}
	}
	for _, cause := range Causes() {
		if !strings.Contains(doc, "\n| `"+cause+"` | ") {
			t.Errorf("no row for the cause %s", cause)
		}
	}
	for p := range prober.NumPhases {
		if !strings.Contains(doc, "`"+p.String()+"`") {
			t.Errorf("the phase %s is not in the document", p)
		}
	}
	if n := fmt.Sprintf("\n%d of them are `probe_failure_reason`", len(prober.Reasons())); !strings.Contains(doc, n) {
		t.Errorf("the document does not say %q", n)
	}
}

// TestSeriesCounts keeps the table of the document honest.
func TestSeriesCounts(t *testing.T) {
	plain := richResult(40)
	plain.Module.TripTimes, plain.Module.Hold, plain.Module.Period, plain.Clock = false, 0, 0, nil
	plain.Windows[0].ScheduleLateness.OK = false
	trip := richResult(40)
	trip.Module.Hold, trip.Module.Period = 0, 0
	trip.Windows[0].ScheduleLateness.OK = false
	load, both := loadResult(40), loadResult(40)
	for _, r := range []*prober.Result{load, both} {
		r.Peer = plain.Peer
		for i := range r.Windows {
			for j := range r.Windows[i].Samples {
				s := &r.Windows[i].Samples[j]
				s.KernelReceive = s.ReceivedWall - 5000
			}
		}
	}
	both.Module.TripTimes, both.Clock = true, trip.Clock

	doc := document(t)
	for _, row := range []struct {
		name   string
		result *prober.Result
	}{
		{"failed before it connected", failedResult()},
		{"default module, on Linux", plain},
		{"with `trip_times`", trip},
		{"with `congest`", load},
		{"with `congest` and `trip_times`", both},
	} {
		_, body := serve(t, Gatherer(row.result, Extra{}), acceptText)
		want := fmt.Sprintf("| %s | %d | %d |", row.name, lines(string(body)), series(Families(row.result, Extra{})))
		if !strings.Contains(doc, "\n"+want+"\n") {
			t.Errorf("the document lacks the row %s", want)
		}
	}
}

// lines of a text exposition that are series.
func lines(text string) (n int) {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			n++
		}
	}
	return n
}

func series(families []*dto.MetricFamily) (n int) {
	for _, mf := range families {
		n += len(mf.Metric)
	}
	return n
}
