package config

import (
	"fmt"
	"time"

	"gopkg.in/yaml.v3"
)

// module reads one module, fills its defaults and applies the rules over several
// keys.
func (d *decoder) module(n *yaml.Node, key, name string) located {
	m := DefaultModule(name)
	boolean := func(dst *bool) func(*yaml.Node, string) {
		return func(v *yaml.Node, key string) { d.boolean(v, key, dst) }
	}
	s := d.section(n, key, []field{
		{"size", func(v *yaml.Node, key string) { d.integer(v, key, &m.Size, MinSize, MaxSize, "bytes") }},
		{"reply_size", func(v *yaml.Node, key string) { d.replySize(v, key, &m.ReplySize) }},
		{"hold", func(v *yaml.Node, key string) {
			d.duration(v, key, &m.Hold, time.Microsecond, MaxTimeout, true)
		}},
		{"period", func(v *yaml.Node, key string) { d.duration(v, key, &m.Period, MinPeriod, MaxTimeout, true) }},
		{"burst", func(v *yaml.Node, key string) { d.integer(v, key, &m.Burst, 1, MaxCount, "") }},
		{"duration", func(v *yaml.Node, key string) { d.duration(v, key, &m.Duration, MinTimeout, MaxTimeout, true) }},
		{"count", func(v *yaml.Node, key string) { d.integer(v, key, &m.Count, 1, MaxCount, "bounces") }},
		{"quickack", boolean(&m.QuickAck)},
		{"trip_times", boolean(&m.TripTimes)},
		{"congest", func(v *yaml.Node, key string) { m.Congest = d.congest(v, key) }},
		{"timeout", func(v *yaml.Node, key string) { d.duration(v, key, &m.Timeout, MinTimeout, MaxTimeout, false) }},
		{"preferred_ip_protocol", func(v *yaml.Node, key string) { d.choice(v, key, &m.PreferredIPProtocol, "ip4", "ip6") }},
		{"ip_protocol_fallback", boolean(&m.IPProtocolFallback)},
		{"source_address", func(v *yaml.Node, key string) { d.source(v, key, &m.SourceAddress) }},
		{"interface", func(v *yaml.Node, key string) { d.iface(v, key, &m.Interface) }},
		{"dscp", func(v *yaml.Node, key string) { d.dscp(v, key, &m.DSCP) }},
		{"congestion_control", func(v *yaml.Node, key string) { d.congestionControl(v, key, &m.CongestionControl) }},
		{"histograms", func(v *yaml.Node, key string) { d.histograms(v, key, &m.Histograms) }},
	})
	s.fillDefaults(m)
	s.checkRules(m)
	return located{module: m, congestLine: s.lines["congest"]}
}

// replySize reads 0, which stands for the request's size, or a size of its own.
func (d *decoder) replySize(n *yaml.Node, key string, dst *int) {
	if v, ok := d.plain(n, key); !ok || !quoted(v) && v.Value == "0" {
		return
	}
	before := len(d.ledger.list)
	d.integer(n, key, dst, MinReplySize, MaxSize, "bytes")
	if after := d.ledger.list[before:]; len(after) > 0 {
		after[0].Message = fmt.Sprintf("must be 0 (as the request), or a whole number of bytes from %d to %d", MinReplySize, MaxSize)
	}
}

// congest reads true, false or a mapping; nil is no load.
func (d *decoder) congest(n *yaml.Node, key string) *Congest {
	n, ok := d.plain(n, key)
	if !ok {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		on := false
		before := len(d.ledger.list)
		d.boolean(n, key, &on)
		if after := d.ledger.list[before:]; len(after) > 0 {
			after[0].Message = "must be true, false, or a mapping" + meantBool(n)
		}
		if !on {
			return nil
		}
		return DefaultCongest()
	}
	c := DefaultCongest()
	d.section(n, key, []field{
		{"direction", func(v *yaml.Node, key string) { d.choice(v, key, &c.Direction, "up", "down", "both") }},
		{"streams", func(v *yaml.Node, key string) { d.integer(v, key, &c.Streams, 1, MaxStreams, "") }},
		{"baseline", func(v *yaml.Node, key string) { d.duration(v, key, &c.Baseline, MinTimeout, MaxTimeout, true) }},
		{"warmup", func(v *yaml.Node, key string) { d.duration(v, key, &c.Warmup, MinTimeout, MaxTimeout, true) }},
		{"min_interval", func(v *yaml.Node, key string) {
			d.duration(v, key, &c.MinInterval, MinTimeout, MaxMinInterval, true)
		}},
		{"congestion_control", func(v *yaml.Node, key string) { d.congestionControl(v, key, &c.CongestionControl) }},
		{"dscp", func(v *yaml.Node, key string) { d.dscp(v, key, &c.DSCP) }},
	})
	return c
}

func (d *decoder) histograms(n *yaml.Node, key string, h *Histograms) {
	d.section(n, key, []field{
		{"bucket_factor", func(v *yaml.Node, key string) { d.factor(v, key, &h.BucketFactor) }},
		{"asymmetry_bucket_factor", func(v *yaml.Node, key string) { d.factor(v, key, &h.AsymmetryBucketFactor) }},
		{"max_buckets", func(v *yaml.Node, key string) {
			d.integer(v, key, &h.MaxBuckets, MinMaxBuckets, MaxMaxBuckets, "")
		}},
		{"classic_buckets", func(v *yaml.Node, key string) { d.buckets(v, key, &h.ClassicBuckets, false) }},
		{"asymmetry_classic_buckets", func(v *yaml.Node, key string) { d.buckets(v, key, &h.AsymmetryClassicBuckets, true) }},
	})
}

// buckets reads upper bounds in seconds, each above the one before; +Inf is
// always there and not in the list. [] is native only.
func (d *decoder) buckets(n *yaml.Node, key string, dst *[]float64, signed bool) {
	want := "a number of seconds above 0, such as 0.001"
	if signed {
		want = "a number of seconds, such as -0.001"
	}
	var out []float64
	d.list(n, key, MaxClassicBuckets, func(v *yaml.Node, key string) {
		f, ok := d.number(v, key, want)
		switch {
		case !ok:
		case f <= 0 && !signed:
			d.at(v, key, "must be "+want)
		case len(out) > 0 && f <= out[len(out)-1]:
			d.at(v, key, fmt.Sprintf("must be above the bound before it, %v", out[len(out)-1]))
		default:
			out = append(out, f)
		}
	})
	*dst = out
}
