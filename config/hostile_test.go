package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestAnchorInsideItself: a mapping that merges itself, or has itself as a value,
// comes to an end.
func TestAnchorInsideItself(t *testing.T) {
	for _, text := range []string{
		"modules: {a: &a {<<: *a}}",
		"modules: {a: &a {<<: [*a, *a], size: 100}}",
	} {
		c, err := Parse("x", []byte(text))
		if err != nil || c.Modules["a"].Size != 100 {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{
		"&a {modules: *a}",
		"modules: &a {a: *a}",
		"modules: {a: &a {histograms: *a}}",
		"allowed_targets: {networks: &a [*a]}\nmodules: {a: {}}",
	} {
		if _, err := Parse("x", []byte(text)); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}

// TestAliasBombs: nested lists of aliases, each naming the one before many times,
// would be astronomically large if anybody spelled them out.
func TestAliasBombs(t *testing.T) {
	lists := "x0: &x0 [1]\n"
	merges := "m0: &m0 {size: 100}\n"
	for i := 1; i <= 100; i++ {
		alias := fmt.Sprintf("*x%d", i-1)
		lists += fmt.Sprintf("x%d: &x%d [%s]\n", i, i, strings.Repeat(alias+", ", 9)+alias)
		alias = fmt.Sprintf("*m%d", i-1)
		merges += fmt.Sprintf("m%d: &m%d {<<: [%s]}\n", i, i, strings.Repeat(alias+", ", 9)+alias)
	}
	for _, text := range []string{
		lists + "modules: {a: {histograms: {classic_buckets: *x100}}}",
		merges + "modules: {a: *m100}",
	} {
		_, err := Parse("x", []byte(text))
		var mistakes Errors
		if !errors.As(err, &mistakes) || len(mistakes) < 101 {
			t.Errorf("%d mistakes", len(mistakes))
		}
	}
}

// TestMistakesAreBounded: aliases repeat mistakes without end, and the list of
// them ends all the same.
func TestMistakesAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("modules:\n  base: &base\n")
	for i := range 900 {
		fmt.Fprintf(&b, "    wrong%d: 1\n", i)
	}
	for i := range 900 {
		fmt.Fprintf(&b, "  m%d: {<<: *base}\n", i)
	}
	_, err := Parse("x", []byte(b.String()))
	var mistakes Errors
	if !errors.As(err, &mistakes) {
		t.Fatal(err)
	}
	if len(mistakes) != maxMistakes+1 || mistakes[maxMistakes].Message != "only the first 1000 mistakes are listed" {
		t.Errorf("%d mistakes, the last is %v", len(mistakes), mistakes[len(mistakes)-1])
	}
}

func TestTooManyModules(t *testing.T) {
	text := func(n int) []byte {
		var b strings.Builder
		b.WriteString("modules:\n")
		for i := range n {
			fmt.Fprintf(&b, "  m%d: {}\n", i)
		}
		return []byte(b.String())
	}
	if c, err := Parse("x", text(MaxModules)); err != nil || len(c.Modules) != MaxModules {
		t.Errorf("%d modules: %v", MaxModules, err)
	}
	if _, err := Parse("x", text(MaxModules+1)); err == nil || !strings.Contains(err.Error(), "at most 1000") {
		t.Errorf("one more: %v", err)
	}
}

// TestDeepNesting is refused instead of followed.
func TestDeepNesting(t *testing.T) {
	for _, part := range []string{"[", "{a: ", "- ", "? "} {
		text := "modules: " + strings.Repeat(part, MaxFileSize/len(part)-10)
		if strings.HasSuffix(part, " ") && len(part) == 2 {
			text = text[len("modules: "):]
		}
		if _, err := Parse("x", []byte(text)); err == nil || !strings.Contains(err.Error(), "not YAML") {
			t.Errorf("%q: %.200v", part, err)
		}
	}
}
