package responder

import (
	"bytes"
	"io"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/prober/wire"
)

func version(u, v, p, stage uint16) wire.Version {
	return wire.Version{Upper: u, Lower: v, Patch: p, Stage: stage}
}

// message is a whole request.
func message(t testing.TB, m wire.Message) []byte {
	t.Helper()
	if m.Layout == 0 {
		m.Layout = wire.LayoutC
	}
	if m.Size == 0 {
		m.Size = 100
	}
	b := make([]byte, m.Size)
	if err := m.PutRequest(b); err != nil {
		t.Fatal(err)
	}
	return b
}

// readReply reads a reply of n bytes and its two stamps.
func readReply(t testing.TB, c io.Reader, l wire.Layout, n int) (dwell time.Duration, b []byte) {
	t.Helper()
	b = make([]byte, n)
	if got, err := io.ReadFull(c, b); err != nil {
		t.Fatalf("reading a reply of %d bytes: %d, %v", n, got, err)
	}
	_, receive, send, err := l.Stamps(b)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(send.UnixNano() - receive.UnixNano()), b
}

// The hold lies between the two stamps, or does not where a release ignores it; it is
// bounded; the stop of the responder does not wait for it.
func TestHold(t *testing.T) {
	const hold = 30 * time.Millisecond
	for name, tc := range map[string]struct {
		o          Options
		layout     wire.Layout
		least      time.Duration
		waitsLess  time.Duration
		microsHold uint32
	}{
		"own":           {Options{}, wire.LayoutC, hold, time.Second, 30000},
		"own, layout A": {Options{}, wire.LayoutA, hold, time.Second, 30000},
		"2.1.8":         {Options{Emulate: &Emulation{Version: wire.V2_1_8}}, wire.LayoutB, hold, time.Second, 30000},
		"2.2.0":         {Options{Emulate: &Emulation{Version: wire.V2_2_0}}, wire.LayoutC, 0, hold, 1 << 31},
		"2.2.0 honours": {Options{Emulate: &Emulation{Version: wire.V2_2_0, Hold: HoldHonoured}}, wire.LayoutC, hold, time.Second, 30000},
		"2.1.8 ignores": {Options{Emulate: &Emulation{Version: wire.V2_1_8, Hold: HoldIgnored}}, wire.LayoutB, 0, hold, 1 << 31},
		"bounded":       {Options{MaxHold: hold}, wire.LayoutC, hold, time.Second, 1 << 31},
	} {
		_, addr := start(t, tc.o)
		c := dial(t, addr)
		for range 2 {
			write(t, c, message(t, wire.Message{Layout: tc.layout, Hold: tc.microsHold, Flags: wire.FlagQuickAck}))
			dwell, _ := readReply(t, c, tc.layout, 100)
			if dwell < tc.least-time.Microsecond || dwell >= tc.waitsLess {
				t.Errorf("%s: dwell %s, want %s to %s", name, dwell, tc.least, tc.waitsLess)
			}
		}
	}
}

func TestStopDuringHold(t *testing.T) {
	r, addr := start(t, Options{})
	c := dial(t, addr)
	write(t, c, message(t, wire.Message{Hold: 50_000_000}))
	waitFor(t, func() bool { return r.Stats().Tests == 1 })
	closed := make(chan struct{})
	go func() { r.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(5 * time.Second):
		t.Fatal("Close waits for a hold of 50 s")
	}
	wantEOF(t, c)
}

func waitFor(t testing.TB, ok func() bool) {
	t.Helper()
	for range 2500 {
		if ok() {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
	t.Fatal("did not happen within 5 s")
}

// Size, reply size, hold and TOS are those of the first message, whatever later ones
// say; ids are echoed; five requests in one write are answered in order.
func TestFirstMessageRules(t *testing.T) {
	_, addr := start(t, Options{})
	c := dial(t, addr)
	first := wire.Message{ID: 1, Flags: wire.FlagReplySize | wire.FlagTOS, TOS: 0x20, ReplySize: 64}
	write(t, c, message(t, first))
	readReply(t, c, wire.LayoutC, 64)
	var five []byte
	for id := range uint32(5) {
		b := message(t, wire.Message{ID: 10 + id, Hold: 60_000_000})
		b[7] = 200 // another size field
		five = append(five, b...)
	}
	write(t, c, five)
	for id := range uint32(5) {
		_, b := readReply(t, c, wire.LayoutC, 64)
		m, err := wire.DecodeMessage(wire.LayoutC, b)
		if err != nil || m.ID != 10+id || m.Size != 200 || b[14] != 0 || b[15] != 0x20 {
			t.Errorf("reply %d: %+v, %v, TOS %x", id, m, err, b[14:16])
		}
	}
	end(t, c)
}

// Longer replies are padded with digits, shorter ones cut, down to one byte; layout
// A has none, nor has a message that is too short for the field.
func TestReplySize(t *testing.T) {
	_, addr := start(t, Options{})
	for size, reply := range map[uint32]uint32{100: 1, 68: 131072, 131072: 64, 64: 100} {
		c := dial(t, addr)
		b := message(t, wire.Message{Size: size, Flags: wire.FlagReplySize, ReplySize: reply})
		write(t, c, b)
		got := read(t, c, int(reply))
		for i := size; i < reply; i++ {
			if got[i] != '0'+byte(i%10) {
				t.Fatalf("byte %d of a reply to %d bytes is %#x", i, size, got[i])
			}
		}
		end(t, c)
	}
	c := dial(t, addr)
	b := message(t, wire.Message{Layout: wire.LayoutA, Size: 100, Flags: wire.FlagReplySize})
	copy(b[60:], []byte{0, 0, 0, 7})
	write(t, c, b)
	readReply(t, c, wire.LayoutA, 100)
	end(t, c)
	c = dial(t, addr)
	write(t, c, message(t, wire.Message{Layout: wire.LayoutB, Size: 60, Flags: wire.FlagReplySize}))
	readReply(t, c, wire.LayoutB, 60)
	end(t, c)
	_, addr = start(t, Options{Emulate: &Emulation{Version: wire.V2_1_9}})
	c = dial(t, addr)
	write(t, c, message(t, wire.Message{Flags: wire.FlagReplySize, ReplySize: 500}))
	readReply(t, c, wire.LayoutB, 100)
	end(t, c)
}

// The stop bit ends the test without a reply, but not in the first message, and not
// in layout A.
func TestStopBit(t *testing.T) {
	r, addr := start(t, Options{})
	stop := wire.Message{Flags: wire.FlagStop}
	c := dial(t, addr)
	write(t, c, message(t, stop))
	readReply(t, c, wire.LayoutC, 100)
	write(t, c, append(message(t, wire.Message{}), message(t, stop)...))
	readReply(t, c, wire.LayoutC, 100)
	wantEOF(t, c)
	c.Close()
	if s := settled(t, r); s.Bounces != 2 || s.Resets+s.Garbage+s.TimedOut > 0 {
		t.Errorf("%+v", s)
	}
	stop.Layout = wire.LayoutA
	c = dial(t, addr)
	for range 2 {
		write(t, c, message(t, stop))
		readReply(t, c, wire.LayoutA, 100)
	}
	end(t, c)
}

// A FIN ends a test: what was asked before it is answered, half a message is not, and
// the responder's own FIN follows at once.
func TestFIN(t *testing.T) {
	r, addr := start(t, Options{})
	c := dial(t, addr)
	write(t, c, append(message(t, wire.Message{}), message(t, wire.Message{})[:60]...))
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	readReply(t, c, wire.LayoutC, 100)
	wantEOF(t, c)
	for _, n := range []int{0, 1, 4, 7, 8, 63} {
		c := dial(t, addr)
		write(t, c, message(t, wire.Message{})[:n])
		end(t, c)
	}
	if s := settled(t, r); s.Bounces != 1 || s.Resets+s.Garbage+s.TimedOut > 0 {
		t.Errorf("%+v", s)
	}
}

// Clients that reset are counted, and hurt nobody.
func TestReset(t *testing.T) {
	r, addr := start(t, Options{})
	other := dial(t, addr)
	write(t, other, message(t, wire.Message{}))
	readReply(t, other, wire.LayoutC, 100)
	for _, n := range []int{0, 3, 50, 100} {
		c := dial(t, addr)
		write(t, c, message(t, wire.Message{})[:n])
		if n == 100 {
			readReply(t, c, wire.LayoutC, 100)
		}
		c.SetLinger(0)
		c.Close()
	}
	waitFor(t, func() bool { return r.Stats().Resets == 4 })
	write(t, other, message(t, wire.Message{}))
	readReply(t, other, wire.LayoutC, 100)
	end(t, other)
}

// What no iperf 2 client sends gets no answer and a FIN, and is counted.
func TestGarbage(t *testing.T) {
	small := message(t, wire.Message{})
	small[7] = 47
	zero := message(t, wire.Message{})
	zero[7] = 0
	noReply := message(t, wire.Message{Flags: wire.FlagReplySize, ReplySize: 0})
	for name, b := range map[string][]byte{
		"http":           []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
		"ssh":            []byte("SSH-2.0-OpenSSH_9.2\r\n"),
		"tls":            unhex(t, "1603010200 010001fc0303"),
		"ff":             bytes.Repeat([]byte{0xff}, 200),
		"small":          small,
		"size 0":         zero,
		"large":          unhex(t, "00800000 00020001"),
		"2 GiB":          unhex(t, "00800000 7fffffff"),
		"negative":       unhex(t, "00800000 80000000"),
		"reply size 0":   noReply,
		"reply too long": message(t, wire.Message{Flags: wire.FlagReplySize, ReplySize: 131073}),
		"short header":   unhex(t, "40010046"),
	} {
		r, addr := start(t, Options{})
		c := dial(t, addr)
		write(t, c, b)
		wantEOF(t, c) // before our own
		c.Close()
		if s := settled(t, r); s.Garbage != 1 || s.Bounces+s.Acks > 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// A release answers its own layout only, and from its own smallest size on.
func TestEmulatedLayouts(t *testing.T) {
	for _, tc := range []struct {
		v        wire.Version
		layout   wire.Layout
		size     uint32
		answered bool
	}{
		{wire.V2_1_7, wire.LayoutA, 60, true},
		{wire.V2_1_7, wire.LayoutA, 59, false},
		{wire.V2_1_7, wire.LayoutB, 100, false},
		{wire.V2_1_8, wire.LayoutB, 64, true},
		{wire.V2_1_8, wire.LayoutB, 63, false},
		{wire.V2_1_8, wire.LayoutC, 100, true},
		{wire.V2_1_8, wire.LayoutA, 100, false},
		{wire.V2_2_0, wire.LayoutC, 68, true},
		{wire.V2_2_0, wire.LayoutC, 67, false},
		{wire.V2_2_0, wire.LayoutA, 100, false},
		{version(2, 1, 5, 3), wire.LayoutC, 100, false},
		{version(2, 1, 5, 3), wire.LayoutA, 100, false},
		{OwnVersion(), wire.LayoutC, 100, true},
	} {
		_, addr := start(t, Options{Emulate: &Emulation{Version: tc.v}})
		c := dial(t, addr)
		write(t, c, message(t, wire.Message{Layout: tc.layout, Size: tc.size}))
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(c)
		if err != nil || (len(got) == int(tc.size)) != tc.answered || !tc.answered && len(got) > 0 {
			t.Errorf("%s, layout %s, %d bytes: %d bytes, %v", tc.v, tc.layout, tc.size, len(got), err)
		}
	}
}

// Nothing is allocated from bounce to bounce, with and without a hold.
func TestNoAllocationPerBounce(t *testing.T) {
	for name, m := range map[string]wire.Message{
		"plain": {},
		"all":   {Flags: wire.FlagQuickAck | wire.FlagTOS | wire.FlagTripTimes | wire.FlagReplySize, TOS: 0x20, ReplySize: 200, Hold: 10},
	} {
		_, addr := start(t, Options{})
		c := dial(t, addr)
		request := message(t, m)
		size := 100
		if m.ReplySize > 0 {
			size = int(m.ReplySize)
		}
		reply := make([]byte, size)
		bounce := func(n int) {
			for range n {
				if _, err := c.Write(request); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(c, reply); err != nil {
					t.Fatal(err)
				}
			}
		}
		bounce(20)
		defer debug.SetGCPercent(debug.SetGCPercent(-1))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		bounce(2000)
		runtime.ReadMemStats(&after)
		// The runtime itself allocates a little meanwhile: what goroutines wait with is
		// kept by each CPU, up to 128 of it, and used up where they wake up on another.
		if n := after.Mallocs - before.Mallocs; n > 500 {
			t.Errorf("%s: %d allocations in 2000 bounces", name, n)
		}
	}
}
