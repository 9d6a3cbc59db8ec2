package report

import (
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/bounceback-exporter/bounceback_exporter/prober"
)

// hidden stands where an address or a host name was.
const hidden = "(hidden)"

// masker takes addresses and host names out of texts. Every literal address is
// found by its form; names are known from the target and from the resolver's
// error.
type masker struct {
	on    bool
	names []string
}

func newMasker(r *prober.Result, o *Options) masker {
	if !o.HideIPs {
		return masker{}
	}
	m := masker{on: true}
	m.add(r.Target.Host)
	// Of an address with a zone an error can name the zone alone. Numbers stay: they
	// say nothing, and would take away every number like them.
	if a, err := netip.ParseAddr(r.Target.Host); err == nil && strings.Trim(a.Zone(), "0123456789") != "" {
		m.add(a.Zone())
	}
	if r.Err != nil {
		var dns *net.DNSError
		if errors.As(r.Err.Cause, &dns) {
			m.add(dns.Name)
			if host, _, err := net.SplitHostPort(dns.Server); err == nil {
				m.add(host)
			} else {
				m.add(dns.Server)
			}
		}
	}
	return m
}

func (m *masker) add(name string) {
	if name = strings.Trim(name, ".[]"); name != "" {
		m.names = append(m.names, name)
	}
}

// text returns s without addresses and host names. It rather takes away a word
// too many than one too few.
func (m *masker) text(s string) string {
	if !m.on {
		return s
	}
	for _, name := range m.names {
		// A name with characters that end a word would not be found as a word.
		if strings.ContainsFunc(name, func(c rune) bool { return !inWord(c) }) {
			s = strings.ReplaceAll(s, name, hidden)
		}
	}
	var b strings.Builder
	for len(s) > 0 {
		start := strings.IndexFunc(s, inWord)
		if start < 0 {
			break
		}
		b.WriteString(s[:start])
		s = s[start:]
		end := strings.IndexFunc(s, func(c rune) bool { return !inWord(c) })
		if end < 0 {
			end = len(s)
		}
		masked := m.word(s[:end])
		b.WriteString(masked)
		s = s[end:]
		if strings.HasSuffix(masked, hidden) {
			s = s[prefixLength(s):]
		}
	}
	b.WriteString(s)
	return tidy(b.String())
}

// prefixLength is how many bytes of s, which follows an address, are the length
// of a network's prefix, such as /24: without the address it says nothing.
func prefixLength(s string) int {
	n := 0
	if strings.HasPrefix(s, "/") {
		for n = 1; n < len(s) && n <= 3 && s[n] >= '0' && s[n] <= '9'; n++ {
		}
	}
	if n < 2 || n < len(s) && (inWord(rune(s[n])) && s[n] != '.' && s[n] != ':' && s[n] != ']' || s[n] == '/') {
		return 0
	}
	return n
}

// tidy makes one of a list of which every item is hidden, and takes away the
// parentheses around it that are one pair too many.
func tidy(s string) string {
	for _, separator := range []string{", ", " "} {
		list := hidden + separator + hidden
		for strings.Contains(s, list) {
			s = strings.ReplaceAll(s, list, hidden)
		}
	}
	return strings.ReplaceAll(s, "("+hidden+")", hidden)
}

// inWord tells whether c can be a part of an address or of a host name. Letters
// beyond ASCII can: names may be international.
func inWord(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
		c >= 0x80 || strings.ContainsRune(".:%_-[]", c)
}

// word masks one word. Punctuation around the secret stays: the trailing colon of
// "dial tcp 10.0.0.1:5001: refused" is not a part of the address.
func (m *masker) word(w string) string {
	for start := 0; start < len(w); start++ {
		for end := len(w); end > start; end-- {
			if masked, ok := m.secret(w[start:end]); ok {
				// What is around it can be one more, if only the "::" of no address.
				return m.word(w[:start]) + masked + m.word(w[end:])
			}
			if !strings.ContainsRune(".:-_]", rune(w[end-1])) {
				break
			}
		}
		if !strings.ContainsRune(".:-_[", rune(w[start])) {
			break
		}
	}
	return w
}

// secret tells whether w is an address or a known name, with or without a port,
// and what to write in its place.
func (m *masker) secret(w string) (string, bool) {
	if isAddress(w) {
		return hidden, true
	}
	if i := strings.LastIndexByte(w, ':'); i >= 0 {
		host, port := w[:i], w[i+1:]
		_, err := strconv.ParseUint(port, 10, 16)
		if err == nil && (isAddress(host) || m.name(host)) {
			return hidden + ":" + port, true
		}
	}
	if m.name(w) {
		return hidden, true
	}
	return "", false
}

// isAddress tells whether w is a literal address, perhaps in brackets. Only whole
// pairs of brackets are taken off: a zone could swallow a lone one. It does swallow
// the colons that end a word, which without them is the address that is meant.
func isAddress(w string) bool {
	if strings.HasPrefix(w, "[") && strings.HasSuffix(w, "]") {
		w = w[1 : len(w)-1]
	}
	a, err := netip.ParseAddr(w)
	if err == nil && strings.HasSuffix(a.Zone(), ":") {
		_, shorter := netip.ParseAddr(strings.TrimRight(w, ":"))
		return shorter != nil
	}
	return err == nil
}

// name tells whether w is a known name, or one that a search domain made of it.
func (m *masker) name(w string) bool {
	w = strings.TrimSuffix(w, ".")
	for _, name := range m.names {
		if len(w) >= len(name) && strings.EqualFold(w[:len(name)], name) &&
			(len(w) == len(name) || w[len(name)] == '.') {
			return true
		}
	}
	return false
}

// host is the target's host as it was asked for.
func (m *masker) host(h string) string {
	if m.on {
		return hidden
	}
	return h
}

// addrPort writes an address with its port.
func (m *masker) addrPort(a netip.AddrPort) string {
	if m.on {
		return hidden + ":" + strconv.Itoa(int(a.Port()))
	}
	return a.String()
}
