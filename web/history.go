package web

import (
	"container/list"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/prober"
)

// Outcome of a request for a probe.
type Outcome string

// Outcomes.
const (
	Succeeded Outcome = "success"
	Failed    Outcome = "failed"
	Rejected  Outcome = "rejected" // 503: nothing was measured
)

const (
	// historyBytes bounds the texts that the history holds.
	historyBytes = 8 << 20
	// Of one entry: the report and the log are cut beyond this.
	maxReportBytes  = 32 << 10
	maxLogLines     = 100
	maxMessageBytes = 2 << 10
)

// Entry is one request in the history: a summary in words and a few figures, never
// the samples. Nobody changes it.
type Entry struct {
	ID      uint64
	Time    time.Time
	Target  string // as it was asked for
	Module  string
	Addr    string // the address that was dialled, if one was
	Outcome Outcome
	Reason  string // of a failure: the label; of a rejection: its cause
	Cause   string // for people
	Elapsed time.Duration
	Age     time.Duration // of a load result that was given again
	Phases  []PhaseTime
	Replies int
	Log     []prober.LogLine
	Report  string

	bytes int
}

// PhaseTime is a phase that was reached.
type PhaseTime struct {
	Phase string
	Took  time.Duration
}

// newEntry summarises what a request got.
func newEntry(a *answered, reportText func(*prober.Result) string) *Entry {
	e := &Entry{
		Time: a.start, Target: strings.Clone(a.params.targetText), Module: a.params.module.Name,
		Elapsed: a.elapsed, Age: a.age, Outcome: Succeeded,
	}
	if rej := a.outcome.rejected; rej != nil {
		e.Outcome, e.Reason, e.Cause = Rejected, rej.cause, rej.text
	}
	if res := a.outcome.result; res != nil {
		e.fill(res)
		e.Report = cut(reportText(res), maxReportBytes)
	}
	e.bytes = e.size()
	return e
}

func (e *Entry) fill(res *prober.Result) {
	if res.Addr.IsValid() {
		e.Addr = res.Addr.String()
	}
	if err := res.Err; err != nil {
		e.Outcome, e.Reason = Failed, string(err.Reason)
		if err.Cause != nil {
			e.Cause = cut(fmt.Sprintf("%s: %v", err.Phase, err.Cause), maxMessageBytes)
		}
	}
	for p := range prober.NumPhases {
		if d := res.Phases[p]; d.OK {
			e.Phases = append(e.Phases, PhaseTime{p.String(), d.V})
		}
	}
	for i := range res.Windows {
		e.Replies += len(res.Windows[i].Samples)
	}
	for _, l := range res.Log[:min(len(res.Log), maxLogLines)] {
		// Cloned, lest a substring keep a larger text alive.
		e.Log = append(e.Log, prober.LogLine{At: l.At, Message: strings.Clone(cut(l.Message, maxMessageBytes))})
	}
}

func (e *Entry) size() int {
	const fixed = 512
	n := fixed + len(e.Target) + len(e.Addr) + len(e.Cause) + len(e.Report)
	for _, l := range e.Log {
		n += len(l.Message) + 32
	}
	return n
}

// cut shortens a text to at most limit bytes.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "\n[cut]"
}

// history is the recent requests for probes, bounded in number and bytes.
// Failures stay longer than successes: up to half of the places are theirs, as
// few as they are among many successes. Rejections, of which an overload makes
// very many, have a tenth.
type history struct {
	limit int

	mu    sync.Mutex
	next  uint64
	bytes int
	lists map[Outcome]*list.List // of *Entry, newest first
	byID  map[uint64]*list.Element
}

func newHistory(limit int) *history {
	return &history{limit: limit, byID: map[uint64]*list.Element{}, lists: map[Outcome]*list.List{
		Succeeded: list.New(), Failed: list.New(), Rejected: list.New(),
	}}
}

// add keeps an entry and gives it its number; 0 if there is no history.
func (h *history) add(e *Entry) uint64 {
	if h.limit <= 0 {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next++
	e.ID = h.next
	h.byID[e.ID] = h.lists[e.Outcome].PushFront(e)
	h.bytes += e.bytes
	for len(h.byID) > 1 && (len(h.byID) > h.limit || h.bytes > historyBytes) {
		h.evictLocked()
	}
	return e.ID
}

// evictLocked drops the oldest entry of a kind that has more than its share, else
// the oldest success; never the one that was just added.
func (h *history) evictLocked() {
	n := len(h.byID)
	order := []Outcome{Succeeded, Failed, Rejected}
	if h.lists[Failed].Len() > n/2 {
		order = []Outcome{Failed, Succeeded, Rejected}
	}
	if h.lists[Rejected].Len() > max(n/10, 1) {
		order = []Outcome{Rejected, Succeeded, Failed}
	}
	for _, outcome := range order {
		oldest := h.lists[outcome].Back()
		if oldest == nil || oldest.Value.(*Entry).ID == h.next {
			continue
		}
		e := h.lists[outcome].Remove(oldest).(*Entry)
		delete(h.byID, e.ID)
		h.bytes -= e.bytes
		return
	}
}

// get finds an entry by its number.
func (h *history) get(id uint64) (*Entry, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	el, ok := h.byID[id]
	if !ok {
		return nil, false
	}
	return el.Value.(*Entry), true
}

// filter picks entries; an empty field picks all.
type filter struct {
	Target, Module string
	Outcome        Outcome
}

func (f *filter) matches(e *Entry) bool {
	return (f.Target == "" || f.Target == e.Target || f.Target == e.Addr) &&
		(f.Module == "" || f.Module == e.Module) &&
		(f.Outcome == "" || f.Outcome == e.Outcome)
}

// find returns the newest entries that match, newest first, at most limit.
func (h *history) find(f filter, limit int) []*Entry {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := make([]*list.Element, 0, len(h.lists))
	for _, outcome := range []Outcome{Succeeded, Failed, Rejected} {
		at = append(at, h.lists[outcome].Front())
	}
	var found []*Entry
	for len(found) < limit {
		newest := -1
		for i, el := range at {
			if el != nil && (newest < 0 || el.Value.(*Entry).ID > at[newest].Value.(*Entry).ID) {
				newest = i
			}
		}
		if newest < 0 {
			break
		}
		if e := at[newest].Value.(*Entry); f.matches(e) {
			found = append(found, e)
		}
		at[newest] = at[newest].Next()
	}
	return found
}
