// Package examples holds configurations to copy. Its tests run or check each.
package examples

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"gopkg.in/yaml.v3"
)

// documents reads a YAML file of any number of documents; a key that stands twice is
// an error.
func documents(t *testing.T, path string) []map[string]any {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []map[string]any
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc map[string]any
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		out = append(out, doc)
	}
}

// at walks down a tree of YAML by keys and indices; nil where there is nothing.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

func texts(v any) []string {
	var out []string
	for _, e := range list(v) {
		s, _ := e.(string)
		out = append(out, s)
	}
	return out
}

// find is the element of a list of maps that has that value of a key.
func find(v any, key, value string) any {
	for _, e := range list(v) {
		if at(e, key) == value {
			return e
		}
	}
	return nil
}

// buildDir is where program builds.
var buildDir string

// program builds the exporter once.
var program = sync.OnceValues(func() (string, error) {
	path := filepath.Join(buildDir, "bounceback_exporter")
	if out, err := exec.Command("go", "build", "-o", path, "..").CombinedOutput(); err != nil {
		return "", errors.New(string(out))
	}
	return path, nil
})

func TestMain(m *testing.M) {
	var err error
	if buildDir, err = os.MkdirTemp("", "bounceback"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(buildDir)
	os.Exit(code)
}

// checkArgs runs the exporter with the arguments of an example, its files being
// those given, and lets it check itself.
func checkArgs(t *testing.T, args []string, files map[string]string) {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	replaced := 0
	args = append([]string{"--config.check"}, args...)
	for i := range args {
		for from, to := range files {
			if strings.Contains(args[i], from) {
				args[i] = strings.Replace(args[i], from, to, 1)
				replaced++
			}
		}
	}
	if replaced != len(files) {
		t.Errorf("%v do not name every file of %v", args, files)
	}
	out, err := exec.Command(path, args...).CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("configuration OK")) {
		t.Errorf("bounceback_exporter %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// promtool runs a check of Prometheus' own tool, where there is one.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	path := os.Getenv("PROMTOOL")
	if path == "" {
		var err error
		if path, err = exec.LookPath("promtool"); err != nil {
			t.Skip("needs promtool, in PATH or named by PROMTOOL")
		}
	}
	if out, err := exec.Command(path, args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
