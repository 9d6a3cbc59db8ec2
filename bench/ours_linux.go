package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strconv"
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

// childOurs is one probe as the exporter does it, by prober.Run.
func childOurs(args []string) error {
	if len(args) != 6 {
		return &usageError{"ours ADDRESS PORT COUNT SIZE HOLD QUICKACK"}
	}
	addr, err := netip.ParseAddrPort(args[0] + ":" + args[1])
	if err != nil {
		return err
	}
	m := config.DefaultModule("bench")
	m.Duration, m.Timeout = 0, time.Minute
	if m.Count, err = strconv.Atoi(args[2]); err != nil {
		return err
	}
	if m.Size, err = strconv.Atoi(args[3]); err != nil {
		return err
	}
	hold, err := strconv.Atoi(args[4])
	if err != nil {
		return err
	}
	m.Hold = time.Duration(hold) * time.Microsecond
	m.QuickAck = args[5] != "0"

	p := prober.New(prober.Options{})
	ctx := context.Background()
	cpu := ownCPU()
	r := p.Run(ctx, &prober.Job{Module: m, Addr: addr})
	h := header{CPU: ownCPU() - cpu, Wall: int64(r.Elapsed)}
	if err := p.Wait(ctx); err != nil {
		return err
	}
	if !r.Success() {
		return r.Err
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
