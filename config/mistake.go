package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Mistake is one thing that is wrong with the configuration.
type Mistake struct {
	File string
	Line int    // counts from 1; 0: it belongs to no line, such as a file that is missing
	Key  string // full path, such as modules.rtt.size or allowed_targets.ports[2]; "": the file as a whole
	// Value as it stands in the file, shortened where it is long; "": there is none
	// to show.
	Value string
	// Message says what is allowed there, or what to do.
	Message string
}

// Error is file:line: key: value: message, without the parts that are not known.
func (m Mistake) Error() string {
	var b strings.Builder
	b.WriteString(m.File)
	if m.Line > 0 {
		fmt.Fprintf(&b, ":%d", m.Line)
	}
	for _, part := range []string{m.Key, m.Value, m.Message} {
		if part == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(": ")
		}
		b.WriteString(part)
	}
	return b.String()
}

// Errors are all the mistakes of a configuration, sorted by file and line.
type Errors []Mistake

// Error has one line per mistake.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, m := range e {
		lines[i] = m.Error()
	}
	return strings.Join(lines, "\n")
}

// maxMistakes bounds what is collected. It also bounds the work that a hostile
// file can make: aliases let a small file repeat one mistake without end.
const maxMistakes = 1000

// ledger collects mistakes over all files.
type ledger struct {
	list Errors
}

// full tells that nothing more is collected, so that reading may stop.
func (l *ledger) full() bool { return len(l.list) >= maxMistakes }

func (l *ledger) add(m Mistake) {
	if !l.full() {
		l.list = append(l.list, m)
	}
}

// about tells whether a mistake was made at a key or below it: what would follow
// from it is not worth telling then.
func (l *ledger) about(key string) bool {
	return slices.ContainsFunc(l.list, func(m Mistake) bool { return strings.HasPrefix(m.Key, key) })
}

// aboutTop tells whether a file's outermost keys are not what they should be.
func (l *ledger) aboutTop() bool {
	return slices.ContainsFunc(l.list, func(m Mistake) bool { return !strings.ContainsAny(m.Key, ".[") })
}

// err is nil if no mistake was made.
func (l *ledger) err() error {
	if len(l.list) == 0 {
		return nil
	}
	slices.SortStableFunc(l.list, func(a, b Mistake) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	if l.full() {
		return append(l.list, Mistake{Message: fmt.Sprintf("only the first %d mistakes are listed", maxMistakes)})
	}
	return l.list
}

// shown is how many characters of a value a message repeats.
const shown = 60

// show makes a value fit for one line of a message: long ones are cut, and what
// would break the line or hide itself is escaped.
func show(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return quote(s)
	}
	s, end := cut(s)
	return s + end
}

// quote is show with quotes around it.
func quote(s string) string {
	s, end := cut(s)
	return strconv.Quote(s) + end
}

func cut(s string) (head, end string) {
	if r := []rune(s); len(r) > shown {
		return string(r[:shown]), "..."
	}
	return s, ""
}
