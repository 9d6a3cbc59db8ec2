package report

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bounceback-exporter/bounceback_exporter/prober"
)

func TestGolden(t *testing.T) {
	forms := []struct {
		name  string
		only  string // fixture; "": all
		write func(io.Writer, *prober.Result, Options) error
		o     Options
	}{
		{"txt", "", Text, Options{Log: true}},
		{"json", "", JSON, Options{}},
		{"raw.jsonl", "closedearly", Raw, Options{}},
		{"raw.jsonl", "nokernel", Raw, Options{}},
		{"hidden.txt", "resolve", Text, Options{HideIPs: true, Log: true}},
		{"hidden.txt", "refused", Text, Options{HideIPs: true, Log: true}},
		{"hidden.txt", "ipv6period", Text, Options{HideIPs: true, Log: true, OmitRows: true}},
		{"hidden.json", "refused", JSON, Options{HideIPs: true}},
		{"hidden.raw.jsonl", "closedearly", Raw, Options{HideIPs: true}},
		{"ascii.txt", "triptimes", Text, Options{ASCII: true, Width: 60}},
		{"wide.txt", "load", Text, Options{Width: 120, Color: true}},
	}
	for _, f := range forms {
		for name, r := range fixtures() {
			if f.only != "" && f.only != name {
				continue
			}
			file := name + "." + f.name
			t.Run(file, func(t *testing.T) {
				var b bytes.Buffer
				if err := f.write(&b, r, f.o); err != nil {
					t.Fatal(err)
				}
				compareGolden(t, file, b.Bytes())
			})
		}
	}
}

// compareGolden compares with a file in testdata; go test -update writes it.
func compareGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (-want +got); go test -update accepts it:\n%s", path, diff)
	}
}

func TestMain(m *testing.M) {
	flag.Bool("update", false, "write the golden files in testdata")
	os.Exit(m.Run())
}
