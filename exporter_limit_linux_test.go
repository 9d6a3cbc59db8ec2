package main

import (
	"net"
	"os"
	"strings"
	"testing"
)

// Out of file descriptors: a probe says so, and that it is this host's trouble; the
// exporter goes on, and probes again once there are some.
func TestExporterWithoutDescriptors(t *testing.T) {
	_, target := startResponder(t, "127.0.0.1")
	cmd := programCommand()
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", `ulimit -n 48; exec "$0" --web.listen-address=127.0.0.1:0`, os.Args[0]}
	p := startCommand(t, cmd, 1)
	probe := func() string {
		t.Helper()
		// One connection is kept alive all the time: no new one would be accepted.
		code, body := p.get(t, "/probe?target="+target)
		if code != 200 {
			t.Fatalf("%d %s", code, body)
		}
		return body
	}
	if body := probe(); series(body, "probe_success") != "1" {
		t.Fatalf("before: %s", body)
	}
	var idle []net.Conn
	for range 60 {
		c, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		idle = append(idle, c)
	}
	eventually(t, "the last descriptor to go", func() bool {
		return series(probe(), `probe_failure_reason{reason="local_limit"}`) == "1"
	})
	for _, c := range idle {
		c.Close()
	}
	eventually(t, "the recovery", func() bool { return series(probe(), "probe_success") == "1" })
}
