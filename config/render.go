package config

import (
	"bytes"
	"net/netip"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// The views are the file's form of a configuration: what YAML writes is what Load
// reads.
type (
	configView struct {
		AllowedTargets *allowedView           `yaml:"allowed_targets,omitempty"`
		Limits         limitsView             `yaml:"limits"`
		Modules        map[string]*moduleView `yaml:"modules"`
	}
	allowedView struct {
		Networks []string `yaml:"networks,omitempty,flow"`
		Ports    []any    `yaml:"ports,omitempty,flow"`
	}
	limitsView struct {
		MaxConcurrentProbes int `yaml:"max_concurrent_probes"`
		MaxPerTarget        int `yaml:"max_per_target"`
		MaxWaiting          int `yaml:"max_waiting"`
		MaxDrains           int `yaml:"max_drains"`
	}
	moduleView struct {
		Size                int            `yaml:"size"`
		ReplySize           int            `yaml:"reply_size"`
		Hold                string         `yaml:"hold"`
		Period              string         `yaml:"period"`
		Burst               int            `yaml:"burst"`
		Duration            string         `yaml:"duration"`
		Count               int            `yaml:"count"`
		QuickAck            bool           `yaml:"quickack"`
		TripTimes           bool           `yaml:"trip_times"`
		Congest             any            `yaml:"congest"` // false or *congestView
		Timeout             string         `yaml:"timeout"`
		PreferredIPProtocol string         `yaml:"preferred_ip_protocol"`
		IPProtocolFallback  bool           `yaml:"ip_protocol_fallback"`
		SourceAddress       string         `yaml:"source_address"`
		Interface           string         `yaml:"interface"`
		DSCP                uint8          `yaml:"dscp"`
		CongestionControl   string         `yaml:"congestion_control"`
		Histograms          histogramsView `yaml:"histograms"`
	}
	congestView struct {
		Direction         string `yaml:"direction"`
		Streams           int    `yaml:"streams"`
		Baseline          string `yaml:"baseline"`
		Warmup            string `yaml:"warmup"`
		MinInterval       string `yaml:"min_interval"`
		CongestionControl string `yaml:"congestion_control"`
		DSCP              uint8  `yaml:"dscp"`
	}
	histogramsView struct {
		BucketFactor            float64   `yaml:"bucket_factor"`
		AsymmetryBucketFactor   float64   `yaml:"asymmetry_bucket_factor"`
		MaxBuckets              int       `yaml:"max_buckets"`
		ClassicBuckets          []float64 `yaml:"classic_buckets,flow"`
		AsymmetryClassicBuckets []float64 `yaml:"asymmetry_classic_buckets,flow"`
	}
)

// YAML is the effective configuration with every default filled in. It can be
// loaded, and then is the same configuration. There are no secrets in it.
func (c *Config) YAML() ([]byte, error) {
	view := configView{
		Limits:  limitsView(c.Limits),
		Modules: make(map[string]*moduleView, len(c.Modules)),
	}
	if !c.AllowedTargets.Empty() {
		view.AllowedTargets = &allowedView{
			Networks: networkTexts(c.AllowedTargets.Networks),
			Ports:    portRanges(c.AllowedTargets.Ports),
		}
	}
	for name, m := range c.Modules {
		view.Modules[name] = viewOf(m)
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(view); err != nil {
		return nil, err
	}
	if err := enc.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func viewOf(m *Module) *moduleView {
	v := &moduleView{
		Size:                m.Size,
		ReplySize:           m.ReplySize,
		Hold:                formatDuration(m.Hold),
		Period:              formatDuration(m.Period),
		Burst:               m.Burst,
		Duration:            formatDuration(m.Duration),
		Count:               m.Count,
		QuickAck:            m.QuickAck,
		TripTimes:           m.TripTimes,
		Congest:             false,
		Timeout:             formatDuration(m.Timeout),
		PreferredIPProtocol: m.PreferredIPProtocol,
		IPProtocolFallback:  m.IPProtocolFallback,
		Interface:           m.Interface,
		DSCP:                m.DSCP,
		CongestionControl:   m.CongestionControl,
		Histograms:          histogramsView(m.Histograms),
	}
	if m.SourceAddress.IsValid() {
		v.SourceAddress = m.SourceAddress.String()
	}
	if c := m.Congest; c != nil {
		v.Congest = &congestView{
			Direction:         c.Direction,
			Streams:           c.Streams,
			Baseline:          formatDuration(c.Baseline),
			Warmup:            formatDuration(c.Warmup),
			MinInterval:       formatDuration(c.MinInterval),
			CongestionControl: c.CongestionControl,
			DSCP:              c.DSCP,
		}
	}
	return v
}

func networkTexts(networks []netip.Prefix) []string {
	out := make([]string, len(networks))
	for i, n := range networks {
		out[i] = n.String()
	}
	return out
}

// portRanges writes ports that follow each other as a range; ports are sorted.
func portRanges(ports []uint16) []any {
	var out []any
	for i := 0; i < len(ports); {
		j := i
		for j+1 < len(ports) && ports[j+1] == ports[j]+1 {
			j++
		}
		if i == j {
			out = append(out, int(ports[i]))
		} else {
			out = append(out, strings.Join([]string{strconv.Itoa(int(ports[i])), strconv.Itoa(int(ports[j]))}, "-"))
		}
		i = j + 1
	}
	return out
}
