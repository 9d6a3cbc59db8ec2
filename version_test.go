package main

import (
	"os"
	"strings"
	"testing"
)

// The version of an unstamped build is the one that builds of packages have from
// the file.
func TestVersionOfAnUnstampedBuild(t *testing.T) {
	file, err := os.ReadFile("VERSION")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(string(file)); got != unstamped {
		t.Errorf("VERSION has %q, main %q", got, unstamped)
	}
	out, err := programCommand("--version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), program+", version "+unstamped+" ") {
		t.Errorf("%v: %s", err, out)
	}
}
