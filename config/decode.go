package config

import (
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

// maxModuleName is in bytes; names are labels and parts of URLs.
const maxModuleName = 64

// file is what one file says.
type file struct {
	name    string
	allowed *AllowedTargets // nil: not in this file
	limits  *Limits         // nil: not in this file
	modules []located
	lines   map[string]int // of the keys at the top level
}

// located is a module and where it stands.
type located struct {
	module      *Module
	line        int
	congestLine int // of the key congest; 0: there is none
}

// read decodes a whole file.
func (d *decoder) read(root *yaml.Node) *file {
	f := &file{name: d.file}
	s := d.section(root, "", []field{
		{"allowed_targets", func(v *yaml.Node, key string) { f.allowed = d.allowed(v, key) }},
		{"limits", func(v *yaml.Node, key string) { f.limits = d.limits(v, key) }},
		{"modules", func(v *yaml.Node, key string) { f.modules = d.modules(v, key) }},
	})
	f.lines = s.lines
	return f
}

// allowed reads who may be probed. An empty list would read like "nothing" and
// mean "everything", so there is none.
func (d *decoder) allowed(n *yaml.Node, key string) *AllowedTargets {
	a := &AllowedTargets{}
	before := len(d.ledger.list)
	s := d.section(n, key, []field{
		{"networks", func(v *yaml.Node, key string) { d.networks(v, key, &a.Networks) }},
		{"ports", func(v *yaml.Node, key string) { d.ports(v, key, &a.Ports) }},
	})
	const everything = "this would allow everything; leave the key out if that is meant"
	if s.has("networks") && s.sound("networks") && len(a.Networks) == 0 {
		s.broken(everything, "networks")
	}
	if s.has("ports") && s.sound("ports") && len(a.Ports) == 0 {
		s.broken(everything, "ports")
	}
	if len(d.ledger.list) == before && a.Empty() {
		s.broken(everything)
	}
	return a
}

func (d *decoder) limits(n *yaml.Node, key string) *Limits {
	l := DefaultLimits()
	integer := func(dst *int, high int) func(*yaml.Node, string) {
		return func(v *yaml.Node, key string) { d.integer(v, key, dst, 1, high, "") }
	}
	d.section(n, key, []field{
		{"max_concurrent_probes", integer(&l.MaxConcurrentProbes, 10000)},
		{"max_per_target", integer(&l.MaxPerTarget, 10000)},
		{"max_waiting", integer(&l.MaxWaiting, 100000)},
		{"max_drains", integer(&l.MaxDrains, 100000)},
	})
	return &l
}

func (d *decoder) modules(n *yaml.Node, key string) []located {
	pairs, _ := d.pairs(n, key)
	if len(pairs) > MaxModules {
		d.mistake(n.Line, key, fmt.Sprintf("%d modules", len(pairs)), fmt.Sprintf("at most %d are allowed", MaxModules))
		return nil
	}
	var out []located
	for _, p := range pairs {
		if d.ledger.full() {
			break
		}
		at := join(key, p.key)
		if !validName(p.key) {
			d.mistake(p.line, at, "", fmt.Sprintf("a module's name is 1 to %d letters, digits and any of _ - . (it is a label and a part of URLs)", maxModuleName))
		}
		if isNull(p.value) {
			d.mistake(p.line, at, "nothing", "a module must be a mapping; write {} for one that has all defaults")
			continue
		}
		m := d.module(p.value, at, p.key)
		m.line = p.line
		out = append(out, m)
	}
	return out
}

func validName(s string) bool {
	return s != "" && len(s) <= maxModuleName &&
		!strings.ContainsFunc(s, func(r rune) bool { return !isWord(r) && r != '-' && r != '.' })
}
