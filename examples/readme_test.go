package examples

import (
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/bounceback-exporter/bounceback_exporter/config"
)

// block is the fenced block of a document that contains a text.
func block(t *testing.T, path, has string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?s)```[a-z]*\n(.*?)```").FindAllStringSubmatch(string(data), -1) {
		if strings.Contains(m[1], has) {
			return m[1]
		}
	}
	t.Fatalf("%s has no block with %q", path, has)
	return ""
}

func TestReadmeConfigs(t *testing.T) {
	cfg, err := config.Parse("README.md", []byte(block(t, "../README.md", "# bounceback.yml")))
	if err != nil {
		t.Fatal(err)
	}
	// What is to be typed by hand works with the file that stands beside it.
	byHand := regexp.MustCompile(`bounceback_exporter probe (\S+) --config\.file bounceback\.yml --module (\S+)`)
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := byHand.FindAllStringSubmatch(string(readme), -1)
	if len(commands) == 0 {
		t.Error("no command by hand with a configuration")
	}
	for _, m := range commands {
		if cfg.Modules[m[2]] == nil {
			t.Errorf("%s: no such module", m[0])
		}
		if err := cfg.AllowedTargets.Check(netip.MustParseAddrPort(m[1])); err != nil {
			t.Errorf("%s: %v", m[0], err)
		}
	}
	prometheus := block(t, "../README.md", "# prometheus.yml")
	var doc map[string]any
	if err := yaml.Unmarshal([]byte(prometheus), &doc); err != nil {
		t.Fatal(err)
	}
	for _, job := range list(at(doc, "scrape_configs")) {
		checkJob(t, job, cfg)
		for _, target := range texts(at(job, "static_configs", 0, "targets")) {
			if !strings.HasPrefix(target, "10.") || !strings.HasSuffix(target, ":5001") {
				t.Errorf("%s is not in the allowed_targets beside it", target)
			}
		}
	}
	if _, err := config.Parse("SECURITY.md", []byte(block(t, "../SECURITY.md", "allowed_targets")+"modules: {x: {}}\n")); err != nil {
		t.Error(err)
	}
	t.Run("promtool", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "prometheus.yml")
		if err := os.WriteFile(file, []byte(prometheus), 0o600); err != nil {
			t.Fatal(err)
		}
		promtool(t, "check", "config", file)
	})
}

// TestReadmeModules holds the modules of the table "coming from iperf 2" against
// the configuration.
func TestReadmeModules(t *testing.T) {
	for _, m := range []string{
		"{period: 1s, burst: 10, duration: 10s, timeout: 15s}",
		"{size: 68}", "{reply_size: 64}", "{quickack: false}", "{trip_times: true}", "{count: 100000, duration: 2s}",
		"{dscp: ef}", "{dscp: 46}", "{congestion_control: cubic}", "{source_address: 192.0.2.1, interface: eth0}",
		"{congest: {direction: up, streams: 4}}", "{congest: {direction: down}}", "{congest: {direction: both}}",
	} {
		text := "allowed_targets: {networks: [10.0.0.0/8]}\nmodules: {x: " + m + "}\n"
		if _, err := config.Parse("README.md", []byte(text)); err != nil {
			t.Errorf("%s: %v", m, err)
		}
	}
}

// TestLinks: every relative link of the documents leads somewhere, down to the
// heading.
func TestLinks(t *testing.T) {
	docs, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	docs = append(docs, "README.md", "../README.md", "../SECURITY.md", "../CHANGELOG.md")
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, doc := range docs {
		data, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(data), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			path, anchor, _ := strings.Cut(m[1], "#")
			target := filepath.Join(filepath.Dir(doc), path)
			if path == "" {
				target = doc
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which is not there", doc, m[1])
				continue
			}
			if anchor != "" && !hasHeading(t, target, anchor) {
				t.Errorf("%s links to %s: no such heading", doc, m[1])
			}
		}
	}
}

// hasHeading tells whether a heading has that anchor, as forges make it.
func hasHeading(t *testing.T, path, anchor string) bool {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	drop := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(data), -1) {
		slug := strings.ReplaceAll(drop.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")
		if slug == anchor {
			return true
		}
	}
	return false
}
