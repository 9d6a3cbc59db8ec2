package report

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/prober"
)

func textOf(t *testing.T, r *prober.Result, o Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := Text(&b, r, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestTextFits holds every line against the width; only the headline, which is
// one fact, and iperf's own line may be longer.
func TestTextFits(t *testing.T) {
	for name, r := range fixtures() {
		for _, width := range []int{60, 80, 132} {
			lines := strings.Split(textOf(t, r, Options{Width: width}), "\n")
			for _, line := range lines[1:] {
				// A load's rows have their fixed 80 columns.
				limit := width
				if r.Module.Congest != nil {
					limit = max(width, 80)
				}
				if n := utf8.RuneCountInString(line); n > limit && !strings.Contains(line, "BB8-PDF") {
					t.Errorf("%s in %d columns has a line of %d: %s", name, width, n, line)
				}
			}
		}
	}
}

func TestTextASCII(t *testing.T) {
	for name, r := range fixtures() {
		for i, c := range textOf(t, r, Options{ASCII: true, Log: true}) {
			if c >= utf8.RuneSelf {
				t.Errorf("%s has %q at %d", name, c, i)
				break
			}
		}
	}
}

func TestTextSaysNothingThatWasNotMeasured(t *testing.T) {
	for name, r := range fixtures() {
		for _, bad := range []string{"NaN", "Inf", "%!", "<nil>", "-9223372036"} {
			if s := textOf(t, r, Options{Log: true}); strings.Contains(s, bad) {
				t.Errorf("%s has %q:\n%s", name, bad, s)
			}
		}
	}
	if s := textOf(t, clockFailure(), Options{}); strings.Contains(s, "OWD to server") || strings.Contains(s, "asymmetry") {
		t.Errorf("one-way delays in spite of a failed clock check:\n%s", s)
	}
	if s := textOf(t, oneBounce(), Options{}); strings.Contains(s, "p50") {
		t.Errorf("a percentile of one value:\n%s", s)
	}
}

func TestWrapKeepsUnits(t *testing.T) {
	x := text{o: &Options{Width: 60}}
	x.wrap("  ", strings.Repeat("x", 54)+" 12 us, "+strings.Repeat("y", 70)+" z")
	want := "  " + strings.Repeat("x", 54) + "\n  12 us,\n  " + strings.Repeat("y", 70) + "\n  z\n"
	if got := x.b.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestAdviceIsComplete(t *testing.T) {
	seen := map[string]prober.Reason{}
	for _, reason := range prober.Reasons() {
		meaning, next := Advice(reason)
		if meaning == "" || next == "" {
			t.Errorf("no advice on %s", reason)
		}
		if other, ok := seen[meaning]; ok {
			t.Errorf("%s and %s mean the same", reason, other)
		}
		seen[meaning] = reason
	}
	if meaning, next := Advice("nonsense"); meaning != "" || next != "" {
		t.Error("advice on a reason that does not exist")
	}
}

func TestWithheldOWD(t *testing.T) {
	with := func(c *prober.Clock) *prober.Result {
		return &prober.Result{Module: &config.Module{TripTimes: true}, Clock: c}
	}
	fine := prober.Clock{LowerBound: -1, UpperBound: 1}
	behind, ahead, torn := fine, fine, fine
	behind.LowerBound, behind.UpperBound = -2*time.Second, -time.Second
	ahead.LowerBound, ahead.UpperBound = time.Second, 2*time.Second
	torn.LowerBound, torn.UpperBound = time.Second, -time.Second
	for _, c := range []struct {
		r    *prober.Result
		want string
	}{
		{&prober.Result{Module: &config.Module{}}, ""},
		{with(&fine), ""},
		{with(nil), "no bounce came back"},
		{with(&behind), "behind ours by 1.50 s +- 500 ms"},
		{with(&ahead), "ahead of ours by 1.50 s +- 500 ms"},
		{with(&torn), "one of them moved"},
		{with(&prober.Clock{UpperBound: 1, Failures: 1}), "1 bounce are not in causal order"},
		{with(&prober.Clock{UpperBound: 1, Step: prober.Some(time.Second)}), "stepped by +1.00 s"},
	} {
		got := WithheldOWD(c.r)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("got %q, want %q", got, c.want)
		}
		if (got != "") == (c.r.OWDValid() || !c.r.Module.TripTimes) {
			t.Errorf("%q, but valid is %v", got, c.r.OWDValid())
		}
	}
}

func TestHoldHonored(t *testing.T) {
	for _, c := range []struct {
		dwell       time.Duration
		honored, ok bool
	}{
		{20 * time.Millisecond, true, true},
		{20*time.Millisecond - time.Microsecond, true, true}, // truncated stamps
		{20*time.Millisecond - 1001, false, true},
		{0, false, true},
	} {
		r := held(0)
		d := windowDists{dwell: newDist([]time.Duration{c.dwell})}
		if honored, ok := holdHonored(r, &d); honored != c.honored || ok != c.ok {
			t.Errorf("dwell %s: %v, %v", c.dwell, honored, ok)
		}
	}
	r := held(0)
	if _, ok := holdHonored(r, &windowDists{}); ok {
		t.Error("a hold was judged without a bounce")
	}
	r.Module.Hold = 0
	if _, ok := holdHonored(r, &windowDists{dwell: newDist([]time.Duration{1})}); ok {
		t.Error("a hold was judged that nobody asked for")
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

var errBroken = errors.New("broken")

func TestWriterErrorsAreReported(t *testing.T) {
	r := closedEarly()
	for name, err := range map[string]error{
		"text": Text(brokenWriter{}, r, Options{}),
		"json": JSON(brokenWriter{}, r, Options{}),
		"raw":  Raw(brokenWriter{}, r, Options{}),
	} {
		if !errors.Is(err, errBroken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFollow(t *testing.T) {
	r := loaded()
	rows := r.Windows[1].Rows
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		begin := time.Now()
		var b bytes.Buffer
		wrote := Follow(ctx, &b, func() []prober.Row {
			return rows[:min(len(rows), int(time.Since(begin)/time.Second))]
		}, r.Module)
		if !wrote {
			t.Fatal("nothing was written")
		}
		lines := strings.Split(strings.TrimSpace(b.String()), "\n")
		if len(lines) != 3 {
			t.Fatalf("a header and two rows make %d lines:\n%s", len(lines), b.String())
		}
		if !strings.Contains(lines[1], " both ") || !strings.Contains(lines[1], "9.44 Mbit/s") {
			t.Errorf("row %q", lines[1])
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var b bytes.Buffer
		if Follow(ctx, &b, func() []prober.Row { return nil }, r.Module) || b.Len() > 0 {
			t.Errorf("wrote %q of no rows", b.String())
		}
	})
}

func TestFollowKnowsTheLoad(t *testing.T) {
	f := follower{m: congest()}
	if got := f.load(0); got != prober.LoadNone {
		t.Errorf("the baseline's load is %s", got)
	}
	if got := f.load(1); got != prober.LoadBoth {
		t.Errorf("the loaded window's load is %s", got)
	}
	f.m.Congest.Baseline = 0
	if got := f.load(0); got != prober.LoadBoth {
		t.Errorf("without a baseline the first window's load is %s", got)
	}
}
