package web

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/prober"
)

// answered is what one request gets.
type answered struct {
	params  *params
	outcome outcome
	age     time.Duration // of a load result that is given again, else 0
	start   time.Time
	timeout time.Duration
	elapsed time.Duration
	id      uint64 // in the history; 0: not kept
}

// probe is the handler of /probe: parse, resolve, admit, run, render.
func (h *Handler) probe(w http.ResponseWriter, r *http.Request) {
	start := h.now()
	cfg := h.config.Current()
	p, err := parseParams(r.URL.RawQuery, cfg)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	timeout, err := probeTimeout(r.Header, p.module.Timeout, h.timeoutOffset)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	setWriteDeadline(w, timeout+h.writeTime)
	ctx, cancel := context.WithDeadline(r.Context(), start.Add(timeout))
	defer cancel()

	a := &answered{params: p, start: start, timeout: timeout}
	if rej := h.admission.arrive(); rej != nil {
		a.outcome.rejected = rej
	} else {
		defer h.admission.leave()
		h.measure(ctx, a, cfg)
	}
	a.elapsed = max(h.now().Sub(start), 1) // 0 would stand for the stored result's own
	h.record(a)
	if rej := a.outcome.rejected; rej != nil {
		h.reject(w, rej)
		return
	}
	h.render(w, r, a)
}

// measure fills in the outcome of a request: its own test, or a load test that
// it shares.
func (h *Handler) measure(ctx context.Context, a *answered, cfg *config.Config) {
	m := a.params.module
	job := &prober.Job{Module: m, Target: a.params.target, Allowed: &cfg.AllowedTargets, Start: a.start}
	if res := h.guard(job, prober.PhaseResolve, func() *prober.Result { return h.runner.Resolve(ctx, job) }); res != nil {
		h.self.ProbeStarted(m.Name)
		h.self.ProbeDone(m.Name, res)
		a.outcome.result = res
		return
	}
	if m.Congest == nil || cfg.AllowedTargets.Check(job.Addr) != nil {
		// A denied address gets no stored result either: the run refuses it.
		a.outcome = h.run(ctx, job)
		return
	}
	key := loadKey{m.Hash(), job.Addr}
	o, age, err := h.loads.do(ctx, key, m.Congest.MinInterval, func(ctx context.Context) outcome {
		return h.run(ctx, job)
	})
	if err != nil {
		o = outcome{result: gone(job, h.now(), err)}
	}
	a.outcome, a.age = o, age
}

// run waits for admission at the job's address and does the test.
func (h *Handler) run(ctx context.Context, job *prober.Job) outcome {
	arrived := h.now()
	leave, lease, rej, err := h.admit(ctx, job)
	switch {
	case rej != nil:
		return outcome{rejected: rej}
	case err != nil:
		return outcome{result: gone(job, h.now(), err)}
	}
	defer leave()

	began := h.now()
	job.Waited = began.Sub(arrived)
	h.self.ProbeStarted(job.Module.Name)
	res := h.guard(job, prober.PhaseConnect, func() *prober.Result { return h.runner.Run(ctx, job) })
	h.self.ProbeDone(job.Module.Name, res)
	res.Log = append(waitLog(job, job.Waited-lease, lease), res.Log...)
	return outcome{result: res, began: began}
}

// guard turns a panic into a failed result: one bug must not end a process that
// watches a thousand servers.
func (h *Handler) guard(job *prober.Job, phase prober.Phase, f func() *prober.Result) (res *prober.Result) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		h.logger.Error("a probe panicked; please report this", "target", job.Target, "module", job.Module.Name,
			"panic", v, "stack", string(debug.Stack()))
		res = unfinished(job, h.now(), &prober.Error{
			Phase: phase, Reason: prober.ReasonInternal, Cause: fmt.Errorf("panic: %v", v)})
	}()
	return f()
}

// gone is the result of a probe whose client went away while it waited.
func gone(job *prober.Job, now time.Time, cause error) *prober.Result {
	return unfinished(job, now, &prober.Error{Phase: prober.PhaseWait, Reason: prober.ReasonCancelled, Cause: cause})
}

// unfinished is a result that the prober did not make.
func unfinished(job *prober.Job, now time.Time, err *prober.Error) *prober.Result {
	res := &prober.Result{
		Module: job.Module, Target: job.Target, Addr: job.Addr, Start: job.Start,
		Elapsed: now.Sub(job.Start), Err: err,
		RequestBytes: job.Module.Size, ReplyBytes: job.Module.EffectiveReplySize(),
	}
	res.Phases[prober.PhaseResolve] = job.ResolveTook
	res.Log = []prober.LogLine{{At: res.Elapsed, Message: err.Error()}}
	return res
}

// refuse answers 400.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	h.logger.Log(r.Context(), h.probeLogLevel, "a request can't be understood", "query", r.URL.RawQuery, "err", err)
	http.Error(w, printable(err.Error()), http.StatusBadRequest)
}

// reject answers 503 with the time after which to come again.
func (h *Handler) reject(w http.ResponseWriter, rej *rejection) {
	h.self.Rejected(rej.cause)
	seconds := max(1, int64(math.Ceil(rej.retryAfter.Seconds())))
	w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
	http.Error(w, fmt.Sprintf("no result (%s): %s", rej.cause, rej.text), http.StatusServiceUnavailable)
}

// record keeps the probe in the history and logs it.
func (h *Handler) record(a *answered) {
	text := h.reportText
	if h.history.limit == 0 {
		text = func(*prober.Result) string { return "" } // it costs as much as rendering
	}
	e := newEntry(a, text)
	a.id = h.history.add(e)
	level := h.probeLogLevel
	if !h.logger.Enabled(context.Background(), level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("target", a.params.targetText), slog.String("module", a.params.module.Name),
		slog.String("outcome", string(e.Outcome)), slog.Duration("took", a.elapsed),
	}
	if a.id != 0 {
		attrs = append(attrs, slog.Uint64("id", a.id))
	}
	if e.Reason != "" {
		attrs = append(attrs, slog.String("reason", e.Reason), slog.String("err", e.Cause))
	}
	for _, line := range e.Log {
		h.logger.LogAttrs(context.Background(), level, line.Message,
			slog.String("target", a.params.targetText), slog.Duration("at", line.At))
	}
	h.logger.LogAttrs(context.Background(), level, "probe", attrs...)
}
