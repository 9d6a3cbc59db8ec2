package config

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

func load(t *testing.T, paths ...string) *Config {
	t.Helper()
	c, err := Load(paths)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEverything(t *testing.T) {
	got := load(t, "testdata/good/everything.yml")
	want := &Config{
		AllowedTargets: AllowedTargets{
			Networks: []netip.Prefix{
				netip.MustParsePrefix("10.0.0.0/8"),
				netip.MustParsePrefix("192.0.2.1/32"),
				netip.MustParsePrefix("198.51.100.0/24"),
				netip.MustParsePrefix("2001:db8::1/128"),
				netip.MustParsePrefix("fd00::/8"),
			},
			Ports: []uint16{5001, 5003, 5010, 5011, 5012},
		},
		Limits: Limits{MaxConcurrentProbes: 1, MaxPerTarget: 2, MaxWaiting: 3, MaxDrains: 4},
		Modules: map[string]*Module{"all.of-it_1": {
			Name:      "all.of-it_1",
			Size:      68,
			ReplySize: 131072,
			Hold:      1500 * time.Microsecond,
			Period:    20 * time.Millisecond,
			Burst:     5,
			Duration:  90 * time.Second,
			Count:     100000,
			QuickAck:  false,
			TripTimes: true,
			Congest: &Congest{
				Direction:         "up",
				Streams:           64,
				Baseline:          0,
				Warmup:            0,
				MinInterval:       24 * time.Hour,
				CongestionControl: "bbr",
				DSCP:              1,
			},
			Timeout:             time.Hour,
			PreferredIPProtocol: "ip4",
			IPProtocolFallback:  false,
			SourceAddress:       netip.MustParseAddr("192.0.2.7"),
			Interface:           "eth0.100",
			DSCP:                63,
			CongestionControl:   "reno",
			Histograms: Histograms{
				BucketFactor:          1.003,
				AsymmetryBucketFactor: 2,
				MaxBuckets:            1000,
				ClassicBuckets:        []float64{0.001, 0.5, 1, 2.5},
			},
		}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\n     %+v\nwant %+v\n     %+v", got, got.Modules["all.of-it_1"], want, want.Modules["all.of-it_1"])
	}
}

func TestMergeKeys(t *testing.T) {
	m := load(t, "testdata/good/merge.yml").Modules
	if len(m) != 4 {
		t.Fatalf("%d modules", len(m))
	}
	for name, period := range map[string]time.Duration{"rtt": 20, "owd": 50, "load": 20, "same": 20} {
		if got := m[name]; got.Period != period*time.Millisecond || got.DSCP != 34 || got.Name != name {
			t.Errorf("%s: name %s, period %s, dscp %d", name, got.Name, got.Period, got.DSCP)
		}
	}
	if m["rtt"].TripTimes || !m["owd"].TripTimes || m["load"].Congest == nil || m["same"].Congest != nil {
		t.Error("what a module says itself is lost, or went into another")
	}
}

// TestDefaults pins the defaults that users were told.
func TestDefaults(t *testing.T) {
	want := &Module{
		Name: "bounceback", Size: 100, Burst: 1, Duration: 2 * time.Second, Count: 1000, QuickAck: true,
		Timeout: 10 * time.Second, PreferredIPProtocol: "ip6", IPProtocolFallback: true,
		Histograms: Histograms{
			BucketFactor: 1.05, AsymmetryBucketFactor: 1.1, MaxBuckets: 256,
			ClassicBuckets: []float64{5e-05, 1e-04, 2e-04, 5e-04, 1e-03, 2e-03, 5e-03, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2},
			AsymmetryClassicBuckets: []float64{
				-0.1, -0.05, -0.02, -0.01, -5e-03, -2e-03, -1e-03, -5e-04, -2e-04, -1e-04, 0,
				1e-04, 2e-04, 5e-04, 1e-03, 2e-03, 5e-03, 0.01, 0.02, 0.05, 0.1,
			},
		},
	}
	limits := Limits{MaxConcurrentProbes: 100, MaxPerTarget: 10, MaxWaiting: 200, MaxDrains: 200}
	builtIn := load(t)
	parsed, err := Parse("x", []byte("modules: {bounceback: {}}"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]*Config{"built in": builtIn, "empty module": parsed} {
		if got := c.Modules["bounceback"]; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got  %+v\nwant %+v", name, got, want)
		}
		if c.Limits != limits || !c.AllowedTargets.Empty() || len(c.Modules) != 1 {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func TestCongestDefaults(t *testing.T) {
	want := Congest{Direction: "both", Streams: 1, Baseline: time.Second, Warmup: 500 * time.Millisecond, MinInterval: 5 * time.Minute}
	for _, text := range []string{"true", "{}"} {
		c, err := Parse("x", []byte("allowed_targets: {networks: [10.0.0.1]}\nmodules: {a: {congest: "+text+"}}"))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Modules["a"].Congest; got == nil || *got != want {
			t.Errorf("congest: %s is %+v", text, got)
		}
	}
	c, err := Parse("x", []byte("modules: {a: {congest: false}}"))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Modules["a"].Congest; got != nil {
		t.Errorf("congest: false is %+v", got)
	}
}

// TestWhatEndsATest is the rule over duration and count.
func TestWhatEndsATest(t *testing.T) {
	for _, c := range []struct {
		text     string
		duration time.Duration
		count    int
	}{
		{"{}", 2 * time.Second, 1000},
		{"{duration: 5s}", 5 * time.Second, 100000},
		{"{count: 7}", 0, 7},
		{"{duration: 5s, count: 7}", 5 * time.Second, 7},
		{"{duration: 0, count: 7}", 0, 7},
		{"{congest: true}", 2 * time.Second, 100000},
		{"{congest: true, count: 7}", 2 * time.Second, 7},
		{"{congest: true, duration: 5s}", 5 * time.Second, 100000},
		{"{congest: true, duration: 5s, count: 7}", 5 * time.Second, 7},
		{"{congest: false, count: 7}", 0, 7},
	} {
		got, err := Parse("x", []byte("allowed_targets: {networks: [10.0.0.1]}\nmodules: {a: "+c.text+"}"))
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if m := got.Modules["a"]; m.Duration != c.duration || m.Count != c.count {
			t.Errorf("%s: duration %s, count %d; want %s, %d", c.text, m.Duration, m.Count, c.duration, c.count)
		}
	}
}

// TestJustPossible has values at the very edge of the rules that testdata/bad
// breaks.
func TestJustPossible(t *testing.T) {
	for _, text := range []string{
		"{size: 68}", "{size: 131072}", "{reply_size: 64}", "{reply_size: 0}",
		"{duration: 10s}", "{timeout: 2s}",
		"{period: 100ms, count: 100}", "{period: 1s, burst: 10, count: 100}", "{hold: 100ms, count: 100}",
		"{hold: 9999ms}", "{period: 10s, count: 1}", "{hold: 10ms, burst: 2, period: 20ms}",
		"{period: 1s, burst: 1000}", "{period: 100us}",
		"{source_address: 192.0.2.1, preferred_ip_protocol: ip6}",
		"{source_address: 'fe80::1%eth0', ip_protocol_fallback: false}",
		"{interface: abcdefghijklmno}", "{congestion_control: abcdefghijklmno}",
		"{congest: true, duration: 8500ms}",
		"{congest: {baseline: 0, warmup: 0}, duration: 10s}",
		"{congest: {min_interval: 0}}", "{congest: {min_interval: 1w}}",
		"{histograms: {max_buckets: 16, bucket_factor: 2.0}}",
	} {
		if _, err := Parse("x", []byte("allowed_targets: {networks: [10.0.0.1]}\nmodules: {a: "+text+"}")); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestSourceAddressChoosesFamily: an address can only be used in its own family,
// so that is the one to prefer unless the module says otherwise.
func TestSourceAddressChoosesFamily(t *testing.T) {
	for text, want := range map[string]string{
		"{}":                              "ip6",
		"{source_address: 192.0.2.1}":     "ip4",
		"{source_address: '2001:db8::1'}": "ip6",
		"{source_address: ''}":            "ip6",
		"{source_address: 192.0.2.1, preferred_ip_protocol: ip6}": "ip6",
	} {
		c, err := Parse("x", []byte("modules: {a: "+text+"}"))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Modules["a"].PreferredIPProtocol; got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
}

// TestExamples loads what users are told to begin with.
func TestExamples(t *testing.T) {
	c := load(t, filepath.Join("..", "examples", "bounceback.yml"))
	m := c.Modules["rtt"]
	if m == nil || m.Period != 20*time.Millisecond || m.Duration != 2*time.Second || m.Congest != nil {
		t.Errorf("the module to be recommended for monitoring is %+v", m)
	}
	if c.AllowedTargets.Empty() {
		t.Error("the example lets everybody probe everything")
	}
}

func TestModuleNames(t *testing.T) {
	c, err := Parse("x", []byte("modules: {b: {}, a: {}, B: {}, a-b: {}}"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.ModuleNames(), []string{"B", "a", "a-b", "b"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// write puts files into a new folder and returns its path.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
