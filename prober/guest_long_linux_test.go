package prober

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/internal/iperftest"
)

// envGuest is how long the stock test of TestGuestForLong is; with 60s it is the
// whole test of a good guest, whose visits are 200.
const envGuest = "GUEST_TEST"

// rounds of visits: what is slow comes rarely. The figures are for a minute.
func guestPlan() map[string]int {
	return map[string]int{
		"done": 40,
		"cancelled around connect and first write": 30,
		"cancelled in the first write":             8,
		"deadline in the first write":              8,
		"cancelled in the first reply":             6,
		"cancelled in the hold of the first reply": 10,
		"cancelled in a later reply":               10,
		"deadline in a reply":                      10,
		"client gone, back to back":                20,
		"client gone between two ticks":            20,
		"drain abandoned within the hold":          8,
		"load called off":                          4,
		"refused for want of time":                 20,
		"several at once":                          6, // four probes each
	}
}

// While a stock client runs one long bounceback test, our prober does hundreds of
// probes against the same server that end in every way there is. The stock test
// ends complete and in its own time, the server neither dies nor logs a reset, and
// one more stock test right after is clean too.
func TestGuestForLong(t *testing.T) {
	length := 8 * time.Second
	if v := os.Getenv(envGuest); v != "" {
		var err error
		if length, err = time.ParseDuration(v); err != nil || length < 5*time.Second {
			t.Fatalf("%s=%q: want a duration of at least 5s", envGuest, v)
		}
	}
	late := 200 * time.Millisecond
	if length < time.Minute {
		t.Parallel() // then others keep the machine busy, and the margin is wider
		late = iperftest.Late
	}
	s := iperftest.Start(t)
	v := newVisitor(t, s)
	all, plan := visits(), guestPlan()
	made, meant, probes := map[string]int{}, map[string]int{}, 0
	err := s.WhileStockRuns(length, late, func(ctx context.Context) {
		deadline, _ := ctx.Deadline()
		begin := time.Now()
		for time.Until(deadline) > needs("") {
			time.Sleep(time.Millisecond)
			for _, name := range order(plan) {
				// Each kind is spread evenly over the time.
				share := float64(time.Since(begin)) / float64(deadline.Sub(begin))
				if due := float64(plan[name]) * length.Minutes() * share; float64(made[name]) > due || time.Until(deadline) < needs(name) {
					continue
				}
				made[name]++
				probes++
				if name == "several at once" {
					probes += 3
				}
				if all[name](v, context.WithoutCancel(ctx)) {
					meant[name]++
				}
			}
		}
		v.rest()
	})
	var report []string
	for _, name := range order(plan) {
		report = append(report, fmt.Sprintf("%d of %d %s", meant[name], made[name], name))
	}
	t.Logf("%d probes, which ended as meant: %s", probes, strings.Join(report, ", "))
	if err != nil {
		t.Error(err)
	}
	if length >= time.Minute && probes < 200 {
		t.Errorf("%d probes, want 200", probes)
	}
	for name := range plan {
		if length >= time.Minute && meant[name] == 0 {
			t.Errorf("%s: none of %d ended as meant", name, made[name])
		}
	}
}

func order(plan map[string]int) []string {
	var names []string
	for name := range plan {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
