package prober

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/prober/fakeserver"
	"github.com/bounceback-exporter/bounceback_exporter/prober/wire"
)

// Bounds short enough to see a background end in a test.
var shortBounds = Bounds{FirstWrite: 400 * time.Millisecond, Drain: 400 * time.Millisecond, FirstReply: 5 * time.Second}

// lateness is by how much an answer may be late on a busy machine before a test
// takes it for hanging. How late it is at best is TestAnswerGivesWay's business.
const lateness = time.Second

// faultyProbe does one probe of a faulty peer and states what must be true of all
// of them: an answer in time, an end of the background within its bounds, a whole
// first message, and no RST before our FIN.
func faultyProbe(t *testing.T, s *fakeserver.Server, change ...func(*config.Module)) (*Result, []fakeserver.Conn) {
	t.Helper()
	p := New(Options{Bounds: shortBounds})
	return faultyProbeBy(t, p, s, change...)
}

func faultyProbeBy(t *testing.T, p *Prober, s *fakeserver.Server, change ...func(*config.Module)) (*Result, []fakeserver.Conn) {
	t.Helper()
	m := module(append([]func(*config.Module){counted(3), func(m *config.Module) { m.Timeout = 3 * time.Second }}, change...)...)
	r := p.Run(t.Context(), &Job{Module: m, Addr: s.Addr()})
	if r.Elapsed > m.Timeout+lateness {
		t.Errorf("answered after %v of %v", r.Elapsed, m.Timeout)
	}
	idle(t, p, shortBounds.FirstWrite+2*shortBounds.Drain+m.Hold+lateness)
	j := s.WaitEnded(t, 1, 2*time.Second)
	for i, c := range j {
		if c.End == fakeserver.RST || c.End == fakeserver.Unknown {
			t.Errorf("connection %d: the peer saw a %v before a FIN: %+v", i, c.End, c)
		}
		if c.End == fakeserver.FIN && !c.FirstComplete && c.Received > 0 {
			t.Errorf("connection %d: ended in mid-message: %+v", i, c)
		}
		if c.End == fakeserver.FIN && c.Received == 0 {
			t.Errorf("connection %d: ended without a message", i)
		}
	}
	return r, j
}

// atOnce runs the cases side by side, n at a time.
func atOnce[T any](t *testing.T, n int, cases []T, f func(t *testing.T, c T)) {
	t.Helper()
	var all sync.WaitGroup
	turn := make(chan struct{}, n)
	for _, c := range cases {
		turn <- struct{}{}
		all.Go(func() {
			defer func() { <-turn }()
			f(t, c)
		})
	}
	all.Wait()
}

// What a fault at a byte of the ack, of the first reply or of a later reply is
// called. Noise from the ack's version on may read as a version that can't bounce.
func faultReasons(a fakeserver.Action, reply, at int) []Reason {
	const ack, first = 0, 1
	whole := at == 100 && reply != ack || a == fakeserver.SlowFrom && at == 99 // the last byte comes at once
	switch a {
	case fakeserver.Stop, fakeserver.SlowFrom:
		if reply > first || whole {
			return []Reason{ReasonTimeout}
		}
		return []Reason{ReasonSilent}
	case fakeserver.HalfClose, fakeserver.Close:
		return []Reason{ReasonClosedEarly}
	case fakeserver.Reset:
		switch {
		case reply > first:
			return []Reason{ReasonClosedEarly}
		case whole:
			// The reset may overtake the last bytes.
			return []Reason{ReasonClosedEarly, ReasonReset}
		}
		return []Reason{ReasonReset}
	case fakeserver.Garbage, fakeserver.Endless:
		switch {
		case reply == ack && at < 4:
			return []Reason{ReasonNoBounceback}
		case reply == ack && at >= 14 && at < 18:
			return []Reason{ReasonBadReply, ReasonNoBounceback}
		}
		return []Reason{ReasonBadReply}
	}
	return nil
}

type faultCase struct {
	action    fakeserver.Action
	reply, at int
}

var actionNames = map[fakeserver.Action]string{
	fakeserver.Stop: "stop", fakeserver.HalfClose: "half-close", fakeserver.Close: "close", fakeserver.Reset: "reset",
	fakeserver.Garbage: "garbage", fakeserver.Endless: "endless", fakeserver.SlowFrom: "slow", fakeserver.Twice: "twice",
}

func (c faultCase) String() string {
	return fmt.Sprintf("%s in reply %d at byte %d", actionNames[c.action], c.reply, c.at)
}

func checkFault(t *testing.T, c faultCase) {
	// Where nothing more comes, the deadline ends the probe: a short one, unless the
	// machine is too busy to get as far as the fault in that time.
	timeout := 6 * time.Second
	if c.action == fakeserver.Stop || c.action == fakeserver.SlowFrom {
		timeout = 400 * time.Millisecond
	}
	var problem string
	for ; timeout <= 6*time.Second; timeout *= 4 {
		s := fakeserver.Start(t, fakeserver.Script{Version: wire.V2_1_9, Fault: fakeserver.Fault{Action: c.action, Reply: c.reply, Byte: c.at}})
		r, _ := faultyProbe(t, s, func(m *config.Module) { m.Timeout = timeout })
		s.Close()
		if problem = c.problem(r); problem == "" {
			return
		}
	}
	t.Errorf("%v: %s", c, problem)
}

// problem is what r says that is not so.
func (c faultCase) problem(r *Result) string {
	reasons := faultReasons(c.action, c.reply, c.at)
	switch {
	case r.Err == nil || !slices.Contains(reasons, r.Err.Reason):
		return fmt.Sprintf("%v, want %v%s", r.Err, reasons, logOf(r))
	case c.reply == 3 && (len(r.Windows) != 1 || len(r.Windows[0].Samples) < 1 || r.First == nil):
		// Reply 3 is the second measured one: the first is kept.
		return fmt.Sprintf("the bounces before it got lost: %+v", r.Windows)
	case c.reply < 2 && c.at < 36 && r.First != nil:
		return fmt.Sprintf("a first bounce out of nothing: %+v", r.First)
	}
	return ""
}

// Every byte position of the ack, of the first reply and of a later one.
func TestFaultAtEveryByte(t *testing.T) {
	t.Parallel()
	for _, action := range []fakeserver.Action{
		fakeserver.Stop, fakeserver.HalfClose, fakeserver.Close, fakeserver.Reset, fakeserver.Garbage,
	} {
		var cases []faultCase
		for reply, size := range map[int]int{0: wire.AckLen, 1: 100, 3: 100} {
			for at := 0; at <= size; at++ {
				cases = append(cases, faultCase{action, reply, at})
			}
		}
		t.Run(actionNames[action], func(t *testing.T) { atOnce(t, 40, cases, checkFault) })
	}
}

func TestFaultSlowAndEndless(t *testing.T) {
	t.Parallel()
	var cases []faultCase
	for _, action := range []fakeserver.Action{fakeserver.SlowFrom, fakeserver.Endless} {
		for reply, ats := range map[int][]int{0: {0, 1, 5, 20, 27}, 1: {0, 1, 43, 50, 99}, 3: {0, 1, 43, 99}} {
			for _, at := range ats {
				cases = append(cases, faultCase{action, reply, at})
			}
		}
	}
	atOnce(t, 20, cases, checkFault)
}

// A peer that sends without end costs us no more than what a drain reads.
func TestFaultEndlessIsBounded(t *testing.T) {
	t.Parallel()
	for _, reply := range []int{0, 1, 3} {
		s := fakeserver.Start(t, fakeserver.Script{Fault: fakeserver.Fault{Action: fakeserver.Endless, Reply: reply}})
		p := New(Options{Bounds: shortBounds})
		r, j := faultyProbeBy(t, p, s)
		if r.Success() {
			t.Error("success")
		}
		// What the socket buffers of both sides hold comes on top.
		if sent := j[0].Sent; sent > drainReply+64<<20 {
			t.Errorf("the peer got rid of %d bytes", sent)
		}
		if n := p.DrainsAbandoned(); n != 1 {
			t.Errorf("%d drains abandoned, want 1", n)
		}
	}
}

func TestFaultTwiceAndEarly(t *testing.T) {
	t.Parallel()
	twice := func(n int) fakeserver.Script {
		return fakeserver.Script{Version: wire.V2_1_9, Fault: fakeserver.Fault{Action: fakeserver.Twice, Reply: n}}
	}
	plain := func(*config.Module) {}
	period := every(10*time.Millisecond, 1)
	reply := make([]byte, 100)
	m := wire.Message{Layout: wire.LayoutC, Size: 100, ID: 1}
	if err := m.PutRequest(reply); err != nil {
		t.Fatal(err)
	}
	wire.LayoutC.PutStamps(reply, wire.Stamp{Seconds: 1}, wire.Stamp{Seconds: 1})
	ack := make([]byte, wire.AckLen)
	if _, err := (&wire.Ack{Version: wire.V2_1_9}).Put(ack); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		script fakeserver.Script
		change func(*config.Module)
		want   Reason
	}{
		"ack twice":                      {twice(0), plain, ReasonBadReply},
		"first reply twice":              {twice(1), plain, ReasonBadReply},
		"first reply twice, by schedule": {twice(1), period, ReasonBadReply},
		"later reply twice":              {twice(3), plain, ReasonBadReply},
		"later reply twice, by schedule": {twice(3), period, ReasonBadReply},
		"text before asked":              {fakeserver.Script{Early: []byte("220 mail.example ESMTP\r\n")}, plain, ReasonNoBounceback},
		"noise before asked":             {fakeserver.Script{Early: []byte{0xff, 0xfe, 0xfd, 0xfc, 0xfb}}, plain, ReasonNoBounceback},
		"a reply before asked":           {fakeserver.Script{Early: reply}, plain, ReasonBadReply},
		"an ack before asked":            {fakeserver.Script{Early: ack}, plain, ReasonBadReply},
	} {
		s := fakeserver.Start(t, tc.script)
		r, _ := faultyProbe(t, s, tc.change)
		if r.Err == nil || r.Err.Reason != tc.want {
			t.Errorf("%s: %v, want %s%s", name, r.Err, tc.want, logOf(r))
		}
	}
}

// Replies that are not what was asked for.
func TestFaultWrongReplies(t *testing.T) {
	t.Parallel()
	for n, which := range []string{1: "first", 3: "later"} {
		if which == "" {
			continue
		}
		for name, edit := range map[string]func(int, []byte) []byte{
			"id":           fakeserver.WrongID(n),
			"first word":   fakeserver.WrongFirstWord(n, 0x12345678),
			"other layout": fakeserver.WrongFirstWord(n, wire.StartA),
			"unfilled":     fakeserver.UnfilledStamps(n, wire.LayoutC),
			"microseconds": fakeserver.InvalidMicroseconds(n, wire.LayoutC),
			"too long":     fakeserver.Lengthen(n, 1),
		} {
			s := fakeserver.Start(t, fakeserver.Script{Version: wire.V2_1_9, Edit: edit})
			r, _ := faultyProbe(t, s)
			if r.Err == nil || r.Err.Reason != ReasonBadReply {
				t.Errorf("%s of the %s reply: %v, want %s", name, which, r.Err, ReasonBadReply)
			}
		}
		// A reply that lacks a byte is waited for.
		s := fakeserver.Start(t, fakeserver.Script{Version: wire.V2_1_9, Edit: fakeserver.Shorten(n, 1)})
		r, _ := faultyProbe(t, s, func(m *config.Module) { m.Timeout = 400 * time.Millisecond })
		if reason := map[int]Reason{1: ReasonSilent, 3: ReasonTimeout}[n]; r.Err == nil || r.Err.Reason != reason {
			t.Errorf("short %s reply: %v, want %s", which, r.Err, reason)
		}
	}
	s := fakeserver.Start(t, fakeserver.Script{Edit: fakeserver.WrongSizeField(1, 99)})
	r, _ := faultyProbe(t, s)
	want(t, r, ReasonBadReply)
}

// Acks that come in other ways than usual are acks all the same.
func TestAcksInPieces(t *testing.T) {
	t.Parallel()
	for _, mode := range []fakeserver.AckMode{fakeserver.AckAsked, fakeserver.AckJoined, fakeserver.AckBytewise, fakeserver.AckNever} {
		s := fakeserver.Start(t, fakeserver.Script{Version: wire.V2_1_9, Ack: mode})
		r, _ := faultyProbe(t, s)
		want(t, r, "")
		if got := r.Peer.Version; got.OK != (mode != fakeserver.AckNever) || got.OK && got.V.String() != "2.1.9" {
			t.Errorf("ack mode %d: version %+v", mode, got)
		}
	}
}
