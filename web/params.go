package web

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/prober"
)

// params is what the query of a /probe request asks for.
type params struct {
	target     prober.Target
	targetText string // as it was written
	module     *config.Module
	debug      bool
}

// parseParams reads the query of a /probe request. It is strict: a parameter
// that is unknown or comes twice is an error that names it, because a typing
// error in a scrape configuration would otherwise go unnoticed for years.
// Nothing of a module can be set here.
func parseParams(rawQuery string, cfg *config.Config) (*params, error) {
	query, err := url.ParseQuery(rawQuery)
	if err != nil {
		return nil, fmt.Errorf("query: %w", err)
	}
	names := make([]string, 0, len(query))
	for name := range query {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		switch name {
		case "target", "module", "debug":
		default:
			return nil, fmt.Errorf("unknown parameter %q; allowed are target, module and debug", name)
		}
		if n := len(query[name]); n > 1 {
			return nil, fmt.Errorf("parameter %q is there %d times; at most one is allowed", name, n)
		}
	}

	p := &params{targetText: query.Get("target")}
	if p.targetText == "" {
		return nil, fmt.Errorf("parameter %q is missing: the host, host:port or [v6]:port of an iperf 2 server", "target")
	}
	if p.target, err = prober.ParseTarget(p.targetText); err != nil {
		return nil, fmt.Errorf("parameter %q: %w", "target", err)
	}
	if p.debug, err = parseDebug(query); err != nil {
		return nil, err
	}
	if p.module, err = pickModule(query, cfg); err != nil {
		return nil, err
	}
	return p, nil
}

// pickModule finds the module that a query names, or the only one there is.
func pickModule(query url.Values, cfg *config.Config) (*config.Module, error) {
	known := cfg.ModuleNames()
	if !query.Has("module") {
		if len(known) == 1 {
			return cfg.Modules[known[0]], nil
		}
		return nil, fmt.Errorf("parameter %q is missing; the modules are: %s", "module", strings.Join(known, ", "))
	}
	name := query.Get("module")
	m, ok := cfg.Modules[name]
	if !ok {
		return nil, fmt.Errorf("unknown module %q; the modules are: %s", name, strings.Join(known, ", "))
	}
	return m, nil
}

// parseDebug reads the switch for the readable answer.
func parseDebug(query url.Values) (bool, error) {
	if !query.Has("debug") {
		return false, nil
	}
	switch v := query.Get("debug"); v {
	case "true", "1":
		return true, nil
	case "false", "0":
		return false, nil
	default:
		return false, fmt.Errorf("parameter %q: %q is not true or false", "debug", v)
	}
}
