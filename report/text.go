package report

import (
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/prober"
)

// Text writes the report for people. It contains what iperf 2 prints of a
// bounceback test, in words that also say what was not measured and why. The
// error is w's.
func Text(w io.Writer, r *prober.Result, o Options) error {
	t := text{r: r, o: &o, mask: newMasker(r, &o)}
	t.headline()
	t.failure()
	t.setup()
	for i := range r.Windows {
		t.window(i)
	}
	t.clocks()
	t.load()
	t.log()
	_, err := io.WriteString(w, t.b.String())
	return err
}

// text is a report being written.
type text struct {
	b    strings.Builder
	r    *prober.Result
	o    *Options
	mask masker
}

// headline says what was probed and how it went.
func (t *text) headline() {
	verdict := t.o.paint(styleGreen, "success")
	if err := t.r.Err; err != nil {
		where := " in phase " + err.Phase.String()
		// An address is denied before there is anything to be done; and "in phase
		// resolve" reads like DNS, or twice the same.
		if err.Reason == prober.ReasonTargetDenied || err.Reason == prober.ReasonResolve {
			where = ""
		}
		verdict = t.o.paint(styleRed, fmt.Sprintf("FAILED%s: %s", where, err.Reason))
	}
	fmt.Fprintf(&t.b, "%s: %s\n", t.o.paint(styleBold, t.printable("Bounceback to "+t.target())), verdict)
}

// target is the name that was asked for and the address that was dialled, each
// only where it says something.
func (t *text) target() string {
	host, addr := t.r.Target.Host, t.r.Addr
	switch {
	case host == "" && !addr.IsValid():
		return "an unknown target"
	case host == "":
		return t.mask.addrPort(addr)
	case !addr.IsValid():
		return fmt.Sprintf("%s port %d", t.mask.host(host), t.r.Target.Port)
	}
	if literal, err := netip.ParseAddr(host); err == nil && literal.Unmap() == addr.Addr().Unmap() {
		return t.mask.addrPort(addr)
	}
	if t.mask.on {
		return t.mask.addrPort(addr)
	}
	return fmt.Sprintf("%s (%s)", host, addr)
}

// failure explains a failed probe.
func (t *text) failure() {
	err := t.r.Err
	if err == nil {
		return
	}
	if err.Cause != nil {
		t.field("cause", t.mask.text(err.Cause.Error()))
	}
	meaning, next := Advice(err.Reason)
	t.field("meaning", meaning)
	t.field("what to do", next)
}

// setup writes what was found and set before the first sample.
func (t *text) setup() {
	t.field("server", peerText(&t.r.Peer))
	t.field("module", t.moduleText())
	t.field("connected", t.connectText())
	if f := t.r.First; f != nil {
		t.field("first bounce", fmt.Sprintf("%s, of which %s in the server; it carries the server's set-up and is no sample",
			duration(f.RTT()), duration(f.Dwell())))
	}
	var phases []string
	for p, took := range t.r.Phases {
		if took.OK {
			phases = append(phases, fmt.Sprintf("%s %s", prober.Phase(p), duration(took.V)))
		}
	}
	t.field("phases", strings.Join(phases, ", "))
}

// peerText says what answered; empty where nothing did.
func peerText(p *prober.Peer) string {
	version := ""
	if p.Version.OK && p.Version.V.Known() {
		version = " " + p.Version.V.String()
	}
	switch p.Kind {
	case prober.PeerBounceback:
		if version == ownResponder {
			return "a responder of bounceback_exporter, which calls itself" + version
		}
		if version == "" {
			return "bounces, but does not tell its version (message layout " + p.Layout.String() + ")"
		}
		return "iperf" + version + developmentText(p.Version.V.Stage)
	case prober.PeerNoBounceback:
		if version == "" {
			return "an iperf 2 without bounceback"
		}
		return "iperf" + version + ", which has no bounceback"
	case prober.PeerIperf3:
		return "iperf 3, which has no bounceback"
	case prober.PeerOther:
		return "something that is no iperf"
	}
	return ""
}

// ownResponder is what our own responder tells.
const ownResponder = " 2.2.99"

// developmentText marks builds that are no release. A version's stage is 3 for a
// release and 1 for a candidate, which is what the release 2.2.1 calls itself.
func developmentText(stage uint16) string {
	if stage == 3 || stage == 1 {
		return ""
	}
	return " (development build)"
}

// moduleText says what was asked for.
func (t *text) moduleText() string {
	m := t.r.Module
	if m == nil {
		return ""
	}
	parts := []string{messageText(t.r.RequestBytes, t.r.ReplyBytes, m.Size, m.EffectiveReplySize())}
	switch {
	case m.BackToBack():
		parts = append(parts, "back to back")
	case m.Burst > 1:
		parts = append(parts, fmt.Sprintf("%d every %s", m.Burst, duration(m.Period)))
	default:
		parts = append(parts, "one every "+duration(m.Period))
	}
	if m.Hold > 0 {
		parts = append(parts, "hold "+duration(m.Hold))
	}
	switch {
	case m.Duration > 0 && m.Count > 0 && m.Count < config.MaxCount:
		parts = append(parts, fmt.Sprintf("for %s or %s", duration(m.Duration), plural(m.Count, "bounce")))
	case m.Duration > 0:
		parts = append(parts, "for "+duration(m.Duration))
	case m.Count > 0:
		parts = append(parts, plural(m.Count, "bounce"))
	}
	if m.QuickAck {
		parts = append(parts, "quickack")
	}
	if m.TripTimes {
		parts = append(parts, "trip times")
	}
	if m.DSCP != 0 {
		parts = append(parts, fmt.Sprintf("dscp %d", m.DSCP))
	}
	if m.CongestionControl != "" {
		parts = append(parts, m.CongestionControl)
	}
	if m.Congest != nil {
		parts = append(parts, congestText(m.Congest))
	}
	return m.Name + ": " + strings.Join(parts, ", ")
}

// congestText says what runs beside the bounces, and when.
func congestText(c *config.Congest) string {
	s := fmt.Sprintf("under load %s with %s", c.Direction, plural(c.Streams, "stream"))
	if c.Baseline > 0 {
		s += " after " + duration(c.Baseline) + " without"
	}
	if c.Warmup > 0 {
		s += " and " + duration(c.Warmup) + " of warm-up"
		if c.Baseline == 0 {
			s = strings.Replace(s, " and ", " after ", 1)
		}
	}
	if c.CongestionControl != "" {
		s += ", load by " + c.CongestionControl
	}
	if c.DSCP != 0 {
		s += fmt.Sprintf(", load in dscp %d", c.DSCP)
	}
	return s
}

// messageText is the size of a bounce. The sizes of the result win, as it says
// what was sent; a probe that failed early has only those of the module.
func messageText(request, reply, moduleRequest, moduleReply int) string {
	if request == 0 {
		request, reply = moduleRequest, moduleReply
	}
	if request == reply {
		return fmt.Sprintf("%d bytes each way", request)
	}
	return fmt.Sprintf("%d bytes out and %d back", request, reply)
}

// connectText is iperf's (icwnd/mss/irtt=) and (ct=).
func (t *text) connectText() string {
	c := t.r.Connect
	if c == nil {
		return ""
	}
	var parts []string
	if t.r.Local.IsValid() {
		parts = append(parts, "from "+t.mask.addrPort(t.r.Local))
	}
	parts = append(parts, "in "+duration(c.Duration))
	if c.TCP.RTT.OK {
		parts = append(parts, "initial RTT "+duration(c.TCP.RTT.V))
	}
	if s := cwndText(&c.TCP); s != "" {
		parts = append(parts, "initial "+s)
	}
	if c.TCP.MSS.OK {
		parts = append(parts, fmt.Sprintf("MSS %d bytes", c.TCP.MSS.V))
	}
	if n := c.TCP.TotalRetransmits; n.OK && n.V > 0 {
		parts = append(parts, plural(int(n.V), "SYN")+" sent again")
	}
	return strings.Join(parts, ", ")
}

// cwndText is the congestion window in segments and, as iperf prints it, in KiB.
func cwndText(i *prober.TCPInfo) string {
	if !i.CongestionWindow.OK {
		return ""
	}
	s := fmt.Sprintf("cwnd %d", i.CongestionWindow.V)
	if i.MSS.OK {
		s += fmt.Sprintf(" (%d KiB)", uint64(i.CongestionWindow.V)*uint64(i.MSS.V)/1024)
	}
	return s
}

// log appends what happened, where that is wanted.
func (t *text) log() {
	if !t.o.Log || len(t.r.Log) == 0 {
		return
	}
	t.heading("Log")
	for _, l := range t.r.Log {
		t.wrap(fmt.Sprintf("  %9.6f  ", l.At.Seconds()), t.mask.text(l.Message))
	}
}

// heading starts a section.
func (t *text) heading(s string) { fmt.Fprintf(&t.b, "\n%s\n", t.o.paint(styleBold, s)) }

// field writes a named value, wrapped; nothing for an empty value.
func (t *text) field(name, value string) {
	if value == "" {
		return
	}
	t.wrap(fmt.Sprintf("  %-13s ", name), value)
}

// wrap writes a paragraph after a prefix; further lines hang under it. A word
// longer than the line stays whole, and so do a number and its unit.
func (t *text) wrap(prefix, s string) {
	s = t.printable(s)
	width := t.o.width()
	t.b.WriteString(prefix)
	column := len(prefix)
	for i, word := range words(s) {
		switch n := utf8.RuneCountInString(word); {
		case i == 0:
			column += n
		case column+1+n > width:
			t.b.WriteString("\n" + strings.Repeat(" ", len(prefix)))
			column = len(prefix) + n
		default:
			t.b.WriteByte(' ')
			column += 1 + n
		}
		t.b.WriteString(word)
	}
	t.b.WriteByte('\n')
}

// printable keeps what a peer or a user wrote from acting on a terminal, and a
// report in ASCII from being anything else.
func (t *text) printable(s string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case unicode.IsSpace(c):
			return ' '
		case c >= utf8.RuneSelf && t.o.ASCII, !unicode.IsPrint(c) && t.o.ASCII:
			return '?'
		case !unicode.IsPrint(c):
			return utf8.RuneError
		}
		return c
	}, s)
}

// words splits at blanks, but not between a number and its unit.
func words(s string) []string {
	var out []string
	for _, w := range strings.Fields(s) {
		switch strings.Trim(w, ".,;:") {
		case "us", "ms", "s", "KiB)", "bytes":
			if len(out) > 0 {
				out[len(out)-1] += " " + w
				continue
			}
		}
		out = append(out, w)
	}
	return out
}

// seconds writes an instant of the test: 1.003.
func seconds(ns int64) string { return fmt.Sprintf("%.3f", time.Duration(ns).Seconds()) }
