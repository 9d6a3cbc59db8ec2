package config

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// TestDocs: docs/CONFIGURATION.md has every key there is and no key that isn't,
// and every configuration in it can be loaded.
func TestDocs(t *testing.T) {
	data, err := os.ReadFile("../docs/CONFIGURATION.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)

	documented := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(text, -1) {
		documented[row[1]] = true
	}
	known := map[string]bool{}
	c := load(t, "testdata/good/everything.yml")
	rendered, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	var root yaml.Node
	if err := yaml.Unmarshal(rendered, &root); err != nil {
		t.Fatal(err)
	}
	keysOf(root.Content[0], known)
	for _, section := range []string{"allowed_targets", "limits", "modules", "congest", "histograms", "all.of-it_1"} {
		if !known[section] {
			t.Errorf("%s is not rendered", section)
		}
		if section != "all.of-it_1" && !strings.Contains(text, "`"+section) {
			t.Errorf("%s is not documented", section)
		}
		delete(known, section)
	}
	for key := range known {
		if !documented[key] {
			t.Errorf("%s is not documented", key)
		}
	}
	for key := range documented {
		if !known[key] {
			t.Errorf("%s is documented and does not exist", key)
		}
	}

	blocks := strings.Split(text, "```yaml\n")[1:]
	if len(blocks) < 5 {
		t.Errorf("only %d configurations were found", len(blocks))
	}
	for _, b := range blocks {
		b, _, _ = strings.Cut(b, "```")
		if _, err := Parse("CONFIGURATION.md", []byte(b)); err != nil {
			t.Errorf("%v\n%s", err, b)
		}
	}
}

func keysOf(n *yaml.Node, out map[string]bool) {
	if n.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i < len(n.Content); i += 2 {
		out[n.Content[i].Value] = true
		keysOf(n.Content[i+1], out)
	}
}
