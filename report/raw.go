package report

import (
	"bufio"
	"encoding/json"
	"io"

	"github.com/bounceback-exporter/bounceback_exporter/prober"
)

// rawHeader is the first line of Raw.
type rawHeader struct {
	SchemaVersion int          `json:"schema_version"`
	Kind          string       `json:"kind"` // "probe"
	Success       bool         `json:"success"`
	Failure       *failureJSON `json:"failure,omitempty"`
	header
	AddressesHidden bool       `json:"addresses_hidden,omitempty"`
	Peer            *peerJSON  `json:"peer,omitempty"`
	Clock           *clockJSON `json:"clock,omitempty"`
}

// rawSample is every further line of Raw: one bounce. All are whole nanoseconds;
// those of a wall clock need 64 bit integers.
type rawSample struct {
	Kind   string `json:"kind"`             // "first" or "bounce"
	Window *int   `json:"window,omitempty"` // index from 0
	Load   string `json:"load,omitempty"`
	// By our monotonic clock, since the start of the probe.
	Sent     int64 `json:"sent_monotonic_ns"`
	Received int64 `json:"received_monotonic_ns"`
	// By our wall clock, since the Unix epoch.
	SentWall      int64  `json:"sent_unix_ns"`
	KernelReceive *int64 `json:"kernel_receive_unix_ns,omitempty"`
	ReceivedWall  int64  `json:"received_unix_ns"`
	// By the server's wall clock, truncated to the microsecond.
	ServerReceive int64 `json:"server_receive_unix_ns"`
	ServerSend    int64 `json:"server_send_unix_ns"`
}

// Raw writes the stamps of every bounce as JSON lines: the evidence that all
// figures of a report come from. The first line tells what was probed; then come
// the first bounce and those of each window in their order. One-way stamps are
// there whether or not the clocks pass the check. The error is w's.
func Raw(w io.Writer, r *prober.Result, o Options) error {
	buf := bufio.NewWriter(w)
	e := json.NewEncoder(buf)
	e.SetEscapeHTML(false)
	m := newMasker(r, &o)
	err := e.Encode(&rawHeader{
		SchemaVersion:   SchemaVersion,
		Kind:            "probe",
		Success:         r.Success(),
		Failure:         failureOf(r, &m),
		header:          headerOf(r, &m),
		AddressesHidden: o.HideIPs,
		Peer:            peerOf(&r.Peer),
		Clock:           clockOf(r.Clock),
	})
	if err != nil {
		return err
	}
	if r.First != nil {
		if err := e.Encode(rawOf(r.First, "first")); err != nil {
			return err
		}
	}
	for i := range r.Windows {
		win := &r.Windows[i]
		for k := range win.Samples {
			line := rawOf(&win.Samples[k], "bounce")
			line.Window, line.Load = &i, string(win.Load)
			if err := e.Encode(line); err != nil {
				return err
			}
		}
	}
	return buf.Flush()
}

func rawOf(s *prober.Sample, kind string) *rawSample {
	line := &rawSample{
		Kind:          kind,
		Sent:          s.Sent,
		Received:      s.Received,
		SentWall:      s.SentWall,
		ReceivedWall:  s.ReceivedWall,
		ServerReceive: s.ServerReceive,
		ServerSend:    s.ServerSend,
	}
	if s.KernelReceive != 0 {
		line.KernelReceive = &s.KernelReceive
	}
	return line
}
