package responder

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/prober/wire"
)

// FuzzConnection serves whatever bytes a client may send, in two pieces and then the
// end. The responder never panics, always lets go of the connection, and what it
// says is an ack, replies, or a load's data.
func FuzzConnection(f *testing.F) {
	for _, m := range []wire.Message{
		{}, {AckRequest: true}, {AckRequest: true, Flags: wire.FlagTripTimes}, {Layout: wire.LayoutA}, {Layout: wire.LayoutB},
		{Flags: wire.FlagReplySize, ReplySize: 500}, {Flags: wire.FlagTOS | wire.FlagQuickAck, TOS: 0x20, Hold: 100},
	} {
		b := message(f, m)
		f.Add(b, uint16(4))
		f.Add(append(bytes.Clone(b), b...), uint16(100))
		f.Add(append(append(bytes.Clone(b), b...), message(f, wire.Message{Flags: wire.FlagStop})...), uint16(150))
	}
	for _, d := range []wire.Direction{wire.Up, wire.Down, wire.Both} {
		b := loadHeader(f, wire.TestHeader{Direction: d, Ack: d == wire.Up})
		f.Add(b, uint16(10))
		framed := append(bytes.Clone(b), make([]byte, 20)...)
		framed[3], framed[33] = 80<<1, 0x10
		f.Add(framed, uint16(60))
		f.Add(append(bytes.Clone(b), "data"...), uint16(60))
	}
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), uint16(3))
	f.Add(bytes.Repeat([]byte{0xff}, 100), uint16(8))
	f.Add([]byte{}, uint16(0))
	f.Fuzz(func(t *testing.T, b []byte, cut uint16) {
		r := New(Options{
			FirstMessageTimeout: 2 * time.Second, IdleTimeout: 2 * time.Second, MaxMessage: 4096,
			MaxHold: time.Millisecond, MaxLoadDuration: time.Millisecond,
		})
		defer r.Close()
		client, server := net.Pipe()
		c := r.admit(context.Background(), server)
		if c == nil {
			t.Fatal("not admitted")
		}
		served := make(chan struct{})
		go func() { defer close(served); c.serve() }()
		said := make(chan []byte, 1)
		go func() {
			var first bytes.Buffer
			io.Copy(&first, io.LimitReader(client, 8192))
			io.Copy(io.Discard, client)
			said <- first.Bytes()
		}()
		at := min(int(cut), len(b))
		client.SetWriteDeadline(time.Now().Add(5 * time.Second))
		if _, err := client.Write(b[:at]); err == nil {
			client.Write(b[at:])
		}
		// A pipe has no half-close: a load's own half ends by its time, a bounce test
		// by a moment without more.
		time.Sleep(time.Duration(len(b)%3) * time.Millisecond)
		client.Close()
		select {
		case <-served:
		case <-time.After(20 * time.Second):
			t.Fatalf("the connection was not let go: %x", b)
		}
		out := <-said
		s := r.Stats()
		if s.Active+s.Waiting+s.LoadsActive > 0 {
			t.Fatalf("%+v", s)
		}
		if s.Garbage > 0 && len(out) > 0 {
			t.Fatalf("garbage was answered: %x", out)
		}
		if s.Acks > 0 && len(out) >= 4 && !wire.IsAck(out) {
			t.Fatalf("an ack was counted, but first came %x", out)
		}
		if s.Acks == 0 && s.Tests > 0 && len(out) >= 4 && !bytes.Equal(out[:4], b[:4]) {
			t.Fatalf("the reply begins with %x, the request with %x", out[:4], b[:4])
		}
	})
}

// FuzzReadMessage: whatever the pieces, the message is what was sent, in memory of
// its own size.
func FuzzReadMessage(f *testing.F) {
	f.Add([]byte("0123456789abcdef"), uint32(16))
	f.Add(bytes.Repeat([]byte("x"), 10000), uint32(9000))
	f.Fuzz(func(t *testing.T, b []byte, size uint32) {
		size = size%wire.MaxSize + 8
		head := append([]byte("headhead"), b...)
		got, err := readMessage(bytes.NewReader(head[8:]), head[:8], int(size))
		if len(head) < int(size) {
			if err == nil {
				t.Fatalf("%d bytes make a message of %d", len(head), size)
			}
			return
		}
		if err != nil || !bytes.Equal(got, head[:size]) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	})
}
