package prober

import (
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/internal/iperftest"
)

func TestRealServer(t *testing.T) {
	s := iperftest.Start(t)
	p := New(Options{})
	r := p.Run(t.Context(), &Job{Module: module(), Addr: s.Addr})
	want(t, r, "")
	idle(t, p, 5*time.Second)
	s.CheckClean()
}
