package config

import (
	"fmt"
)

// Load reads the files that the values of --config.file name and merges them.
// Each value is a file or a glob, and has to match something. Modules may stand in
// any of the files; allowed_targets and limits in one of them. Without paths it is
// Default.
//
// The error is of type Errors and has every mistake of all files.
func Load(paths []string) (*Config, error) {
	if len(paths) == 0 {
		return Default(), nil
	}
	var l ledger
	names := expand(paths, &l)
	var files []*file
	for _, name := range names {
		data, ok := readFile(name, &l)
		if !ok {
			continue
		}
		if f := decodeFile(name, data, &l); f != nil {
			files = append(files, f)
		}
	}
	return merge(files, len(files) == len(names) && len(names) > 0, &l)
}

// Parse reads one file's bytes; name is only for messages.
func Parse(name string, data []byte) (*Config, error) {
	var l ledger
	f := decodeFile(name, data, &l)
	if f == nil {
		return nil, l.err()
	}
	return merge([]*file{f}, true, &l)
}

// decodeFile is nil if there is nothing in the file that could be looked at.
func decodeFile(name string, data []byte, l *ledger) *file {
	d := &decoder{file: name, ledger: l}
	root := d.parseDocument(data)
	if root == nil {
		return nil
	}
	return d.read(root)
}

// merge puts the files together and applies the rules that need all of them.
// complete tells whether every file could be read: only then can it be said that
// something is missing.
func merge(files []*file, complete bool, l *ledger) (*Config, error) {
	c := &Config{Limits: DefaultLimits(), Modules: map[string]*Module{}}
	var allowedIn, limitsIn *file
	places := map[string]Mistake{} // of each module
	for _, f := range files {
		if f.allowed != nil {
			if allowedIn != nil {
				l.add(once(f, f.lines["allowed_targets"], "allowed_targets", allowedIn.name, allowedIn.lines["allowed_targets"]))
			} else {
				c.AllowedTargets, allowedIn = *f.allowed, f
			}
		}
		if f.limits != nil {
			if limitsIn != nil {
				l.add(once(f, f.lines["limits"], "limits", limitsIn.name, limitsIn.lines["limits"]))
			} else {
				c.Limits, limitsIn = *f.limits, f
			}
		}
		for _, m := range f.modules {
			key := join("modules", m.module.Name)
			if first, twice := places[m.module.Name]; twice {
				l.add(Mistake{File: f.name, Line: m.line, Key: key,
					Message: fmt.Sprintf("the module is defined twice, first at %s:%d", first.File, first.Line)})
				continue
			}
			places[m.module.Name] = Mistake{File: f.name, Line: m.line}
			c.Modules[m.module.Name] = m.module
		}
	}
	if complete {
		checkModules(files, l)
		checkCongest(files, c, l)
	}
	if err := l.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// once is the mistake of a key that may stand in one file only.
func once(f *file, line int, key, firstFile string, firstLine int) Mistake {
	return Mistake{File: f.name, Line: line, Key: key,
		Message: fmt.Sprintf("may stand in one file only, and is in %s:%d already", firstFile, firstLine)}
}

// checkModules reports that there is nothing to probe with.
func checkModules(files []*file, l *ledger) {
	m := Mistake{File: files[0].name, Key: "modules",
		Message: "there is no module; a configuration needs at least one, such as modules: {bounceback: {}}"}
	for _, f := range files {
		if len(f.modules) > 0 {
			return
		}
		if line := f.lines["modules"]; line > 0 {
			m.File, m.Line = f.name, line
		}
	}
	if !l.about("modules") && !l.aboutTop() {
		l.add(m)
	}
}

// checkCongest refuses loads without a list of networks.
func checkCongest(files []*file, c *Config, l *ledger) {
	if len(c.AllowedTargets.Networks) > 0 || l.about("allowed_targets") {
		return
	}
	for _, f := range files {
		for _, m := range f.modules {
			if m.module.Congest != nil {
				l.add(Mistake{File: f.name, Line: m.congestLine, Key: join(join("modules", m.module.Name), "congest"),
					Message: "needs allowed_targets.networks: a load generator that anyone may point anywhere is a weapon"})
			}
		}
	}
}
