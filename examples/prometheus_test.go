package examples

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/config"
)

// scrapes are the Prometheus configurations and the exporter's that they use.
func scrapes() map[string]string {
	return map[string]string{
		"prometheus/prometheus.yml": "bounceback.yml",
		"compose/prometheus.yml":    "compose/bounceback.yml",
		"kubernetes/prometheus.yml": "", // its modules are in a ConfigMap
	}
}

func TestPrometheusConfigs(t *testing.T) {
	for path, modules := range scrapes() {
		t.Run(path, func(t *testing.T) {
			doc := documents(t, path)[0]
			if at(doc, "global", "scrape_native_histograms") != true {
				t.Error("native histograms are not scraped")
			}
			cfg := meshConfig(t)
			if modules != "" {
				var err error
				if cfg, err = config.Load([]string{modules}); err != nil {
					t.Fatal(err)
				}
			}
			for _, job := range list(at(doc, "scrape_configs")) {
				checkJob(t, job, cfg)
			}
			for _, rules := range texts(at(doc, "rule_files")) {
				if found, _ := filepath.Glob(filepath.Join(filepath.Dir(path), rules)); len(found) == 0 {
					t.Errorf("rule file %s does not exist", rules)
				}
			}
		})
	}
}

// checkJob holds a scrape job against the modules that it uses.
func checkJob(t *testing.T, job any, cfg *config.Config) {
	t.Helper()
	name := at(job, "job_name")
	if at(job, "metrics_path") != "/probe" {
		return
	}
	module, _ := at(job, "params", "module", 0).(string)
	m, ok := cfg.Modules[module]
	if !ok {
		t.Errorf("job %s uses module %q; there are %v", name, module, cfg.ModuleNames())
		return
	}
	timeout := 10 * time.Second // Prometheus' default
	if s, ok := at(job, "scrape_timeout").(string); ok {
		timeout, _ = time.ParseDuration(s)
	}
	need := m.Duration
	if c := m.Congest; c != nil {
		need += c.Baseline + c.Warmup
	}
	// Half a second is subtracted by the exporter; connecting takes its part too.
	if need+2*time.Second > timeout {
		t.Errorf("job %s gives %s to a test of %s", name, timeout, need)
	}
	// Without these all targets would share one instance, or be scraped themselves.
	for _, label := range []string{"instance", "module"} {
		if find(at(job, "relabel_configs"), "target_label", label) == nil {
			t.Errorf("job %s does not set %s", name, label)
		}
	}
}

func TestPromtoolAcceptsConfigs(t *testing.T) {
	for path := range scrapes() {
		t.Run(path, func(t *testing.T) { promtool(t, "check", "config", path) })
	}
}

func TestPromtoolAcceptsRules(t *testing.T) {
	rules, _ := filepath.Glob("prometheus/rules/*.rules.yml")
	tests, _ := filepath.Glob("prometheus/rules/*_test.yml")
	if len(rules) == 0 || len(tests) == 0 {
		t.Fatalf("%d files of rules, %d of tests", len(rules), len(tests))
	}
	for _, path := range rules {
		t.Run(path, func(t *testing.T) { promtool(t, "check", "rules", "--lint=all", "--lint-fatal", path) })
	}
	for _, path := range tests {
		t.Run(path, func(t *testing.T) { promtool(t, "test", "rules", path) })
	}
}

func TestExporterConfig(t *testing.T) {
	checkArgs(t, []string{"--config.file=bounceback.yml"}, nil)
}
