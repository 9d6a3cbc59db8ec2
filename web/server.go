package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	toolkit "github.com/prometheus/exporter-toolkit/web"

	"github.com/bounceback-exporter/bounceback_exporter/config"
)

const (
	// A client has this long for its request line and headers; an idle connection
	// stays this long.
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 2 * time.Minute
	// maxHeaderBytes bounds request line and headers together; net/http adds 4 KiB.
	maxHeaderBytes = 16 << 10
)

// StopBounds are the steps of a stop; all of them together bound it. Within the
// 30 s that Kubernetes gives a process unless told otherwise.
type StopBounds struct {
	// Answers is how long running probes may go on by themselves; 20 s.
	Answers time.Duration
	// Cancelled is how long they have to answer after being called off; 2 s.
	Cancelled time.Duration
	// Background is how long connections may go on being ended; 6 s. What is left
	// then is half-closed, and the process exits.
	Background time.Duration
}

// DefaultStopBounds let a stop take 28 s at most.
func DefaultStopBounds() StopBounds {
	return StopBounds{Answers: 20 * time.Second, Cancelled: 2 * time.Second, Background: 6 * time.Second}
}

// ServeOptions are what Serve needs.
type ServeOptions struct {
	Flags *toolkit.FlagConfig
	// Signals are SIGHUP (reload), SIGINT and SIGTERM (stop; the second one: at
	// once).
	Signals <-chan os.Signal
	Bounds  StopBounds
	// Alongside run as long as probes may run. The first one that returns an error
	// stops everything.
	Alongside []func(ctx context.Context) error
}

// Serve listens and answers until a signal says stop or something breaks, and
// returns the exit code of the process: 0 after an orderly stop, else 1.
func (h *Handler) Serve(o ServeOptions) int {
	answers, cancelAnswers := context.WithCancelCause(context.Background())
	callOff := func() { cancelAnswers(errStopping) }
	defer callOff()
	rest, endRest := context.WithCancel(context.Background())
	defer endRest()
	var running sync.WaitGroup

	broken := make(chan error, len(*o.Flags.WebListenAddresses)+len(o.Alongside)+1)
	servers := h.listen(o.Flags, answers, &running, broken)
	for _, run := range o.Alongside {
		running.Go(func() {
			if err := run(rest); err != nil && rest.Err() == nil {
				broken <- err
			}
		})
	}

	code := h.untilStop(o, broken)
	finish := func() {
		endRest()
		running.Wait()
	}
	if !h.stop(servers, callOff, finish, o) {
		return exitError
	}
	h.logger.Info("stopped")
	return code
}

// untilStop returns at the first signal that is not SIGHUP, or when something
// broke, and gives the exit code that this deserves.
func (h *Handler) untilStop(o ServeOptions, broken <-chan error) int {
	for {
		select {
		case err := <-broken:
			h.logger.Error("stopping, because a part can't go on", "err", err)
			return exitError
		case sig := <-o.Signals:
			if sig == syscall.SIGHUP {
				_ = h.Reload() // logged there
				continue
			}
			h.logger.Info("stopping: running probes may finish; a second signal ends them at once",
				"signal", sig, "within", o.Bounds.Answers+o.Bounds.Cancelled+o.Bounds.Background)
			return exitOK
		}
	}
}

// errStopping calls off probes whose clients still wait for their answers.
var errStopping = fmt.Errorf("the exporter is stopping: %w", context.Canceled)

// Exit codes of the process.
const (
	exitOK    = 0
	exitError = 1
)

// listen starts a server for each address. Each has its own, because the toolkit
// changes the server it is given.
func (h *Handler) listen(flags *toolkit.FlagConfig, base context.Context, wg *sync.WaitGroup, broken chan<- error) []*http.Server {
	addresses := *flags.WebListenAddresses
	if flags.WebSystemdSocket != nil && *flags.WebSystemdSocket {
		addresses = []string{""} // its sockets come from systemd
	}
	var servers []*http.Server
	for _, address := range addresses {
		srv := h.server(base)
		servers = append(servers, srv)
		own := *flags
		own.WebListenAddresses = &[]string{address}
		wg.Go(func() {
			if err := toolkit.ListenAndServe(srv, &own, h.logger); err != nil && !errors.Is(err, http.ErrServerClosed) {
				broken <- err
			}
		})
	}
	return servers
}

// server is an HTTP server that no client can keep busy without end. It has no
// ReadTimeout, which would also end the probes of clients that wait, and no
// WriteTimeout, because each page sets its own.
func (h *Handler) server(base context.Context) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(h.logger.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return base },
	}
}

// stop lets what runs come to its end, each step for a bounded time. A second
// signal half-closes every connection to a server and ends it all: then it returns
// false, and nothing may be waited for any more.
func (h *Handler) stop(servers []*http.Server, callOff context.CancelFunc, finish func(), o ServeOptions) bool {
	h.stopping.Store(true)
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		defer close(done)
		if !shutdown(ctx, servers, o.Bounds.Answers) {
			h.logger.Warn("probes still run and are called off")
		}
		callOff()
		if !shutdown(ctx, servers, o.Bounds.Cancelled) {
			for _, srv := range servers {
				_ = srv.Close()
			}
		}
		waiting, cancel := context.WithTimeout(ctx, o.Bounds.Background)
		defer cancel()
		h.loads.idle(waiting)
		if err := h.background.Wait(waiting); err != nil {
			h.logger.Warn("connections are still being ended in the background; half-closing them",
				"connections", h.background.DrainsInFlight())
			h.background.HalfCloseAll()
		}
		finish()
	}()
	for {
		select {
		case <-done:
			return true
		case sig := <-o.Signals:
			if sig == syscall.SIGHUP {
				continue
			}
			h.background.HalfCloseAll()
			h.logger.Warn("stopped at once", "signal", sig)
			return false
		}
	}
}

// shutdown stops accepting, and waits for the answers that are under way. It tells
// whether all of them were given in time.
func shutdown(ctx context.Context, servers []*http.Server, bound time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	var wg sync.WaitGroup
	late := make(chan error, len(servers))
	for _, srv := range servers {
		wg.Go(func() { late <- srv.Shutdown(ctx) })
	}
	wg.Wait()
	for range servers {
		if <-late != nil {
			return false
		}
	}
	return true
}

// LogConfigError logs a configuration that can't be used, one line per mistake.
func LogConfigError(logger *slog.Logger, msg string, err error) {
	var mistakes config.Errors
	if !errors.As(err, &mistakes) {
		logger.Error(msg, "err", err)
		return
	}
	for _, m := range mistakes {
		logger.Error(msg, "file", m.File, "line", m.Line, "key", m.Key, "value", m.Value, "err", m.Message)
	}
}
