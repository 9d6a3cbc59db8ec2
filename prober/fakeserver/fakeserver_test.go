package fakeserver

import (
	"bytes"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/prober/wire"
)

func dial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(5 * time.Second))
	return c.(*net.TCPConn)
}

// request is a first message; ack asks for the server's version.
func request(t *testing.T, size int, ack bool) []byte {
	t.Helper()
	m := wire.Message{Layout: wire.LayoutC, AckRequest: ack, Size: uint32(size), ID: 1, ClientSend: wire.Stamp{Seconds: 1, Microseconds: 2}}
	b := make([]byte, size)
	if err := m.PutRequest(b); err != nil {
		t.Fatal(err)
	}
	return b
}

func send(t *testing.T, c net.Conn, b []byte) {
	t.Helper()
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, c net.Conn, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	if _, err := io.ReadFull(c, b); err != nil {
		t.Fatalf("reading %d bytes: %v", n, err)
	}
	return b
}

func wantReply(t *testing.T, b []byte) {
	t.Helper()
	if _, _, _, err := wire.LayoutC.Stamps(b); err != nil {
		t.Fatalf("not a reply: %v\n%x", err, b)
	}
}

// A server without faults answers every message, with its ack first, and its
// journal has the client's whole part.
func TestHonest(t *testing.T) {
	s := Start(t, Script{Version: wire.V2_1_9})
	c := dial(t, s.Addr().String())
	req := request(t, 100, true)
	send(t, c, req[:7])
	send(t, c, req[7:])
	ack, err := wire.DecodeAck(read(t, c, wire.AckLen))
	if err != nil || ack.Version != wire.V2_1_9 {
		t.Fatalf("ack %+v, %v", ack, err)
	}
	wantReply(t, read(t, c, 100))
	for range 3 {
		send(t, c, request(t, 100, false))
		wantReply(t, read(t, c, 100))
	}
	c.CloseWrite()
	if b, err := io.ReadAll(c); err != nil || len(b) > 0 {
		t.Fatalf("after the FIN: %x, %v", b, err)
	}
	j := s.WaitEnded(t, 1, time.Second)[0]
	if !j.FirstComplete || j.Received != 400 || j.Requests != 4 || j.Replies != 4 || j.Sent != 428 || j.End != FIN {
		t.Errorf("journal %+v", j)
	}
	if !bytes.Equal(j.First, append(req, request(t, 100, false)...)[:len(j.First)]) {
		t.Errorf("journal's first bytes %x", j.First)
	}
}

// The journal tells a FIN from an RST, and an RST after a FIN is a FIN.
func TestJournalEnd(t *testing.T) {
	for _, mode := range []Mode{Silent, NeverReads} {
		for want, end := range map[End]func(*net.TCPConn){
			FIN: func(c *net.TCPConn) { c.CloseWrite() },
			RST: func(c *net.TCPConn) { c.SetLinger(0); c.Close() },
		} {
			s := Start(t, Script{Mode: mode})
			c := dial(t, s.Addr().String())
			send(t, c, request(t, 100, false))
			end(c)
			j := s.WaitEnded(t, 1, 2*time.Second)[0]
			if j.End != want {
				t.Errorf("mode %d: end %s, want %s", mode, j.End, want)
			}
		}
	}
	s := Start(t, Script{Mode: Silent, NeverClose: true})
	c := dial(t, s.Addr().String())
	send(t, c, request(t, 100, false)[:30])
	c.CloseWrite()
	c.SetLinger(0)
	c.Close()
	if j := s.WaitEnded(t, 1, 2*time.Second)[0]; j.End != FIN || j.FirstComplete || j.Received != 30 {
		t.Errorf("FIN, then RST: %+v", j)
	}
}

// Each fault happens at its byte, not before and not after.
func TestFaults(t *testing.T) {
	reset := func(err error) bool { return errors.Is(err, syscall.ECONNRESET) }
	eof := func(err error) bool { return err == io.ErrUnexpectedEOF || err == io.EOF }
	timeout := func(err error) bool { var ne net.Error; return errors.As(err, &ne) && ne.Timeout() }
	for name, tc := range map[string]struct {
		action Action
		ok     func(error) bool
	}{
		"stop":      {Stop, timeout},
		"halfclose": {HalfClose, eof},
		"close":     {Close, eof},
		"reset":     {Reset, reset},
	} {
		for _, at := range []int{0, 1, 44, 99, 100} {
			s := Start(t, Script{Fault: Fault{Action: tc.action, Reply: 2, Byte: at}})
			c := dial(t, s.Addr().String())
			send(t, c, request(t, 100, false))
			wantReply(t, read(t, c, 100))
			send(t, c, request(t, 100, false))
			c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
			b := make([]byte, 101)
			n, err := io.ReadFull(c, b)
			// A reset may discard what came right before it.
			if n != at && !(tc.action == Reset && n < at) || !tc.ok(err) {
				t.Errorf("%s at %d: got %d bytes, %v", name, at, n, err)
			}
		}
	}
}

func TestGarbageTwiceEarlyEndless(t *testing.T) {
	s := Start(t, Script{Fault: Fault{Action: Garbage, Reply: 1, Byte: 28}})
	c := dial(t, s.Addr().String())
	req := request(t, 100, false)
	send(t, c, req)
	b := read(t, c, 100)
	if !bytes.Equal(b[:28], req[:28]) || bytes.Equal(b[60:], req[60:]) {
		t.Errorf("garbage from 28: %x", b)
	}

	s = Start(t, Script{Fault: Fault{Action: Twice, Reply: 1}})
	c = dial(t, s.Addr().String())
	send(t, c, req)
	if b := read(t, c, 200); !bytes.Equal(b[:100], b[100:]) {
		t.Errorf("twice: %x", b)
	}

	s = Start(t, Script{Early: []byte("early")})
	c = dial(t, s.Addr().String())
	if b := read(t, c, 5); string(b) != "early" {
		t.Errorf("early: %q", b)
	}

	s = Start(t, Script{Fault: Fault{Action: Endless, Reply: 1, Byte: 100}})
	c = dial(t, s.Addr().String())
	send(t, c, req)
	wantReply(t, read(t, c, 100))
	read(t, c, 1<<20)
}

func TestOddPeers(t *testing.T) {
	for name, tc := range map[string]struct {
		mode Mode
		want string
	}{
		"http":   {HTTP, httpAnswer},
		"iperf3": {Iperf3, "\x09"},
		"busy":   {Iperf3Busy, "\xff"},
	} {
		s := Start(t, Script{Mode: tc.mode})
		c := dial(t, s.Addr().String())
		send(t, c, request(t, 100, false))
		b, err := io.ReadAll(c)
		if string(b) != tc.want || (err != nil) != (tc.mode == Iperf3) {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}

// An iperf 2.1.5 acks both kinds of version request and then says nothing.
func TestSink(t *testing.T) {
	v := wire.Version{Upper: 2, Lower: 1, Patch: 5, Stage: wire.StageRelease}
	probe := make([]byte, wire.TestHeaderLen)
	if err := wire.PutVersionRequest(probe); err != nil {
		t.Fatal(err)
	}
	for _, first := range [][]byte{probe, request(t, 100, true)} {
		s := Start(t, Script{Mode: Sink, Version: v})
		c := dial(t, s.Addr().String())
		send(t, c, first)
		c.CloseWrite()
		b, err := io.ReadAll(c)
		if err != nil {
			t.Fatal(err)
		}
		if a, err := wire.DecodeAck(b); err != nil || a.Version != v || len(b) != 28 {
			t.Errorf("%x: ack %+v, %v", b, a, err)
		}
	}
}

// Acks come whole, joined with the reply, or byte by byte: the bytes are the same.
func TestAckModes(t *testing.T) {
	for _, mode := range []AckMode{AckAsked, AckJoined, AckBytewise} {
		s := Start(t, Script{Ack: mode})
		c := dial(t, s.Addr().String())
		send(t, c, request(t, 100, true))
		b := read(t, c, 128)
		if !wire.IsAck(b) {
			t.Errorf("mode %d: %x", mode, b)
		}
		wantReply(t, b[28:])
	}
}

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
