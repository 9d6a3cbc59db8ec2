package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// scalar is the text of a value that is neither a mapping nor a list.
func (d *decoder) scalar(n *yaml.Node, key, want string) (v *yaml.Node, ok bool) {
	n, ok = d.plain(n, key)
	if ok && n.Kind != yaml.ScalarNode {
		d.at(n, key, "must be "+want)
		ok = false
	}
	return n, ok
}

// quoted tells whether a scalar is text by its quotes (or | or >), whatever it
// looks like.
func quoted(n *yaml.Node) bool { return n.Style != 0 }

// integer reads a whole number from low to high. Only decimal digits are one: YAML
// would also take 0100 for 64, and 1_0 for 10.
func (d *decoder) integer(n *yaml.Node, key string, dst *int, low, high int, unit string) {
	want := fmt.Sprintf("a whole number from %d to %d", low, high)
	if unit != "" {
		want = fmt.Sprintf("a whole number of %s from %d to %d", unit, low, high)
	}
	n, ok := d.scalar(n, key, want)
	if !ok {
		return
	}
	i, err := strconv.Atoi(n.Value)
	switch {
	case quoted(n) && err == nil:
		d.at(n, key, "must be "+want+", without quotes")
	case err != nil || strconv.Itoa(i) != n.Value || i < low || i > high:
		d.at(n, key, "must be "+want)
	default:
		*dst = i
	}
}

// number reads a finite decimal number.
func (d *decoder) number(n *yaml.Node, key, want string) (float64, bool) {
	n, ok := d.scalar(n, key, want)
	if !ok {
		return 0, false
	}
	f, err := strconv.ParseFloat(n.Value, 64)
	switch {
	case quoted(n) && err == nil:
		d.at(n, key, "must be "+want+", without quotes")
		return 0, false
	case err != nil || strings.Trim(n.Value, "0123456789.eE+-") != "" || math.IsInf(f, 0):
		d.at(n, key, "must be "+want)
		return 0, false
	}
	return f, true
}

// factor reads the growth of native buckets.
func (d *decoder) factor(n *yaml.Node, key string, dst *float64) {
	want := fmt.Sprintf("a number from %v to %v", MinBucketFactor, MaxBucketFactor)
	f, ok := d.number(n, key, want)
	if !ok {
		return
	}
	if f < MinBucketFactor || f > MaxBucketFactor {
		d.at(n, key, "must be "+want)
		return
	}
	*dst = f
}

// boolean reads true or false. What YAML 1.1 also took for one (yes, on) is text
// to YAML 1.2; a silent false would be the worst reading of it.
func (d *decoder) boolean(n *yaml.Node, key string, dst *bool) {
	n, ok := d.scalar(n, key, "true or false")
	if !ok {
		return
	}
	if quoted(n) || n.ShortTag() != "!!bool" {
		d.at(n, key, "must be true or false"+meantBool(n))
		return
	}
	*dst = strings.EqualFold(n.Value, "true")
}

func meantBool(n *yaml.Node) string {
	switch strings.ToLower(n.Value) {
	case "yes", "on", "y", "1":
		return "; write true"
	case "no", "off", "n", "0":
		return "; write false"
	case "true", "false":
		return ", without quotes"
	}
	return ""
}

// text reads a string. A number or a boolean without quotes is none.
func (d *decoder) text(n *yaml.Node, key, want string) (string, bool) {
	n, ok := d.scalar(n, key, want)
	if !ok {
		return "", false
	}
	if n.ShortTag() != "!!str" {
		d.at(n, key, "must be "+want+"; text that looks like something else needs quotes")
		return "", false
	}
	return n.Value, true
}

// choice reads one of a few words.
func (d *decoder) choice(n *yaml.Node, key string, dst *string, words ...string) {
	want := "one of " + strings.Join(words, ", ")
	s, ok := d.text(n, key, want)
	if !ok {
		return
	}
	for _, w := range words {
		if s == w {
			*dst = s
			return
		}
	}
	d.at(n, key, "must be "+want)
}

// duration reads a time span from low to high, or 0 where zero says so.
func (d *decoder) duration(n *yaml.Node, key string, dst *time.Duration, low, high time.Duration, zero bool) {
	want := fmt.Sprintf("a duration from %s to %s", formatDuration(low), formatDuration(high))
	if zero {
		want = "0, or " + want
	}
	n, ok := d.scalar(n, key, want)
	if !ok {
		return
	}
	if n.Value == "0" && zero {
		*dst = 0
		return
	}
	v, err := parseDuration(n.Value)
	switch {
	case err != nil && n.Value != "0" && n.Value != "" && strings.Trim(n.Value, "0123456789.") == "":
		d.at(n, key, fmt.Sprintf("must be %s; a unit is missing, write %ss if seconds are meant", want, n.Value))
	case err != nil || v == 0 && !zero || v != 0 && (v < low || v > high):
		d.at(n, key, "must be "+want+", such as 500ms, 1.5s or 1m")
	case v%time.Microsecond != 0:
		d.at(n, key, "must be a whole number of microseconds, the unit of the protocol")
	default:
		*dst = v
	}
}
