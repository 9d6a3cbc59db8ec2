package fakeserver

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
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

// Edits change the one reply they are for, in the one way they are for.
func TestEdits(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(int, []byte) []byte
		ok   func(reply []byte) bool
		size int
	}{
		"id":        {WrongID(2), func(b []byte) bool { return b[8] == 0x80 && b[11] == 1 }, 100},
		"word":      {WrongFirstWord(2, 0x30313233), func(b []byte) bool { return string(b[:4]) == "0123" }, 100},
		"size":      {WrongSizeField(2, 7), func(b []byte) bool { return b[7] == 7 && b[0] == 0 && b[1] == 0x80 }, 100},
		"unfilled":  {UnfilledStamps(2, wire.LayoutC), func(b []byte) bool { return b[28] == 0xff && b[43] == 0xff && b[44] == 0 }, 100},
		"micros":    {InvalidMicroseconds(2, wire.LayoutC), func(b []byte) bool { return bytes.Equal(b[40:44], []byte{0, 0x0f, 0x42, 0x40}) }, 100},
		"shorter":   {Shorten(2, 10), func([]byte) bool { return true }, 90},
		"longer":    {Lengthen(2, 10), func([]byte) bool { return true }, 110},
		"to naught": {Shorten(2, 1000), func([]byte) bool { return true }, 0},
	} {
		s := Start(t, Script{Edit: tc.edit})
		c := dial(t, s.Addr().String())
		for n := 1; n <= 3; n++ {
			send(t, c, request(t, 100, false))
			if n != 2 {
				wantReply(t, read(t, c, 100))
				continue
			}
			b := read(t, c, tc.size)
			if !tc.ok(b) {
				t.Errorf("%s: %x", name, b)
			}
			if tc.size == 0 {
				break
			}
		}
		c.CloseWrite()
		if tc.size > 0 {
			if b, err := io.ReadAll(c); len(b) > 0 || err != nil {
				t.Errorf("%s: at the end %x, %v", name, b, err)
			}
		}
	}
}

// A slow reply comes byte by byte from its place on; a delay comes before it.
func TestSlow(t *testing.T) {
	s := Start(t, Script{
		ByteDelay: 5 * time.Millisecond, Fault: Fault{Action: SlowFrom, Reply: 1, Byte: 80},
		Delay: func(n int) time.Duration { return 50 * time.Millisecond },
	})
	c := dial(t, s.Addr().String())
	begin := time.Now()
	send(t, c, request(t, 100, false))
	read(t, c, 1)
	if d := time.Since(begin); d < 50*time.Millisecond {
		t.Errorf("first byte after %s", d)
	}
	begin = time.Now()
	read(t, c, 99)
	if d := time.Since(begin); d < 90*time.Millisecond {
		t.Errorf("20 slow bytes in %s", d)
	}
}

// Load connections may have a script of their own, with data and faults in it.
func TestLoadScript(t *testing.T) {
	header := func(d wire.Direction, ack bool) []byte {
		b := make([]byte, wire.TestHeaderLen)
		if err := (&wire.TestHeader{Direction: d, Ack: ack, Duration: time.Second}).Put(b); err != nil {
			t.Fatal(err)
		}
		return b
	}
	s := Start(t, Script{Load: &Script{LoadBytes: 1000, Fault: Fault{Action: HalfClose, Reply: 1, Byte: 600}}})
	c := dial(t, s.Addr().String())
	send(t, c, request(t, 100, false))
	wantReply(t, read(t, c, 100))
	for d, want := range map[wire.Direction]int{wire.Up: 0, wire.Down: 600, wire.Both: 600} {
		c := dial(t, s.Addr().String())
		send(t, c, header(d, true))
		if !wire.IsAck(read(t, c, wire.AckLen)) {
			t.Error("no ack")
		}
		if d == wire.Up {
			c.CloseWrite()
		}
		if b, err := io.ReadAll(c); len(b) != want || err != nil {
			t.Errorf("%s: %d bytes, %v, want %d", d, len(b), err, want)
		}
		c.Close()
	}
	silent := Start(t, Script{Load: &Script{Mode: Silent}})
	c = dial(t, silent.Addr().String())
	send(t, c, header(wire.Up, true))
	c.CloseWrite()
	if b, err := io.ReadAll(c); len(b) > 0 || err != nil {
		t.Errorf("silent: %x, %v", b, err)
	}
	if j := silent.WaitEnded(t, 1, time.Second)[0]; j.IsBounce() || !j.FirstComplete || j.Received != 60 {
		t.Errorf("%+v", j)
	}
	if j := s.Journal()[0]; !j.IsBounce() {
		t.Errorf("%+v", j)
	}
}

// Each connection may have its own script; layouts that the script does not know are
// swallowed; the clock may be off.
func TestPerConnection(t *testing.T) {
	s := Start(t, Script{PerConnection: func(i int) Script {
		if i == 0 {
			return Script{Layout: wire.LayoutA, Version: wire.V2_1_7}
		}
		return Script{Layout: wire.LayoutB, ClockOffset: time.Hour}
	}})
	c := dial(t, s.Addr().String())
	send(t, c, request(t, 100, true))
	c.CloseWrite()
	b, err := io.ReadAll(c)
	if a, aerr := wire.DecodeAck(b); err != nil || aerr != nil || a.Version != wire.V2_1_7 || len(b) != 28 {
		t.Errorf("%x, %v, %v", b, err, aerr)
	}
	c = dial(t, s.Addr().String())
	send(t, c, request(t, 100, false))
	_, receive, _, err := wire.LayoutB.Stamps(read(t, c, 100))
	if off := time.Until(time.Unix(0, receive.UnixNano())); err != nil || off < 59*time.Minute {
		t.Errorf("the clock is off by %s, %v", off, err)
	}
}

// A peer that never closes holds its end until the test's own.
func TestNeverClose(t *testing.T) {
	s := Start(t, Script{NeverClose: true})
	c := dial(t, s.Addr().String())
	send(t, c, request(t, 100, false))
	wantReply(t, read(t, c, 100))
	c.CloseWrite()
	c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after the FIN: %v", err)
	}
	if j := s.Journal()[0]; j.End != FIN || !j.Closed.IsZero() {
		t.Errorf("%+v", j)
	}
	s.Close()
	c.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("after Close: %v", err)
	}
}
