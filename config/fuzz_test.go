package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// FuzzParse: whatever the bytes, reading them ends without a panic in a
// configuration or in mistakes that each fit on a line; and a configuration is the
// same after being written and read again.
func FuzzParse(f *testing.F) {
	for _, glob := range []string{"testdata/good/*.yml", "testdata/bad/*.yml", "../examples/*.yml"} {
		names, err := filepath.Glob(glob)
		if err != nil {
			f.Fatal(err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Add([]byte("modules: {a: &a {<<: *a}, 'null': {interface: 'on', congestion_control: '1e3'}}"))
	f.Add([]byte("modules: {'0x1': {source_address: 'fe80::1%5'}, '2026-11-30': {interface: '~'}}"))
	f.Add([]byte("\xef\xbb\xbfmodules:\r\n  a: {}\r\n...\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("file.yml", data)
		if err != nil {
			checkErrors(t, err)
			return
		}
		text, err := c.YAML()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse("effective", text)
		if err != nil {
			t.Fatalf("what was written can't be read: %v\n%s", err, text)
		}
		if !reflect.DeepEqual(c, again) {
			t.Fatalf("differs after being written and read:\n%+v\n%+v\n%s", c, again, text)
		}
		for name, m := range c.Modules {
			if m.Name != name || m.Hash() != again.Modules[name].Hash() {
				t.Fatalf("module %q changed its name or its hash", name)
			}
		}
	})
}

func checkErrors(t *testing.T, err error) {
	var mistakes Errors
	if !errors.As(err, &mistakes) || len(mistakes) == 0 {
		t.Fatalf("the error is %T: %v", err, err)
	}
	last := 0
	for _, m := range mistakes {
		line := m.Error()
		if strings.ContainsAny(line, "\n\r\x00\x1b") {
			t.Fatalf("a mistake that breaks its line: %q", line)
		}
		if m.Message == "" || m.File == "" && len(mistakes) <= maxMistakes {
			t.Fatalf("an incomplete mistake: %+v", m)
		}
		if m.File != "" && m.Line < last {
			t.Fatalf("not sorted by line: %v", err)
		}
		last = m.Line
	}
}
