package config

import (
	"fmt"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// dscp reads a code point as a number or by its name.
func (d *decoder) dscp(n *yaml.Node, key string, dst *uint8) {
	const want = "a DSCP from 0 to 63, or one of default, le, cs0 to cs7, af11 to af43, va, ef"
	n, ok := d.scalar(n, key, want)
	if !ok {
		return
	}
	v, known := parseDSCP(n.Value)
	_, err := strconv.Atoi(n.Value)
	switch {
	case known && quoted(n) && err == nil:
		d.at(n, key, "must be "+want+"; a number without quotes")
	case !known:
		d.at(n, key, "must be "+want)
	default:
		*dst = v
	}
}

// parseDSCP knows the names of the IANA registry: class selectors (RFC 2474),
// assured forwarding (RFC 2597), expedited forwarding (RFC 3246), voice admit
// (RFC 5865), lower effort (RFC 8622), and be and default for 0.
func parseDSCP(s string) (uint8, bool) {
	if v, err := strconv.ParseUint(s, 10, 8); err == nil {
		return uint8(v), v <= 63 && fmt.Sprint(v) == s
	}
	name := strings.ToLower(s)
	switch name {
	case "be", "default":
		return 0, true
	case "le":
		return 1, true
	case "va", "voice-admit":
		return 44, true
	case "ef":
		return 46, true
	}
	if len(name) == 3 && name[:2] == "cs" && '0' <= name[2] && name[2] <= '7' {
		return (name[2] - '0') << 3, true
	}
	// afXY is class X (1 to 4) with drop precedence Y (1 to 3).
	if len(name) == 4 && name[:2] == "af" && '1' <= name[2] && name[2] <= '4' && '1' <= name[3] && name[3] <= '3' {
		return (name[2]-'0')<<3 | (name[3]-'0')<<1, true
	}
	return 0, false
}
