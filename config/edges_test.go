package config

import (
	"fmt"
	"strings"
	"testing"
)

// TestListEdges has lists and names of exactly the largest size, and one more.
func TestListEdges(t *testing.T) {
	bounds := make([]string, MaxClassicBuckets)
	for i := range bounds {
		bounds[i] = fmt.Sprint(i + 1)
	}
	networks := make([]string, maxNetworks)
	for i := range networks {
		networks[i] = fmt.Sprintf("10.0.%d.%d", i/256, i%256)
	}
	for _, c := range []struct{ fits, more string }{
		{"modules: {a: {histograms: {classic_buckets: [" + strings.Join(bounds, ", ") + "]}}}",
			"modules: {a: {histograms: {classic_buckets: [" + strings.Join(bounds, ", ") + ", 1000]}}}"},
		{"allowed_targets: {networks: [" + strings.Join(networks, ", ") + "]}\nmodules: {a: {}}",
			"allowed_targets: {networks: [" + strings.Join(networks, ", ") + ", 11.0.0.0]}\nmodules: {a: {}}"},
		{"allowed_targets: {ports: [1-1000, 2001-2024]}\nmodules: {a: {}}", "allowed_targets: {ports: [1-1000, 2001-2025]}\nmodules: {a: {}}"},
		{"modules: {" + strings.Repeat("zZ09-._a", 8) + ": {}}", "modules: {" + strings.Repeat("zZ09-._a", 8) + "b: {}}"},
		{"modules: {a: {source_address: 'fe80::1%abcdefghijklmno'}}", "modules: {a: {source_address: 'fe80::1%abcdefghijklmnop'}}"},
	} {
		if _, err := Parse("x", []byte(c.fits)); err != nil {
			t.Errorf("%.80s: %v", c.fits, err)
		}
		if _, err := Parse("x", []byte(c.more)); err == nil {
			t.Errorf("%.80s: one more is accepted", c.more)
		}
	}
}

// TestNumbersThatAreNone has what Go reads as a number and YAML does not.
func TestNumbersThatAreNone(t *testing.T) {
	for _, s := range []string{"NaN", "Inf", "+Inf", "infinity", "0x1p-2", "0x10", "1_000.0", "1e", "e5", ".", "-", "1.2.3", "1e400"} {
		_, err := Parse("x", []byte("modules: {a: {histograms: {asymmetry_classic_buckets: ["+s+"], bucket_factor: "+s+"}}}"))
		if mistakes, _ := err.(Errors); len(mistakes) != 2 {
			t.Errorf("%s: %v", s, err)
		}
	}
}
