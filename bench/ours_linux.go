package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/prober"
)

// childArg as first argument makes the program one of its own measuring children.
const childArg = "measuring-child"

func child(args []string) error {
	if len(args) == 0 {
		return &usageError{childArg + " is how this program calls itself"}
	}
	switch args[0] {
	case "ours":
		return childOurs(args[1:])
	case "floor":
		return childFloor(args[1:])
	}
	return &usageError{fmt.Sprintf("no child %q", args[0])}
}

// job is what a child of ours is to do: one probe.
type job struct {
	Addr      netip.AddrPort
	Size      int
	Hold      time.Duration
	QuickAck  bool
	Period    time.Duration `json:",omitempty"`
	Count     int           `json:",omitempty"` // ends the test where there is no Duration
	Duration  time.Duration `json:",omitempty"`
	Direction string        `json:",omitempty"` // of the load; "": none
	Streams   int           `json:",omitempty"`
}

// ours is the command that does j. It is b's own program.
func (j job) command() ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	spec, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	return []string{self, childArg, "ours", string(spec)}, nil
}

func (j job) module() *config.Module {
	m := config.DefaultModule("bench")
	m.Timeout = time.Minute
	m.Size, m.Hold, m.QuickAck, m.Period = j.Size, j.Hold, j.QuickAck, j.Period
	m.Duration, m.Count = j.Duration, j.Count
	if j.Count == 0 {
		m.Count = config.MaxCount
	}
	if j.Direction != "" {
		m.Congest = config.DefaultCongest()
		m.Congest.Direction, m.Congest.Streams = j.Direction, j.Streams
		m.Congest.Baseline, m.Congest.Warmup = 0, 0
	}
	return m
}

// childOurs is one probe as the exporter does it, by prober.Run.
func childOurs(args []string) error {
	if len(args) != 1 {
		return &usageError{"ours JOB"}
	}
	var j job
	if err := json.Unmarshal([]byte(args[0]), &j); err != nil {
		return err
	}
	if runtime.GOMAXPROCS(0) < 2 {
		// Pinned to one CPU, the runtime would take itself to be on such a host.
		runtime.GOMAXPROCS(2)
	}
	p := prober.New(prober.Options{})
	ctx := context.Background()
	cpu := ownCPU()
	r := p.Run(ctx, &prober.Job{Module: j.module(), Addr: j.Addr})
	h := header{CPU: ownCPU() - cpu, Wall: int64(r.Elapsed)}
	if err := p.Wait(ctx); err != nil {
		return err
	}
	if !r.Success() {
		return r.Err
	}
	if l := r.Load; l != nil {
		h.Wall = int64(l.Duration)
		h.Up, h.Down = l.BytesToServer.V, l.BytesFromServer.V
	}
	samples := r.Windows[0].Samples
	h.N = len(samples)
	rtt, late := make([]time.Duration, h.N), make([]time.Duration, 0, h.N)
	for i := range samples {
		s := &samples[i]
		rtt[i] = s.RTT()
		// The kernel begins to stamp a moment after the first socket has asked for it.
		if s.KernelReceive != 0 {
			late = append(late, time.Duration(s.ReceivedWall-s.KernelReceive))
		}
	}
	h.Late = len(late)
	return encode(os.Stdout, h, rtt, late)
}
