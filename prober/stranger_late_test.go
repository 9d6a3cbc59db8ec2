package prober

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// A service that waits for our FIN before it says what it thinks of us is known by
// that, and not taken for a server that is silent.
func TestStrangerThatAnswersAfterOurFIN(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, c)
			_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
			_ = c.Close()
		}
	}()
	p := New(Options{Bounds: Bounds{FirstReply: 100 * time.Millisecond}})
	r := p.Run(context.Background(), &Job{Module: module(), Addr: ln.Addr().(*net.TCPAddr).AddrPort()})
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
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		}
	}()
	p := New(Options{Bounds: Bounds{FirstReply: 50 * time.Millisecond}})
	r := p.Run(context.Background(), &Job{Module: module(), Addr: ln.Addr().(*net.TCPAddr).AddrPort()})
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
