package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bounceback-exporter/bounceback_exporter/config"
)

const mesh = "kubernetes/mesh.yml"

// ofKind is the one document of a kind.
func ofKind(t *testing.T, docs []map[string]any, kind string) map[string]any {
	t.Helper()
	i := slices.IndexFunc(docs, func(d map[string]any) bool { return d["kind"] == kind })
	if i < 0 {
		t.Fatalf("there is no %s", kind)
	}
	return docs[i]
}

// meshConfig is the exporter's configuration inside the ConfigMap.
func meshConfig(t *testing.T) *config.Config {
	t.Helper()
	text, _ := at(ofKind(t, documents(t, mesh), "ConfigMap"), "data", "bounceback.yml").(string)
	cfg, err := config.Parse("bounceback.yml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestMesh(t *testing.T) {
	docs := documents(t, mesh)
	pod := at(ofKind(t, docs, "DaemonSet"), "spec", "template", "spec")
	iperf, exporter := find(at(pod, "containers"), "name", "iperf"), find(at(pod, "containers"), "name", "exporter")

	t.Run("nothing connects to iperf's port but who means it", func(t *testing.T) {
		text, err := os.ReadFile(mesh)
		if err != nil {
			t.Fatal(err)
		}
		if regexp.MustCompile(`(?m)^[^#]*tcpSocket`).Match(text) {
			t.Error("a tcpSocket probe: it damages an iperf 2.1.8 server")
		}
		for _, probe := range []string{"livenessProbe", "readinessProbe", "startupProbe"} {
			if at(iperf, probe) != nil {
				t.Errorf("the iperf container has a %s", probe)
			}
		}
	})
	t.Run("the exporter", func(t *testing.T) {
		for probe, path := range map[string]string{"livenessProbe": "/-/healthy", "readinessProbe": "/-/ready"} {
			if got := at(exporter, probe, "httpGet", "path"); got != path {
				t.Errorf("%s asks %v, want %s", probe, got, path)
			}
		}
		if at(exporter, "ports", 0, "containerPort") != 10501 {
			t.Error("the exporter's port is not 10501")
		}
		text, _ := at(ofKind(t, docs, "ConfigMap"), "data", "bounceback.yml").(string)
		file := filepath.Join(t.TempDir(), "bounceback.yml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		dir, _ := find(at(exporter, "volumeMounts"), "name", "config").(map[string]any)["mountPath"].(string)
		checkArgs(t, texts(at(exporter, "args")), map[string]string{dir + "/bounceback.yml": file})
	})
	t.Run("it may probe the pods' network and nothing else", func(t *testing.T) {
		allowed := meshConfig(t).AllowedTargets
		if len(allowed.Networks) == 0 || !slices.Equal(allowed.Ports, []uint16{5001}) {
			t.Errorf("allowed_targets is %+v", allowed)
		}
	})
	t.Run("a stop is given its time", func(t *testing.T) {
		if s, _ := at(pod, "terminationGracePeriodSeconds").(int); s < 30 {
			t.Errorf("%d s, and an orderly stop may take 28", s)
		}
	})
	t.Run("confined", func(t *testing.T) {
		for _, c := range []any{iperf, exporter} {
			ctx := at(c, "securityContext")
			if at(ctx, "allowPrivilegeEscalation") != false || at(ctx, "readOnlyRootFilesystem") != true ||
				at(ctx, "capabilities", "drop", 0) != "ALL" {
				t.Errorf("%v: %v", at(c, "name"), ctx)
			}
			if at(c, "resources", "limits", "cpu") != nil {
				t.Errorf("%v has a CPU limit: throttling is latency", at(c, "name"))
			}
		}
		if at(pod, "securityContext", "runAsNonRoot") != true {
			t.Error("the pod may run as root")
		}
	})
	t.Run("network policy", func(t *testing.T) {
		policy := ofKind(t, docs, "NetworkPolicy")
		labels := at(ofKind(t, docs, "DaemonSet"), "spec", "template", "metadata", "labels", "app.kubernetes.io/name")
		if got := at(policy, "spec", "podSelector", "matchLabels", "app.kubernetes.io/name"); got != labels {
			t.Errorf("it selects %v, the pods are %v", got, labels)
		}
		for i, port := range []int{5001, 10501} {
			rule := at(policy, "spec", "ingress", i)
			if at(rule, "ports", 0, "port") != port || len(list(at(rule, "from"))) == 0 {
				t.Errorf("ingress rule %d is not for port %d from somebody named: %v", i, port, rule)
			}
		}
	})
}

func TestCompose(t *testing.T) {
	doc := documents(t, "compose/compose.yml")[0]
	services, _ := doc["services"].(map[string]any)
	for name, s := range services {
		for _, v := range texts(at(s, "volumes")) {
			host, _, _ := strings.Cut(v, ":")
			if _, err := os.Stat(filepath.Join("compose", host)); err != nil {
				t.Errorf("%s mounts %s, which is not there", name, host)
			}
		}
		for _, p := range texts(at(s, "ports")) {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s publishes %s to everybody", name, p)
			}
		}
	}
	if at(services, "iperf", "healthcheck") != nil {
		t.Error("iperf has a health check")
	}
	if _, err := os.Stat(filepath.Join("compose", at(services, "exporter", "build").(string), "Dockerfile")); err != nil {
		t.Error(err)
	}
	checkArgs(t, texts(at(services, "exporter", "command")),
		map[string]string{"/etc/bounceback_exporter/bounceback.yml": "compose/bounceback.yml"})
}

const unit = "systemd/bounceback_exporter.service"

func TestSystemd(t *testing.T) {
	data, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	start := regexp.MustCompile(`(?m)^ExecStart=(\S+) (.*)$`).FindStringSubmatch(string(data))
	if start == nil {
		t.Fatal("no ExecStart")
	}
	checkArgs(t, strings.Fields(start[2]),
		map[string]string{"/etc/bounceback_exporter/bounceback.yml": "bounceback.yml"})

	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("needs systemd-analyze for the rest")
	}
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	// The unit as it is, but for the place of the binary, which has to exist.
	here := filepath.Join(t.TempDir(), filepath.Base(unit))
	if err := os.WriteFile(here, []byte(strings.Replace(string(data), start[1], path, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("systemd-analyze", "verify", here).CombinedOutput()
	if err != nil || strings.Contains(string(out), filepath.Base(unit)) {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
