package config

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// badCases is the number of invalid configurations there are at least: a glob that
// finds none would pass silently.
const badCases = 80

// TestBadFiles loads every file, and every folder of files, of testdata/bad and
// compares what is said about it with the text beside it. To write the texts anew:
// UPDATE_GOLDEN=1 go test ./config -run TestBadFiles
func TestBadFiles(t *testing.T) {
	t.Chdir(filepath.Join("testdata", "bad"))
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		name, path := strings.TrimSuffix(e.Name(), ".yml"), e.Name()
		switch {
		case e.IsDir():
			path = filepath.Join(path, "*.yml")
		case name == e.Name():
			continue
		}
		n++
		t.Run(name, func(t *testing.T) {
			c, err := Load([]string{path})
			if err == nil {
				t.Fatal("is accepted")
			}
			if c != nil {
				t.Error("there is a configuration beside the error")
			}
			var mistakes Errors
			if !errors.As(err, &mistakes) {
				t.Fatalf("the error is a %T", err)
			}
			got := []byte(err.Error() + "\n")
			golden := name + ".txt"
			if os.Getenv("UPDATE_GOLDEN") != "" {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("got:\n%swant:\n%s", got, want)
			}
		})
	}
	if n < badCases {
		t.Errorf("only %d cases were found", n)
	}
}

// TestGoldenTexts finds texts that no file belongs to any more.
func TestGoldenTexts(t *testing.T) {
	texts, err := filepath.Glob("testdata/bad/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range texts {
		base := strings.TrimSuffix(text, ".txt")
		_, errDir := os.Stat(base)
		_, errFile := os.Stat(base + ".yml")
		if errDir != nil && errFile != nil {
			t.Errorf("%s belongs to nothing", text)
		}
	}
}
