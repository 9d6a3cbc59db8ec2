package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/prober"
)

// WithheldOWD says in a sentence why one-way delays and asymmetry are not
// published. It is empty where they are, and where nobody asked for them.
func WithheldOWD(r *prober.Result) string {
	if r.Module == nil || !r.Module.TripTimes || r.OWDValid() {
		return ""
	}
	c := r.Clock
	if c == nil {
		return "One-way delays are not known: no bounce came back."
	}
	var why []string
	switch {
	case c.LowerBound > c.UpperBound:
		why = append(why, "no single offset of the two clocks fits all bounces, so one of them moved during the test")
	case c.LowerBound > 0:
		why = append(why, fmt.Sprintf("the server's clock is ahead of ours by %s +- %s",
			duration(middle(c)), duration(uncertainty(c))))
	case c.UpperBound < 0:
		why = append(why, fmt.Sprintf("the server's clock is behind ours by %s +- %s",
			duration(-middle(c)), duration(uncertainty(c))))
	}
	if c.Failures > 0 {
		why = append(why, fmt.Sprintf("the time stamps of %s are not in causal order", plural(c.Failures, "bounce")))
	}
	if c.Step.OK && c.Step.V != 0 {
		why = append(why, fmt.Sprintf("our wall clock stepped by %s during the test", signedDuration(c.Step.V)))
	}
	return "One-way delays are withheld: " + strings.Join(why, "; ") + "."
}

// clocks writes what is known of the two clocks.
func (t *text) clocks() {
	withheld := WithheldOWD(t.r)
	if t.r.Clock == nil && withheld == "" {
		return
	}
	t.heading("Clocks")
	if withheld != "" {
		t.wrap("  ", withheld)
	}
	c := t.r.Clock
	if c == nil {
		return
	}
	if c.LowerBound <= 0 && c.UpperBound >= 0 {
		t.wrap("  ", fmt.Sprintf("The server's clock minus ours lies between %s and %s, whatever the path. Half of that width, %s, is the uncertainty of the one-way delays.",
			signedDuration(c.LowerBound), signedDuration(c.UpperBound), duration(uncertainty(c))))
	}
	if s := kernelClock(c); s != "" {
		t.wrap("  ", s)
	}
}

// middle is the best single guess of the far clock minus ours.
func middle(c *prober.Clock) time.Duration { return c.LowerBound + uncertainty(c) }

// uncertainty is how far an assumed offset in the middle of the bounds can be
// off: half their width.
func uncertainty(c *prober.Clock) time.Duration { return (c.UpperBound - c.LowerBound) / 2 }

// kernelClock says what adjtimex told of our own clock; empty where it was not to
// be had.
func kernelClock(c *prober.Clock) string {
	if !c.Synchronized.OK {
		return ""
	}
	s := "The kernel of this host says that its clock is synchronised"
	if !c.Synchronized.V {
		s = "The kernel of this host says that its clock is not synchronised (it also says so on many hosts that PTP keeps in time)"
	}
	if c.MaxError.OK {
		s += ", maximum error " + duration(c.MaxError.V)
	}
	if c.EstimatedError.OK {
		s += ", estimated error " + duration(c.EstimatedError.V)
	}
	return s + "."
}
