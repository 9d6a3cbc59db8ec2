package config

import (
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

// decoder reads one file. It goes over YAML nodes instead of letting yaml.v3 fill
// structs, because only nodes know their lines and types: yaml.v3 turns 1.5 into 1
// where an int is wanted, and stops at the first kind of mistake.
type decoder struct {
	file   string
	ledger *ledger
}

// mistake reports one; key, value and line may be unknown.
func (d *decoder) mistake(line int, key, value, message string) {
	d.ledger.add(Mistake{File: d.file, Line: line, Key: key, Value: value, Message: message})
}

// at reports a mistake in a value.
func (d *decoder) at(n *yaml.Node, key, message string) {
	d.mistake(n.Line, key, describe(n), message)
}

// describe shows a value as it stands in the file.
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.AliasNode:
		return "*" + show(n.Value)
	case n.Kind == yaml.MappingNode && len(n.Content) == 0:
		return "{}"
	case n.Kind == yaml.SequenceNode && len(n.Content) == 0:
		return "[]"
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case isNull(n):
		return "nothing"
	case quoted(n) || n.Value == "":
		return quote(n.Value)
	}
	return show(n.Value)
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// plain follows an alias and refuses what is no value at all. An explicit tag
// (!!str, !!int, !foo) would make a value something else than it looks like.
func (d *decoder) plain(n *yaml.Node, key string) (*yaml.Node, bool) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch {
	case n.Style&yaml.TaggedStyle != 0:
		d.mistake(n.Line, key, show(n.Tag), "tags are not supported; write the value alone")
		return n, false
	case isNull(n):
		d.at(n, key, "a value is missing; leave the key out to have its default")
		return n, false
	}
	return n, true
}

// pair is one key of a mapping.
type pair struct {
	key   string
	line  int // of the key
	value *yaml.Node
}

// pairs returns the keys of a mapping in their order, those of merged mappings
// (<<: *anchor) last and only where the mapping has no such key itself.
func (d *decoder) pairs(n *yaml.Node, key string) ([]pair, bool) {
	n, ok := d.plain(n, key)
	if !ok {
		return nil, false
	}
	if n.Kind != yaml.MappingNode {
		d.at(n, key, "must be a mapping (keys with values, one a line)")
		return nil, false
	}
	m := merger{d: d, at: key, lines: map[string]int{}, seen: map[*yaml.Node]bool{}}
	m.add(n)
	return m.pairs, true
}

// merger collects the pairs of a mapping and of all that is merged into it.
type merger struct {
	d     *decoder
	at    string
	pairs []pair
	lines map[string]int // where each key was taken from
	// seen has every mapping that was added: adding it again could change nothing,
	// and an anchor may stand inside of itself.
	seen map[*yaml.Node]bool
}

func (m *merger) add(n *yaml.Node) {
	if m.seen[n] {
		return
	}
	m.seen[n] = true
	own := map[string]int{}
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content) && !m.d.ledger.full(); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Kind == yaml.AliasNode || k.Kind != yaml.ScalarNode || k.Style&yaml.TaggedStyle != 0 {
			m.d.at(k, m.at, "a key must be plain text")
			continue
		}
		if k.Tag == "!!merge" {
			merged = append(merged, v)
			continue
		}
		if k.ShortTag() != "!!str" {
			m.d.at(k, m.at, fmt.Sprintf("a key must be text; write it as %q if it is meant so", k.Value))
			continue
		}
		if first, twice := own[k.Value]; twice {
			m.d.mistake(k.Line, join(m.at, k.Value), "", fmt.Sprintf("the key is given twice, first on line %d", first))
			continue
		}
		own[k.Value] = k.Line
		if _, overridden := m.lines[k.Value]; !overridden {
			m.lines[k.Value] = k.Line
			m.pairs = append(m.pairs, pair{k.Value, k.Line, v})
		}
	}
	for _, v := range merged {
		m.merge(v)
	}
}

// merge adds what stands behind <<: an alias of a mapping, or a list of such.
func (m *merger) merge(n *yaml.Node) {
	target := n
	if n.Kind == yaml.AliasNode {
		target = n.Alias
	}
	switch {
	case target.Kind == yaml.MappingNode:
		m.add(target)
	case n.Kind == yaml.SequenceNode:
		for _, item := range n.Content {
			if item.Kind == yaml.AliasNode && item.Alias.Kind == yaml.MappingNode {
				m.add(item.Alias)
			} else {
				m.d.at(item, join(m.at, "<<"), "must be an alias of a mapping, such as *base")
			}
		}
	default:
		m.d.at(n, join(m.at, "<<"), "must be an alias of a mapping, such as *base, or a list of them")
	}
}

// field is a known key of a mapping and what reads its value.
type field struct {
	name string
	read func(v *yaml.Node, key string)
}

// section is what a mapping with known keys was found to hold.
type section struct {
	d      *decoder
	key    string
	line   int
	values map[string]*yaml.Node
	lines  map[string]int  // of the keys
	bad    map[string]bool // keys whose value was a mistake
}

// section reads a mapping that may have only the given keys.
func (d *decoder) section(n *yaml.Node, key string, fields []field) *section {
	s := &section{d: d, key: key, line: n.Line,
		values: map[string]*yaml.Node{}, lines: map[string]int{}, bad: map[string]bool{}}
	pairs, _ := d.pairs(n, key)
	for _, p := range pairs {
		if d.ledger.full() {
			break
		}
		f := find(fields, p.key)
		if f == nil {
			d.mistake(p.line, join(key, p.key), "", unknownKey(p.key, fields))
			continue
		}
		before := len(d.ledger.list)
		s.values[p.key], s.lines[p.key] = p.value, p.line
		f.read(p.value, join(key, p.key))
		s.bad[p.key] = len(d.ledger.list) > before
	}
	return s
}

func find(fields []field, name string) *field {
	for i := range fields {
		if fields[i].name == name {
			return &fields[i]
		}
	}
	return nil
}

// has tells whether the key was given.
func (s *section) has(key string) bool { return s.values[key] != nil }

// sound tells whether none of the keys was given a value that is a mistake by
// itself, so that a rule over them makes sense.
func (s *section) sound(keys ...string) bool {
	for _, k := range keys {
		if s.bad[k] {
			return false
		}
	}
	return true
}

// broken reports that a rule over several keys is broken, at the first of them
// that was given.
func (s *section) broken(message string, keys ...string) {
	for _, k := range keys {
		if v := s.values[k]; v != nil {
			s.d.mistake(s.lines[k], join(s.key, k), describe(v), message)
			return
		}
	}
	s.d.mistake(s.line, s.key, "", message)
}

// list reads a list of at most limit items.
func (d *decoder) list(n *yaml.Node, key string, limit int, item func(v *yaml.Node, key string)) {
	n, ok := d.plain(n, key)
	if !ok {
		return
	}
	if n.Kind != yaml.SequenceNode {
		d.at(n, key, "must be a list, such as [a, b]")
		return
	}
	if len(n.Content) > limit {
		d.mistake(n.Line, key, fmt.Sprintf("a list of %d", len(n.Content)), fmt.Sprintf("at most %d are allowed", limit))
		return
	}
	for i, v := range n.Content {
		k := fmt.Sprintf("%s[%d]", key, i)
		if v, ok := d.plain(v, k); ok {
			item(v, k)
		}
	}
}

// join makes the full path of a key. Keys that are long or odd are shortened as
// values are.
func join(parent, key string) string {
	if key = show(key); key == "" {
		key = `""`
	}
	if parent == "" {
		return key
	}
	return strings.Join([]string{parent, key}, ".")
}
