package web

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/collector"
	"github.com/bounceback-exporter/bounceback_exporter/prober"
	"github.com/bounceback-exporter/bounceback_exporter/prober/peers"
)

// lookIn is how long a probe that has a place looks whether a load is in its way.
const lookIn = 2 * time.Millisecond

// admit waits for a place among the limits and for the address, and fills
// job.Lease. A probe that has to wait for somebody's load at its address gives its
// place back meanwhile: one loaded server must not keep probes of all others from
// running. It returns what gives both back, and how long the wait for the address
// was; otherwise a rejection, or ctx's error if that was cancelled.
func (h *Handler) admit(ctx context.Context, job *prober.Job) (leave func(), lease time.Duration, rej *rejection, err error) {
	place, rej, err := h.admission.enter(ctx, job.Addr, job.Module.BackToBack())
	if rej != nil || err != nil {
		return nil, 0, rej, err
	}
	exclusive := job.Module.Congest != nil
	look, cancel := context.WithTimeout(ctx, lookIn)
	job.Lease, err = h.peers.Enter(look, job.Addr, exclusive)
	cancel()
	if err == nil {
		return both(place, job.Lease), 0, nil, nil
	}
	place()

	since := h.now()
	h.self.Waiting(1)
	job.Lease, err = h.peers.Enter(ctx, job.Addr, exclusive)
	h.self.Waiting(-1)
	lease = h.now().Sub(since)
	switch {
	case err == nil:
	case errors.Is(ctx.Err(), context.Canceled):
		return nil, 0, nil, ctx.Err()
	default:
		return nil, 0, h.loadInTheWay(job.Addr, exclusive), nil
	}
	place, rej, err = h.admission.enter(ctx, job.Addr, job.Module.BackToBack())
	if rej != nil || err != nil {
		job.Lease.Release()
		return nil, 0, rej, err
	}
	return both(place, job.Lease), lease, nil, nil
}

func both(place func(), lease *peers.Lease) func() {
	return func() {
		lease.Release()
		place()
	}
}

// waitLog tells of waits that somebody would notice.
func waitLog(job *prober.Job, admission, lease time.Duration) []prober.LogLine {
	var lines []prober.LogLine
	add := func(format string, took time.Duration) {
		if took >= 20*time.Millisecond {
			lines = append(lines, prober.LogLine{At: job.ResolveTook.V,
				Message: fmt.Sprintf(format, took.Round(100*time.Microsecond))})
		}
	}
	add("waited %s for a place among the limits of this exporter", admission)
	add("waited %s for a load at this address to end, or for this one's turn", lease)
	return lines
}

func (h *Handler) loadInTheWay(addr netip.AddrPort, exclusive bool) *rejection {
	text := fmt.Sprintf("a load test at %s ran, or was being ended, until this request's deadline; nothing else may run there meanwhile", addr)
	if exclusive {
		text = fmt.Sprintf("other probes ran at %s until this request's deadline; a load needs the server for itself", addr)
	}
	return &rejection{collector.CauseLoad, retrySoon, text}
}
