package main

import (
	"net"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// probeLog are the lines of a debug answer's section on what the probe did.
func probeLog(t *testing.T, debug string) []string {
	t.Helper()
	_, rest, found := strings.Cut(debug, "Log of the probe:\n")
	section, _, ended := strings.Cut(rest, "\n\nResult:")
	if !found || !ended {
		t.Fatalf("no log in %s", debug)
	}
	var lines []string
	for _, m := range regexp.MustCompile(`(?m)^ *[0-9.]+(?:ns|µs|ms|s)  (.*)$`).FindAllStringSubmatch(section, -1) {
		lines = append(lines, m[1])
	}
	return lines
}

// shapes are lines without their figures, which differ from probe to probe, and
// without waits, which a busy machine adds.
func shapes(lines []string) []string {
	figure := regexp.MustCompile(`[0-9][0-9.]*(ns|µs|ms|s)?`)
	var out []string
	for _, l := range lines {
		if strings.HasPrefix(l, "waited ") {
			continue
		}
		out = append(out, figure.ReplaceAllString(l, "#"))
	}
	return out
}

// What targets do is in the log only where --log.prober and --log.level let it, and
// at the level that was asked for; debug=true shows every line of its probe whatever
// these say.
func TestLifeLogs(t *testing.T) {
	_, good := startResponder(t, "127.0.0.1")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	bad := ln.Addr().String()
	ln.Close() // nobody listens there any more
	config := writeConfig(t, "modules: {rtt: {count: 3, timeout: 5s}}")

	all := map[string][]string{} // the lines of a probe of each target
	for _, tc := range []struct {
		flags string
		shown string // the level at which the log tells of probes; "": it does not
	}{
		{"--log.level=debug --log.prober=info", "level=info"}, // first, since it shows what there is
		{"", ""},
		{"--log.level=error", ""},
		{"--log.level=debug", "level=debug"},
		{"--log.prober=error --log.level=warn", "level=error"},
		{"--log.prober=info --log.level=warn", ""},
		{"--log.prober=info --log.format=json", `"level":"info"`},
	} {
		p := startInherited(t, nil, "", append([]string{"--config.file=" + config}, strings.Fields(tc.flags)...)...)
		lines := map[string][]string{}
		for _, target := range []string{good, bad} {
			_, body := p.get(t, "/probe?debug=true&target="+target)
			lines[target] = probeLog(t, body)
			if len(lines[target]) == 0 {
				t.Fatalf("%q: debug=true shows nothing of the probe of %s", tc.flags, target)
			}
			if all[target] == nil {
				all[target] = lines[target]
			} else if !slices.Equal(shapes(lines[target]), shapes(all[target])) {
				t.Errorf("%q: debug=true shows of %s\n%q, with other flags it was\n%q", tc.flags, target, lines[target], all[target])
			}
		}
		p.signal(t, syscall.SIGTERM)
		p.exit(t) // by then all of its log is here
		logged := strings.ReplaceAll(p.logged(), `\"`, `"`)
		for target, lines := range lines {
			for _, line := range append(lines, target) {
				if shown := strings.Contains(logged, line); shown != (tc.shown != "") {
					t.Errorf("%q: the log has %q: %v", tc.flags, line, shown)
				}
			}
		}
		for _, line := range regexp.MustCompile(`(?m)^.*target.*$`).FindAllString(logged, -1) {
			if tc.shown == "" || !strings.Contains(line, tc.shown) {
				t.Errorf("%q: %s", tc.flags, line)
			}
		}
		// A target that fails is no error of the exporter, unless one wants it so.
		if tc.shown != "level=error" && strings.Contains(logged, "level=error") {
			t.Errorf("%q: an error in\n%s", tc.flags, logged)
		}
	}
	for target, want := range map[string]string{good: "first bounce", bad: "refused"} {
		if !strings.Contains(strings.Join(all[target], "\n"), want) {
			t.Errorf("nothing says %q: %q", want, all[target])
		}
	}
}
