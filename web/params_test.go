package web

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/prober"
)

// testModule is a module with the defaults.
func testModule(name string) *config.Module {
	m := *config.Default().Modules["bounceback"]
	m.Name = name
	return &m
}

func testConfig(modules ...*config.Module) *config.Config {
	c := *config.Default()
	c.Modules = map[string]*config.Module{}
	for _, m := range modules {
		c.Modules[m.Name] = m
	}
	return &c
}

func TestParseParams(t *testing.T) {
	one := testConfig(testModule("rtt"))
	two := testConfig(testModule("rtt"), testModule("owd"))
	for _, tc := range []struct {
		query  string
		cfg    *config.Config
		target prober.Target
		module string
		debug  bool
		err    string // "" is none
	}{
		{"target=host", one, prober.Target{Host: "host", Port: 5001}, "rtt", false, ""},
		{"target=host:7", one, prober.Target{Host: "host", Port: 7}, "rtt", false, ""},
		{"target=192.0.2.1:5002&module=rtt&debug=true", one, prober.Target{Host: "192.0.2.1", Port: 5002}, "rtt", true, ""},
		{"target=%5B2001:db8::1%5D:5002&module=owd", two, prober.Target{Host: "2001:db8::1", Port: 5002}, "owd", false, ""},
		{"target=[2001:db8::1]&module=owd&debug=0", two, prober.Target{Host: "2001:db8::1", Port: 5001}, "owd", false, ""},
		{"target=2001:db8::1&module=owd&debug=1", two, prober.Target{Host: "2001:db8::1", Port: 5001}, "owd", true, ""},
		{"target=fe80::1%25eth0&module=owd&debug=false", two, prober.Target{Host: "fe80::1%eth0", Port: 5001}, "owd", false, ""},

		{"", one, prober.Target{}, "", false, `"target" is missing`},
		{"target=", one, prober.Target{}, "", false, `"target" is missing`},
		{"target=a&target=b", one, prober.Target{}, "", false, `"target" is there 2 times`},
		{"target=a&target=a", one, prober.Target{}, "", false, `"target" is there 2 times`},
		{"target=a&module=rtt&module=rtt", one, prober.Target{}, "", false, `"module" is there 2 times`},
		{"target=a&debug=true&debug=true", one, prober.Target{}, "", false, `"debug" is there 2 times`},
		{"target=a&modul=rtt", one, prober.Target{}, "", false, `unknown parameter "modul"`},
		{"target=a&size=100000", one, prober.Target{}, "", false, `unknown parameter "size"`},
		{"target=a&Module=rtt", one, prober.Target{}, "", false, `unknown parameter "Module"`},
		{"target=a&=x", one, prober.Target{}, "", false, `unknown parameter ""`},
		{"target=a&module=nope", two, prober.Target{}, "", false, `unknown module "nope"; the modules are: owd, rtt`},
		{"target=a&module=", one, prober.Target{}, "", false, `unknown module ""; the modules are: rtt`},
		{"target=a", two, prober.Target{}, "", false, `"module" is missing; the modules are: owd, rtt`},
		{"target=a&debug=yes", one, prober.Target{}, "", false, `"yes" is not true or false`},
		{"target=a&debug", one, prober.Target{}, "", false, `"" is not true or false`},
		{"target=a;module=rtt", one, prober.Target{}, "", false, "semicolon"},
		{"target=%zz", one, prober.Target{}, "", false, "query"},
	} {
		t.Run(tc.query, func(t *testing.T) {
			p, err := parseParams(tc.query, tc.cfg)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("error %v; want one with %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if p.target != tc.target || p.module.Name != tc.module || p.debug != tc.debug {
				t.Errorf("got %+v, module %s, debug %v", p.target, p.module.Name, p.debug)
			}
		})
	}
}

// What a host may look like is the prober's business; here is only that the
// handler leaves no way around it.
func TestParseParamsOddHosts(t *testing.T) {
	cfg := testConfig(testModule("rtt"))
	for _, host := range []string{
		":5001", "[]", "[]:5001", "[::1", "::1]", "0177.0.0.1", "0x7f.0.0.1", "0x7f000001", "2130706433", "127.1",
		"127.0.0.1.", "127.0.0.01", "host:0", "host:65536", "host:-1", "host:+1", "host:http", "host:", "[::1]5001",
		"http://host", "host/path", "user@host", "a b", "host\n", "host\x00", "%eth0", "127.0.0.1%lo", "[::1%]",
		strings.Repeat("a.", 200) + "a",
	} {
		query := url.Values{"target": {host}}.Encode()
		if p, err := parseParams(query, cfg); err == nil {
			t.Errorf("%q was taken as %+v", host, p.target)
		}
	}
}

func FuzzParseParams(f *testing.F) {
	for _, q := range []string{"target=host", "target=[::1]:5&module=rtt&debug=true", "target=a&target=b", "x=y", "%", "target=%00", "module=rtt;target=a"} {
		f.Add(q)
	}
	cfg := testConfig(testModule("rtt"))
	cfg.Modules["rtt"].Timeout = time.Second
	f.Fuzz(func(t *testing.T, query string) {
		p, err := parseParams(query, cfg)
		if err != nil {
			return
		}
		if p.target.Host == "" || p.target.Port == 0 || p.module == nil {
			t.Errorf("%q: %+v", query, p)
		}
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatalf("%q was taken, but is no query: %v", query, err)
		}
		for name, v := range values {
			if len(v) != 1 {
				t.Errorf("%q was taken with %d values of %q", query, len(v), name)
			}
		}
	})
}
