package prober

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
)

func (r *run) ctxError() error {
	if errors.Is(context.Cause(r.ctx), context.DeadlineExceeded) {
		return errDeadline
	}
	return errCancelled
}

// waitError is the end of a wait before anything was sent.
func (r *run) waitError(what string, err error) *Error {
	reason := ReasonBusy
	if !errors.Is(err, context.DeadlineExceeded) {
		reason = ReasonCancelled
	}
	return &Error{PhaseWait, reason, fmt.Errorf("waited %s: %w", what, err)}
}

// fail makes an *Error of what a lower room returned for an established
// connection. late is the reason if the deadline came or the path was lost; other
// errors tell their reason themselves.
func (r *run) fail(err error, late Reason) *Error {
	reason := late
	switch {
	case r.isCancel(err):
		reason = ReasonCancelled
	case err == errCancelled:
		err = errDeadline // the context's own deadline wakes the canceller too
	case isUnsupported(err):
		reason = ReasonUnsupported
	case isLocal(err):
		reason = ReasonLocalLimit
	case errors.Is(err, io.EOF):
		reason = ReasonClosedEarly
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		reason = ReasonReset
		if r.res.First != nil {
			reason = ReasonClosedEarly
		}
	case errors.Is(err, errUnasked):
		reason = ReasonBadReply
	}
	return &Error{r.phase, reason, err}
}

// connectError is fail for a connection that did not come into being.
func (r *run) connectError(err error) *Error {
	reason := ReasonConnectUnreachable
	switch {
	case r.isCancel(err):
		reason = ReasonCancelled
	case err == errCancelled:
		err, reason = errDeadline, ReasonConnectTimeout
	case err == errDeadline, errors.Is(err, syscall.ETIMEDOUT):
		reason = ReasonConnectTimeout
	case isUnsupported(err):
		reason = ReasonUnsupported
	case isLocal(err):
		reason = ReasonLocalLimit
	case errors.Is(err, syscall.ECONNREFUSED):
		reason = ReasonConnectRefused
	case errors.Is(err, syscall.ECONNRESET):
		reason = ReasonReset // right after it was established
	}
	return &Error{r.phase, reason, err}
}

// isCancel tells a cancellation from the context's own deadline, which wakes the
// canceller too.
func (r *run) isCancel(err error) bool {
	return err == errCancelled && r.ctxError() == errCancelled
}

func isUnsupported(err error) bool {
	var unsupported *unsupportedError
	return errors.As(err, &unsupported)
}

func isLocal(err error) bool {
	var local *localError
	return errors.As(err, &local) || errors.Is(err, syscall.ENOBUFS) || errors.Is(err, syscall.ENOMEM)
}
