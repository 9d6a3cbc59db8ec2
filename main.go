// Command bounceback_exporter is a Prometheus exporter that measures round trips
// and one-way delays against iperf 2 servers with iperf 2's bounceback protocol.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/version"
	toolkit "github.com/prometheus/exporter-toolkit/web"

	"github.com/bounceback-exporter/bounceback_exporter/collector"
	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/prober"
	"github.com/bounceback-exporter/bounceback_exporter/prober/peers"
	"github.com/bounceback-exporter/bounceback_exporter/responder"
	"github.com/bounceback-exporter/bounceback_exporter/web"
)

// Exit codes.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

// unstamped is the version of a build that did not say its own, as plain go build
// makes it. It is that of the file VERSION.
const unstamped = "0.1.0-dev"

func main() { os.Exit(run(os.Args[1:])) }

// run does what the arguments say and returns the exit code.
func run(args []string) int {
	if version.Version == "" {
		version.Version = unstamped
	}
	// A reader of our output or log that goes away is an error of that write. As a
	// signal it would end the process, and reset its connections at their servers.
	signal.Ignore(syscall.SIGPIPE)
	app := kingpin.New(program, "Prometheus exporter for iperf 2's bounceback: the round trip that an application sees.").
		UsageWriter(os.Stdout).UsageTemplate(kingpin.DefaultUsageTemplate + exporterHelp).
		Version(version.Print(program))
	app.HelpFlag.Short('h')
	exporter := app.Command("exporter", "Serve /probe and /metrics; what happens unless another command is named.").Default()
	flags := addExporterFlags(exporter)
	probe := probeCommand(app)

	command, err := app.Parse(args)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: error: %v (try --help)\n", program, err)
		return exitUsage
	}
	if command != exporter.FullCommand() {
		ctx, stop := signal.NotifyContext(context.Background(), probeSignals()...)
		defer stop()
		return probe(ctx)
	}
	if *flags.configCheck {
		return check(flags)
	}
	return serve(flags)
}

// stopSignals end the exporter in order. None may end the process by itself: that
// would reset its connections, and so every test on their servers.
func stopSignals() []os.Signal { return []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT} }

// probeSignals end the probe command in order: those, and the terminal's going away,
// unless that is to be ignored, as nohup asks.
func probeSignals() []os.Signal {
	if signal.Ignored(syscall.SIGHUP) {
		return stopSignals()
	}
	return append(stopSignals(), syscall.SIGHUP)
}

// check validates the configuration files and says so.
func check(flags *exporterFlags) int {
	cfg, err := config.Load(*flags.configFiles)
	webErr := toolkit.Validate(*flags.web.WebConfigFile)
	if webErr != nil {
		webErr = fmt.Errorf("%s: %w", *flags.web.WebConfigFile, webErr)
	}
	if err := errors.Join(err, webErr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitError
	}
	fmt.Printf("configuration OK; modules: %s\n", strings.Join(cfg.ModuleNames(), ", "))
	return exitOK
}

// serve runs the exporter until it is told to stop.
func serve(flags *exporterFlags) int {
	logger := flags.logger(os.Stderr)
	// From here on a signal is an orderly stop, even while starting.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, append(stopSignals(), syscall.SIGHUP)...)
	logger.Info("starting "+program, "version", version.Info(), "build_context", version.BuildContext())

	store, err := config.NewStore(*flags.configFiles)
	if err != nil {
		web.LogConfigError(logger, "the configuration can't be used", err)
		return exitError
	}
	urls, err := web.NewURLs(*flags.externalURL, *flags.routePrefix)
	if err != nil {
		logger.Error("a flag can't be used", "err", err)
		return exitUsage
	}
	alongside, example, err := embeddedResponder(*flags.responderAddress, logger)
	if err != nil {
		logger.Error("the responder can't listen", "err", err)
		return exitError
	}

	table := peers.New(peers.Options{})
	p := prober.New(prober.Options{Peers: table})
	registry := prometheus.NewRegistry()
	handler := web.NewHandler(web.Options{
		Runner:     p,
		Background: p,
		Peers:      table,
		Config:     store,
		Self: collector.NewSelf(registry, collector.SelfOptions{
			DrainsInFlight: p.DrainsInFlight, DrainsAbandoned: p.DrainsAbandoned,
		}),
		Gatherer:      registry,
		Logger:        logger,
		ProbeLogLevel: severity(*flags.logProber),
		TimeoutOffset: flags.offset(),
		HistoryLimit:  *flags.historyLimit,
		URLs:          urls,
		Version:       program + " " + version.Version,
		ExampleTarget: example,
	})
	logger.Info("configuration loaded", "modules", strings.Join(store.Current().ModuleNames(), ","))
	return handler.Serve(web.ServeOptions{
		Flags:     flags.web,
		Signals:   signals,
		Bounds:    web.DefaultStopBounds(),
		Alongside: alongside,
	})
}

// embeddedResponder listens for bounce tests, if that is wanted. It also returns
// the target for the ready-made links of the landing page.
func embeddedResponder(address string, logger *slog.Logger) ([]func(context.Context) error, string, error) {
	if address == "" {
		return nil, "localhost", nil
	}
	ln, err := responder.Listen(context.Background(), address)
	if err != nil {
		return nil, "", err
	}
	logger.Info("the responder is listening", "address", ln.Addr())
	r := responder.New(responder.Options{Logger: logger.With("component", "responder")})
	run := func(ctx context.Context) error { return r.Serve(ctx, ln) }

	host, port, err := net.SplitHostPort(ln.Addr().String())
	if ip := net.ParseIP(host); err != nil || ip == nil || ip.IsUnspecified() {
		host = "localhost"
	}
	return []func(context.Context) error{run}, net.JoinHostPort(host, port), nil
}
