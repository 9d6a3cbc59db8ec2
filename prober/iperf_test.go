package prober

import (
	"context"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/internal/iperftest"
)

// module is the built-in module with changes.
func module(change ...func(*config.Module)) *config.Module {
	m := &config.Module{
		Name: "test", Size: 100, Burst: 1, Duration: 300 * time.Millisecond, Count: 1000, QuickAck: true,
		Timeout: 10 * time.Second, PreferredIPProtocol: "ip6", IPProtocolFallback: true,
	}
	for _, f := range change {
		f(m)
	}
	return m
}

func TestRealServer(t *testing.T) {
	s := iperftest.Start(t)
	p := New(Options{})
	r := p.Run(context.Background(), &Job{Module: module(), Addr: s.Addr})
	if !r.Success() {
		t.Fatalf("%v\n%v", r.Err, r.Log)
	}
	for _, l := range r.Log {
		t.Log(l)
	}
	t.Logf("%+v", r.Phases)
	t.Logf("%+v", *r.Connect)
	w := r.Windows[0]
	t.Logf("%d %+v", len(w.Samples), w.Samples[0])
	t.Logf("%+v", w.TCP)
	if err := p.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	s.CheckClean()
	t.Log(s.Log())
}
