package main

import (
	"fmt"
	"io"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/go-kit/log"
	toolkit "github.com/prometheus/exporter-toolkit/web"
	"github.com/prometheus/exporter-toolkit/web/kingpinflag"
	sloggokit "github.com/tjhop/slog-gokit"
)

// program is the name of the binary and of the project.
const program = "bounceback_exporter"

// defaultAddress is where the exporter listens unless told otherwise.
const defaultAddress = ":10501"

// exporterFlags are the flags of the default command.
type exporterFlags struct {
	configFiles      *[]string
	configCheck      *bool
	web              *toolkit.FlagConfig
	externalURL      *string
	routePrefix      *string
	timeoutOffset    *float64
	logLevel         *string
	logFormat        *string
	logProber        *string
	historyLimit     *int
	responderAddress *string
}

// addExporterFlags declares the flags of the exporter.
func addExporterFlags(cmd *kingpin.CmdClause) *exporterFlags {
	levels := []string{"debug", "info", "warn", "error"}
	f := &exporterFlags{
		configFiles: cmd.Flag("config.file", "Configuration file or glob; repeatable. "+
			"Without one there is one module, bounceback, with every default.").PlaceHolder("FILE").Strings(),
		configCheck: cmd.Flag("config.check", "Validate the configuration files and exit.").Bool(),
		web:         kingpinflag.AddFlags(cmd, defaultAddress),
		externalURL: cmd.Flag("web.external-url", "The URL under which the exporter is reached from outside, such as behind a reverse proxy. "+
			"Links begin with its path.").PlaceHolder("URL").String(),
		routePrefix: cmd.Flag("web.route-prefix", "Prefix of the paths of all pages. Defaults to the path of --web.external-url.").
			PlaceHolder("PATH").String(),
		timeoutOffset: cmd.Flag("timeout-offset", "Seconds to subtract from the scrape timeout, at most half of it.").
			Default("0.5").Float64(),
		logLevel:  cmd.Flag("log.level", "Log messages of this severity and above: "+strings.Join(levels, ", ")+".").Default("info").Enum(levels...),
		logFormat: cmd.Flag("log.format", "Format of log messages: logfmt, json.").Default("logfmt").Enum("logfmt", "json"),
		logProber: cmd.Flag("log.prober", "Severity at which the log says what targets do; it shows where --log.level lets it. "+
			"A target that fails is no error of the exporter.").Default("debug").Enum(levels...),
		historyLimit: cmd.Flag("history.limit", "How many recent probes the pages show; 0 keeps none.").Default("100").Int(),
		responderAddress: cmd.Flag("responder.listen-address", "Address on which to answer iperf 2's bounceback tests, such as :5001; "+
			"off unless given.").PlaceHolder("ADDRESS").String(),
	}
	cmd.Validate(func(*kingpin.CmdClause) error {
		if o := *f.timeoutOffset; !(o >= 0) || math.IsInf(o, 0) {
			return fmt.Errorf("--timeout-offset %v is not a number of seconds from 0 up", o)
		}
		if *f.historyLimit < 0 {
			return fmt.Errorf("--history.limit %d is negative", *f.historyLimit)
		}
		return nil
	})
	return f
}

// offset is --timeout-offset as a duration.
func (f *exporterFlags) offset() time.Duration {
	return time.Duration(min(*f.timeoutOffset, time.Hour.Seconds()) * float64(time.Second))
}

// logger makes the logger that --log.level and --log.format ask for.
func (f *exporterFlags) logger(w io.Writer) *slog.Logger {
	w = log.NewSyncWriter(w)
	gokit := log.NewLogfmtLogger(w)
	if *f.logFormat == "json" {
		gokit = log.NewJSONLogger(w)
	}
	return slog.New(sloggokit.NewGoKitHandler(gokit, severity(*f.logLevel)))
}

// severity reads the name of a level that kingpin has checked.
func severity(name string) slog.Level {
	var l slog.Level
	if err := l.UnmarshalText([]byte(name)); err != nil {
		return slog.LevelInfo
	}
	return l
}

// exporterHelp is added to --help, which else would hide the flags of a default
// command.
const exporterHelp = `{{if not .Context.SelectedCommand}}
{{- range .App.FlattenedCommands}}{{if .Default}}
Flags of the exporter:
{{.Flags|FlagsToTwoColumns|FormatTwoColumns}}{{end}}{{end}}{{end}}`
