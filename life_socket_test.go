package main

import (
	"net"
	"os"
	"runtime"
	"testing"
)

// startInherited starts an exporter from a shell that first does prepare, such as
// lowering a limit. It gets its listener from this process, as from systemd, so that
// it is reached also where it is silent or in a network namespace of its own; wrap is
// put in front of the shell.
func startInherited(t *testing.T, wrap []string, prepare string, args ...string) *process {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("sockets are inherited on Linux only")
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f, err := ln.(*net.TCPListener).File()
	ln.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd := programCommand()
	argv := append(wrap, "/bin/sh", "-c", prepare+` LISTEN_PID=$$ exec "$0" --web.systemd-socket "$@"`, os.Args[0])
	argv = append(argv, args...)
	cmd.Path, cmd.Args = argv[0], argv
	cmd.Env = append(cmd.Env, "LISTEN_FDS=1")
	cmd.ExtraFiles = []*os.File{f}
	p := startCommand(t, cmd, 0)
	p.url = "http://" + ln.Addr().String() // it accepts from the first moment, and answers when it can
	return p
}
