package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/prober"
	"github.com/bounceback-exporter/bounceback_exporter/report"
	"github.com/bounceback-exporter/bounceback_exporter/responder"
)

// Formats of the probe command.
const (
	formatText       = "text"
	formatJSON       = "json"
	formatPrometheus = "prometheus"
)

// probeFlags are the flags and the argument of the probe command.
type probeFlags struct {
	target      *string
	module      *string
	configFiles *[]string
	format      *string
	rawFile     *string
	hideIPs     *bool
	timeout     *time.Duration
	verbose     *bool
}

// probeCmd is one call of the probe command.
type probeCmd struct {
	flags          *probeFlags
	stdout, stderr io.Writer
	getenv         func(string) string
	// columns of a writer that is a terminal; not OK for any other.
	columns func(io.Writer) (int, bool)
	signals chan os.Signal // as main gets them, to tell a second one
}

// probeCommand declares the command that does one test now, and returns what runs
// it. Exit codes: 0 success, 1 a probe that failed, 2 one that could not begin.
func probeCommand(app *kingpin.Application) func(ctx context.Context) int {
	flags := addProbeFlags(app)
	return func(ctx context.Context) int {
		c := &probeCmd{flags: flags, stdout: os.Stdout, stderr: os.Stderr,
			getenv: os.Getenv, columns: terminalColumns, signals: make(chan os.Signal, 4)}
		signal.Notify(c.signals, probeSignals()...)
		defer signal.Stop(c.signals)
		return c.run(ctx)
	}
}

func addProbeFlags(app *kingpin.Application) *probeFlags {
	timeout := new(durationFlag)
	cmd := app.Command("probe", "Do one test now and report it. Without a target, test the built-in responder. "+
		"Exit code: 0 success, 1 failed probe, 2 usage.")
	flags := &probeFlags{
		timeout: (*time.Duration)(timeout),
		target:  cmd.Arg("target", "host, host:port, [v6] or [v6]:port of an iperf 2 server; the port is 5001 unless given.").String(),
		module:  cmd.Flag("module", "Module of the configuration; need not be given if there is one only.").PlaceHolder("NAME").String(),
		configFiles: cmd.Flag("config.file", "Configuration file or glob; repeatable. Without one there is one module, bounceback, "+
			"with every default. Its allowed_targets hold here too.").PlaceHolder("FILE").Strings(),
		format: cmd.Flag("format", "text (for people), json (for scripts) or prometheus (what /probe would answer).").
			Default(formatText).Enum(formatText, formatJSON, formatPrometheus),
		rawFile: cmd.Flag("raw", "Also write the stamps of every bounce to this file, as JSON lines.").PlaceHolder("FILE").String(),
		hideIPs: cmd.Flag("hide-ips", "Mask addresses and host names, for a report that is to be shared.").Bool(),
		verbose: cmd.Flag("verbose", "Also say what happened during the probe.").Short('v').Bool(),
	}
	cmd.Flag("timeout", "Of the whole probe, such as 30s, instead of the module's. The report is there by then; "+
		"to end the connection without harm to the server may take some seconds more.").PlaceHolder("DURATION").SetValue(timeout)
	return flags
}

// durationFlag is a duration of which the error says how to write one.
type durationFlag time.Duration

// Set reads what time.ParseDuration takes.
func (d *durationFlag) Set(s string) error {
	v, err := time.ParseDuration(s)
	if _, number := strconv.ParseFloat(s, 64); err != nil && number == nil {
		return fmt.Errorf("%s has no unit: write %ss if seconds are meant", s, s)
	} else if err != nil {
		return fmt.Errorf("%q is no duration: write it like 500ms, 5s or 1m30s", s)
	}
	*d = durationFlag(v)
	return nil
}

func (d *durationFlag) String() string { return time.Duration(*d).String() }

// run does the command and returns its exit code.
func (c *probeCmd) run(ctx context.Context) int {
	cfg, err := config.Load(*c.flags.configFiles)
	if err != nil {
		return c.usage(err)
	}
	module, err := pickModule(cfg, *c.flags.module)
	if err != nil {
		return c.usage(err)
	}
	timeout := module.Timeout
	if *c.flags.timeout < 0 {
		return c.usage(fmt.Errorf("--timeout %s is negative", *c.flags.timeout))
	} else if *c.flags.timeout > 0 {
		timeout = *c.flags.timeout
	}
	// The responder outlives the probe, so that its end is one between friends.
	alive, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	job := &prober.Job{Module: module, Allowed: &cfg.AllowedTargets, Live: &prober.Live{}}
	job.Target, err = c.target(alive, job)
	if err != nil {
		return c.usage(err)
	}
	raw, err := c.createRaw()
	if err != nil {
		return c.usage(err)
	}

	p := prober.New(prober.Options{})
	// Nothing may leave this process without a FIN sent first: a reset would end
	// every test that runs on the server. By defer, so that a panic obeys too.
	defer p.HalfCloseAll()
	leave := c.watchSignals()
	defer leave.over()
	job.Start = time.Now()
	probeCtx, cancel := context.WithDeadline(ctx, job.Start.Add(timeout))
	defer cancel()
	result, shown := c.measure(probeCtx, p, job)
	leave.measured()

	code := exitOK
	if !result.Success() {
		code = exitError
	}
	if err := c.write(result, raw, shown); err != nil {
		c.say("%v", err)
		code = exitError
	}
	c.drain(leave, p, module)
	return code
}

// usage reports what kept the probe from beginning.
func (c *probeCmd) usage(err error) int {
	c.say("error: %v", err)
	return exitUsage
}

// say writes a line about the command itself, which never mixes with a report.
func (c *probeCmd) say(format string, args ...any) {
	fmt.Fprintf(c.stderr, program+": "+format+"\n", args...)
}

// pickModule is the module of that name, or the only one there is.
func pickModule(cfg *config.Config, name string) (*config.Module, error) {
	names := cfg.ModuleNames()
	if name == "" && len(names) == 1 {
		name = names[0]
	}
	m, ok := cfg.Modules[name]
	switch {
	case ok:
		return m, nil
	case name == "":
		return nil, fmt.Errorf("--module is needed; the modules are: %s", strings.Join(names, ", "))
	}
	return nil, fmt.Errorf("--module: there is no module %q; the modules are: %s", name, strings.Join(names, ", "))
}

// target is what to probe. Without one it starts the built-in responder, which
// runs until ctx is done; who may be probed does not matter then.
func (c *probeCmd) target(ctx context.Context, job *prober.Job) (prober.Target, error) {
	if *c.flags.target != "" {
		return prober.ParseTarget(*c.flags.target)
	}
	ln, err := responder.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		return prober.Target{}, fmt.Errorf("the built-in responder can't listen: %w", err)
	}
	r := responder.New(responder.Options{Logger: slog.New(slog.DiscardHandler)})
	go func() { _ = r.Serve(ctx, ln) }()
	c.say("no target was given, so this tests the built-in responder on %s", ln.Addr())
	job.Allowed = nil
	return prober.ParseTarget(ln.Addr().String())
}

// measure resolves and runs, and shows the rows of the running test on a
// terminal. It tells whether the report need not repeat them.
func (c *probeCmd) measure(ctx context.Context, p *prober.Prober, job *prober.Job) (result *prober.Result, shown bool) {
	if failed := p.Resolve(ctx, job); failed != nil {
		return failed, false
	}
	// Beside a report for people the rows are a part of it; else they must not mix
	// with what a script reads.
	where := c.stdout
	if *c.flags.format != formatText {
		where = c.stderr
	}
	if _, terminal := c.columns(where); !terminal {
		return p.Run(ctx, job), false
	}
	following, done := context.WithCancel(context.Background())
	followed := make(chan bool, 1)
	go func() { followed <- report.Follow(following, where, job.Live.Rows, job.Module) }()
	result = p.Run(ctx, job)
	done()
	return result, <-followed && where == c.stdout
}

// drainTime is how long the end of a connection may take, beside what a hold or a
// load adds.
const drainTime = 8 * time.Second

// drain waits until what goes on in the background is over, so that the server
// sees a clean end. It is bounded, and a signal cuts it short.
func (c *probeCmd) drain(leave leaving, p *prober.Prober, m *config.Module) {
	bound := drainTime + m.Hold
	if l := m.Congest; l != nil {
		bound += l.Baseline + l.Warmup + m.Duration
	}
	ctx, cancel := context.WithTimeout(leave.ctx, bound)
	defer cancel()
	said := make(chan struct{})
	notice := time.AfterFunc(time.Second, func() {
		defer close(said)
		which := "Ctrl-C"
		if leave.signalled.Load() {
			which = "another Ctrl-C"
		}
		c.say("waiting up to %s for the server to end its side of the connection; %s leaves at once", bound, which)
	})
	_ = p.Wait(ctx)
	if !notice.Stop() {
		<-said // nothing is written once the command is over
	}
}

// leaving tells when to leave without waiting for anything.
type leaving struct {
	ctx      context.Context
	measured func() // the result is there
	over     func() // nobody needs it any more
	// signalled tells that a signal came, which did not make us leave yet.
	signalled *atomic.Bool
}

// watchSignals makes the second signal, or the first one after the measuring, end
// the waiting. The first one before that cancels the probe: main's context does.
func (c *probeCmd) watchSignals() leaving {
	ctx, leave := context.WithCancel(context.Background())
	measured := make(chan struct{})
	var signalled atomic.Bool
	next := func() bool {
		select {
		case <-c.signals:
			return true
		case <-ctx.Done():
			return false
		}
	}
	go func() {
		if !next() {
			return
		}
		select {
		case <-measured:
		default:
			signalled.Store(true)
			next()
		}
		leave()
	}()
	return leaving{ctx, func() { close(measured) }, leave, &signalled}
}
