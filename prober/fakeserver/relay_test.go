package fakeserver

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"
)

// Bytes, a FIN and an RST pass through a relay; a pause holds bytes back.
func TestRelay(t *testing.T) {
	s := Start(t, Script{})
	r := StartRelay(t, s.Addr(), RelayOptions{PauseUpAfter: 30})
	c := dial(t, r.Addr().String())
	send(t, c, request(t, 100, false))
	time.Sleep(50 * time.Millisecond)
	if up, down := r.Forwarded(); up != 30 || down != 0 {
		t.Fatalf("forwarded %d up, %d down at the pause", up, down)
	}
	r.ResumeUp()
	wantReply(t, read(t, c, 100))
	c.CloseWrite()
	if b, err := io.ReadAll(c); err != nil || len(b) > 0 {
		t.Fatalf("after the FIN: %x, %v", b, err)
	}
	if j := s.WaitEnded(t, 1, time.Second); j[0].End != FIN || j[0].Received != 100 {
		t.Errorf("journal %+v", j[0])
	}
	c = dial(t, r.Addr().String())
	send(t, c, request(t, 100, false))
	wantReply(t, read(t, c, 100))
	c.SetLinger(0)
	c.Close()
	if j := s.WaitEnded(t, 2, time.Second); j[1].End != RST {
		t.Errorf("journal %+v", j[1])
	}
}

// What the server does to its side arrives at the client: a FIN, or an RST.
func TestRelayFromServer(t *testing.T) {
	for action, ok := range map[Action]func(error) bool{
		HalfClose: func(err error) bool { return err == nil },
		Reset:     func(err error) bool { return errors.Is(err, syscall.ECONNRESET) },
	} {
		s := Start(t, Script{Fault: Fault{Action: action, Reply: 2, Byte: 0}})
		r := StartRelay(t, s.Addr(), RelayOptions{})
		c := dial(t, r.Addr().String())
		send(t, c, request(t, 100, false))
		wantReply(t, read(t, c, 100))
		send(t, c, request(t, 100, false))
		if b, err := io.ReadAll(c); len(b) > 0 || !ok(err) {
			t.Errorf("action %d: %d bytes, %v", action, len(b), err)
		}
	}
	// Nobody behind the relay.
	s := Start(t, Script{})
	r := StartRelay(t, s.Addr(), RelayOptions{})
	s.Close()
	c, err := net.Dial("tcp", r.Addr().String()) // may see the reset itself
	if err == nil {
		defer c.Close()
		_, err = c.Read(make([]byte, 1))
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%v", err)
	}
}

// A slow direction is slow and the other is not; nothing is lost.
func TestRelayRate(t *testing.T) {
	s := Start(t, Script{})
	r := StartRelay(t, s.Addr(), RelayOptions{UpRate: 20_000, SmallBuffers: true})
	c := dial(t, r.Addr().String())
	begin := time.Now()
	send(t, c, request(t, 10_000, false))
	wantReply(t, read(t, c, 10_000))
	if d := time.Since(begin); d < 490*time.Millisecond {
		t.Errorf("10000 bytes at 20000 a second took %s", d)
	}
	r.PauseDown()
	send(t, c, request(t, 10_000, false))
	c.SetReadDeadline(time.Now().Add(700 * time.Millisecond))
	if n, err := c.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Error("a paused direction forwards")
	}
	r.ResumeDown()
	c.SetReadDeadline(time.Now().Add(5 * time.Second))
	wantReply(t, read(t, c, 10_000))
	// Counted right after they were passed on.
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		up, down := r.Forwarded()
		if up == 20_000 && down == 20_000 {
			break
		}
		if time.Since(begin) > 5*time.Second {
			t.Fatalf("forwarded %d up, %d down", up, down)
		}
	}
}
