package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const modulePath = "github.com/bounceback-exporter/bounceback_exporter"

// mayImport is the architecture: which rooms a room may import. Data flows one
// way, from the request to its rendering, and the rooms at the bottom are pure.
func mayImport() map[string][]string {
	return map[string][]string{
		"":                  {"config", "prober", "prober/peers", "collector", "report", "web", "responder"},
		"web":               {"config", "prober", "prober/peers", "collector", "report"},
		"collector":         {"prober", "prober/stats", "config"},
		"report":            {"prober", "prober/stats", "config"},
		"prober":            {"prober/wire", "prober/stats", "prober/peers", "config"},
		"responder":         {"prober/wire"},
		"prober/fakeserver": {"prober/wire"},
		"config":            {},
		"prober/wire":       {},
		"prober/stats":      {},
		"prober/peers":      {},
	}
}

func goList(t *testing.T, args ...string) []string {
	t.Helper()
	out, err := exec.Command("go", append([]string{"list"}, args...)...).Output()
	if err != nil {
		t.Fatalf("go list %v: %v", args, err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

func TestRoomsImportOnlyWhatTheyMay(t *testing.T) {
	rules := mayImport()
	for _, line := range goList(t, "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...") {
		pkg, imports, _ := strings.Cut(line, " ")
		room := strings.TrimPrefix(strings.TrimPrefix(pkg, modulePath), "/")
		allowed, ruled := rules[room]
		delete(rules, room)
		if !ruled {
			if !strings.HasPrefix(room, "internal/") && !strings.HasPrefix(room, "bench") && room != "examples" {
				t.Errorf("room %q has no rule: say in this test what it may import", room)
			}
			continue
		}
		for imp := range strings.FieldsSeq(imports) {
			ours, isOurs := strings.CutPrefix(imp, modulePath+"/")
			if isOurs && !slices.Contains(allowed, ours) {
				t.Errorf("%q imports %q, which its room may not", room, ours)
			}
		}
	}
	for room := range rules {
		t.Errorf("the rule for room %q is for nobody", room)
	}
}

// The measuring rooms are a library without Prometheus in it.
func TestProberIsFreeOfPrometheus(t *testing.T) {
	for _, dep := range goList(t, "-deps", "./prober/...", "./config") {
		if strings.Contains(dep, "prometheus") {
			t.Errorf("prober or config depends on %s", dep)
		}
	}
}
