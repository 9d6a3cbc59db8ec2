//go:build !linux

package prober

import (
	"context"
	"fmt"
	"runtime"
)

// engine is Linux's only: a load has to be cheap and its bytes told by tcp_info,
// or it falsifies what it is to show.
type engine struct{}

func newEngine(context.Context, *canceller) (*engine, error) {
	return nil, &unsupportedError{localError{"congest", fmt.Errorf("not supported on %s", runtime.GOOS)}}
}

func (e *engine) start([]*loadStream) {}
func (e *engine) stop()               {}
func (e *engine) broken() error       { return nil }
