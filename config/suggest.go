package config

import (
	"fmt"
	"strings"
)

// unknownKey says what may have been meant by a key that is not known where it
// stands.
func unknownKey(key string, known []field) string {
	if near := nearest(key, known); near != "" {
		return fmt.Sprintf("unknown key; did you mean %s?", near)
	}
	if home := homeOf(key); home != "" {
		return fmt.Sprintf("unknown key here; it belongs in %s (is the indentation right?)", home)
	}
	names := make([]string, len(known))
	for i, f := range known {
		names[i] = f.name
	}
	return "unknown key; known here: " + strings.Join(names, ", ")
}

// homeOf is the mapping in which a key that is misplaced would be known. Keys
// that are known in several places have no one home.
func homeOf(key string) string {
	switch key {
	case "allowed_targets", "limits", "modules":
		return "the top level of the file"
	case "networks", "ports":
		return "allowed_targets"
	case "max_concurrent_probes", "max_per_target", "max_waiting", "max_drains":
		return "limits"
	case "direction", "streams", "baseline", "warmup", "min_interval":
		return "a module's congest"
	case "bucket_factor", "asymmetry_bucket_factor", "max_buckets", "classic_buckets", "asymmetry_classic_buckets":
		return "a module's histograms"
	case "size", "reply_size", "hold", "period", "burst", "duration", "count", "quickack", "trip_times", "congest",
		"timeout", "preferred_ip_protocol", "ip_protocol_fallback", "source_address", "interface", "histograms":
		return "a module, under modules"
	}
	return ""
}

// nearest is the known key that is at most two edits, and less than half of its
// length, away; "" if there is none.
func nearest(key string, known []field) string {
	key = strings.ReplaceAll(strings.ToLower(key), "-", "_")
	best, bestDist := "", 3
	for _, f := range known {
		if len(key) > len(f.name)+2 {
			continue
		}
		if dist := distance(key, f.name); dist < bestDist && 2*dist < len(f.name) {
			best, bestDist = f.name, dist
		}
	}
	return best
}

// distance is the number of bytes to be inserted, deleted or replaced to make b
// out of a (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}
