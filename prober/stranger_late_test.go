package prober

import (
	"context"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// afterFIN serves connections that it reads to their FIN, and then says last.
func afterFIN(t *testing.T, last string) netip.AddrPort {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, c)
			_, _ = io.WriteString(c, last)
			_ = c.Close()
		}
	}()
	return ln.Addr().(*net.TCPAddr).AddrPort()
}

// A service that waits for our FIN before it says what it thinks of us is known by
// that, and not taken for a server that is silent.
func TestStrangerThatAnswersAfterOurFIN(t *testing.T) {
	p := New(Options{Bounds: Bounds{FirstReply: 100 * time.Millisecond}})
	r := p.Run(context.Background(), &Job{Module: module(), Addr: afterFIN(t, "HTTP/1.1 400 Bad Request\r\n\r\n")})
	if r.Err == nil || r.Err.Reason != ReasonNoBounceback || !strings.Contains(r.Err.Error(), "HTTP/1.1 400") {
		t.Errorf("got %v, want no_bounceback with what the peer said", r.Err)
	}
	if err := p.Wait(context.Background()); err != nil {
		t.Error(err)
	}
	// Handshake, which is the first bounce and more, can't be shorter than it.
	if r.Phases[PhaseHandshake].V < 100*time.Millisecond {
		t.Errorf("handshake took %v of at least 100ms", r.Phases[PhaseHandshake].V)
	}
}

// A peer that stays mute leaves a log that people can read.
func TestLogOfAMutePeer(t *testing.T) {
	p := New(Options{Bounds: Bounds{FirstReply: 50 * time.Millisecond}})
	r := p.Run(context.Background(), &Job{Module: module(), Addr: afterFIN(t, "")})
	if r.Err == nil || r.Err.Reason != ReasonSilent {
		t.Errorf("got %v, want silent", r.Err)
	}
	for _, l := range r.Log {
		if strings.Contains(l.Message, "%!") {
			t.Errorf("the log says %q", l.Message)
		}
	}
	if err := p.Wait(context.Background()); err != nil {
		t.Error(err)
	}
}
