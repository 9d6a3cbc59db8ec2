package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestSeveralFiles(t *testing.T) {
	dir := write(t, map[string]string{
		"a.yml":         "allowed_targets: {networks: [10.0.0.0/8]}\n",
		"b.yml":         "limits: {max_waiting: 7}\nmodules: {rtt: {}}\n",
		"modules/c.yml": "modules: {load: {congest: true}, owd: {trip_times: true}}\n",
	})
	c := load(t, filepath.Join(dir, "?.yml"), filepath.Join(dir, "modules", "*"))
	if got := c.ModuleNames(); !slices.Equal(got, []string{"load", "owd", "rtt"}) {
		t.Errorf("modules are %v", got)
	}
	if c.Limits.MaxWaiting != 7 || c.Limits.MaxDrains != 200 || len(c.AllowedTargets.Networks) != 1 {
		t.Errorf("got %+v", c)
	}
}

// TestGlob has what a mounted ConfigMap looks like: the data in a hidden folder,
// hidden links to it, and links to its files.
func TestGlob(t *testing.T) {
	dir := write(t, map[string]string{
		"..2026/a.yml": "modules: {rtt: {}}\n",
		".hidden.yml":  "modules: {hidden: {}}\n",
		"[b].yml":      "modules: {brackets: {}}\n",
		"sub/x.yml":    "modules: {sub: {}}\n",
	})
	for link, to := range map[string]string{"..data": "..2026", "a.yml": filepath.Join("..data", "a.yml")} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Skipf("no symbolic links here: %v", err)
		}
	}
	for glob, want := range map[string][]string{
		"*":       {"brackets", "rtt"},
		"a*.yml":  {"rtt"},
		".h*":     {"hidden"},
		"[b].yml": {"brackets"}, // exists, so it is no glob
		"*/*.yml": {"sub"},
		"../*/a*": {"rtt"},
	} {
		c, err := Load([]string{dir + "/" + glob})
		if err != nil {
			t.Errorf("%s: %v", glob, err)
			continue
		}
		if got := c.ModuleNames(); !slices.Equal(got, want) {
			t.Errorf("%s: modules are %v, want %v", glob, got, want)
		}
	}
	// The same file by two ways is read once.
	c := load(t, filepath.Join(dir, "a.yml"), filepath.Join(dir, "*"), filepath.Join(dir, ".", "a.yml"))
	if got := c.ModuleNames(); !slices.Equal(got, []string{"brackets", "rtt"}) {
		t.Errorf("modules are %v", got)
	}
}

// TestUnreadable: whatever is wrong with the files themselves is told for all of
// them at once, beside the mistakes in those that can be read.
func TestUnreadable(t *testing.T) {
	dir := write(t, map[string]string{
		"bad.yml":   "modules: {rtt: {size: 1}}\n",
		"large.yml": "modules: {rtt: {}}\n" + strings.Repeat("#\n", MaxFileSize/2),
	})
	paths := []string{"missing.yml", "none-*.yml", "[", "", "bad.yml", "large.yml"}
	for i, p := range paths {
		paths[i] = filepath.Join(dir, p) // the fourth is the folder itself
	}
	_, err := Load(paths)
	var mistakes Errors
	if !errors.As(err, &mistakes) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{
		"missing.yml: cannot be read: no such file or directory",
		"none-*.yml: no file matches this glob",
		"[: is not a valid glob",
		dir + ": is a directory; a glob such as " + filepath.Join(dir, "*.yml"),
		"bad.yml:1: modules.rtt.size: 1: must be",
		"large.yml: the file is larger than 1048576 bytes",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
	if len(mistakes) != len(paths) {
		t.Errorf("%d mistakes:\n%v", len(mistakes), err)
	}
}

// TestLargestFile: a file of exactly the largest size is read.
func TestLargestFile(t *testing.T) {
	text := "modules: {rtt: {}}\n"
	text += "#" + strings.Repeat("x", MaxFileSize-len(text)-1)
	if _, err := Parse("x", []byte(text)); err != nil {
		t.Error(err)
	}
	if _, err := Parse("x", []byte(text+"x")); err == nil {
		t.Error("one byte more is accepted")
	}
}
