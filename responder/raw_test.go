package responder

import (
	"bytes"
	"encoding/hex"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
)

// This file is a client that knows nothing of the wire package: it sends bytes that
// were captured between real iperf 2 clients and servers, and wants, byte for byte,
// what the real server answered, whose clock it lends to the responder.

const padding = "30313233343536373839303132333435363738393031323334353637383930313233343536373839"

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(strings.ReplaceAll(s, "P", padding)), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// scripted is a clock that reads what it was told, one after the other.
type scripted struct {
	mu    sync.Mutex
	times []time.Time
	asked int
}

func (s *scripted) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if len(s.times) == 0 {
		return time.Unix(0, 0)
	}
	t := s.times[0]
	s.times = s.times[1:]
	return t
}

// stamps are the server's stamps of a captured reply, at their offset.
func stamps(reply []byte, offset int) (receive, send time.Time) {
	at := func(o int) time.Time {
		be := func(b []byte) int64 {
			return int64(b[0])<<24 | int64(b[1])<<16 | int64(b[2])<<8 | int64(b[3])
		}
		// 999 ns more: the stamp is truncated, not rounded.
		return time.Unix(be(reply[o:]), be(reply[o+4:])*1000+999)
	}
	return at(offset), at(offset + 8)
}

func dial(t testing.TB, to netip.AddrPort) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(10 * time.Second))
	return c.(*net.TCPConn)
}

func write(t testing.TB, c net.Conn, b []byte) {
	t.Helper()
	if _, err := c.Write(b); err != nil {
		t.Fatalf("writing %d bytes: %v", len(b), err)
	}
}

func read(t testing.TB, c net.Conn, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	if got, err := io.ReadFull(c, b); err != nil {
		t.Fatalf("reading %d bytes: %d, %v", n, got, err)
	}
	return b
}

// end half-closes and wants nothing but a FIN.
func end(t testing.TB, c *net.TCPConn) {
	t.Helper()
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	wantEOF(t, c)
}

func wantEOF(t testing.TB, c net.Conn) {
	t.Helper()
	if b, err := io.ReadAll(c); err != nil || len(b) > 0 {
		t.Errorf("instead of the FIN: %d bytes, %v", len(b), err)
	}
}

func TestCapturedReplies(t *testing.T) {
	for name, tc := range map[string]struct {
		offset    int // of the server's stamps
		exchanges [][2]string
		replies   int // bytes of a reply, where the capture is cut; 0: the capture's
		tail      string
	}{
		"2.1.8": {offset: 28, exchanges: [][2]string{
			{"00800000 00000064 00000001 8000 5a5a 00000000 6b0db1b6000608c0 ffffffffffffffff ffffffffffffffff 00000000 5a5a5a5a5a5a5a5a5a5a5a5a P",
				"00800000 00000064 00000001 8000 5a5a 00000000 6b0db1b6000608c0 6b0db1b600060a15 6b0db1b600060ede 00000000 5a5a5a5a5a5a5a5a5a5a5a5a P"},
			{"00800000 00000064 00000001 8000 5a5a 00000000 6b0db1b600060f83 ffffffffffffffff ffffffffffffffff 00000000 5a5a5a5a5a5a5a5a5a5a5a5a P",
				"00800000 00000064 00000001 8000 5a5a 00000000 6b0db1b600060f83 6b0db1b6000610be 6b0db1b6000610be 00000000 5a5a5a5a5a5a5a5a5a5a5a5a P"},
			{"00800000 00000064 00000001 8000 5a5a 00000000 6b0db1b6000611a0 ffffffffffffffff ffffffffffffffff 00000000 5a5a5a5a5a5a5a5a5a5a5a5a P",
				"00800000 00000064 00000001 8000 5a5a 00000000 6b0db1b6000611a0 6b0db1b6000612c4 6b0db1b6000612c5 00000000 5a5a5a5a5a5a5a5a5a5a5a5a P"},
		}},
		"2.1.8 trip-times": {offset: 28, exchanges: [][2]string{
			{"00800000 00000064 00000001 c000 5a5a 00000000 6b0db1b8000d4708 ffffffffffffffff ffffffffffffffff 00000000 5a5a5a5a5a5a5a5a5a5a5a5a P",
				"00800000 00000064 00000001 c000 5a5a 00000000 6b0db1b8000d4708 6b0db1b8000d48ba 6b0db1b8000d4e7d 00000000 5a5a5a5a5a5a5a5a5a5a5a5a P"},
			{"00800000 00000064 00000001 c000 5a5a 00000000 6b0db1b8000d4f18 ffffffffffffffff ffffffffffffffff 00000000 5a5a5a5a5a5a5a5a5a5a5a5a P",
				"00800000 00000064 00000001 c000 5a5a 00000000 6b0db1b8000d4f18 6b0db1b8000d5008 6b0db1b8000d5008 00000000 5a5a5a5a5a5a5a5a5a5a5a5a P"},
		}},
		// Hold, TOS and zeros as padding: 128 bytes.
		"2.1.7": {offset: 24, exchanges: [][2]string{
			{"10000000 00000080 00000001 e000 0020 6b0da90500083ee8 ffffffffffffffff ffffffffffffffff 00002710 5a5a5a5a5a5a5a5a5a5a5a5a" + strings.Repeat(" 0000000000000000", 9),
				"10000000 00000080 00000001 e000 0020 6b0da90500083ee8 6b0da90500084024 6b0da90500086ddb 00002710 5a5a5a5a5a5a5a5a5a5a5a5a" + strings.Repeat(" 0000000000000000", 9)},
		}},
		"2.2.1 reply size": {offset: 28, replies: 500, exchanges: [][2]string{
			{"00800000 000000c8 00000001 8800 5a5a 00000000 6b0daeee000e8d3b ffffffffffffffff ffffffffffffffff 00000000 5a5a5a5a5a5a5a5a5a5a5a5a 000001f4" + strings.Repeat(" 3132333435363738", 17),
				"00800000 000000c8 00000001 8800 5a5a 00000000 6b0daeee000e8d3b 6b0daeee000e995a 6b0daeee000e9a45 00000000 5a5a5a5a5a5a5a5a5a5a5a5a 000001f4" + strings.Repeat(" 3132333435363738", 17)},
		}},
		// Both start bits: the answer tells the layout, B or C.
		"all layouts": {offset: 28, exchanges: [][2]string{
			{"10800000 00000064 00000001 8000 5a5a ffffffffffffffff ffffffffffffffff ffffffffffffffff 00000000 00000000 5a5a5a5a5a5a5a5a5a5a5a5a P",
				"10800000 00000064 00000001 8000 5a5a ffffffffffffffff ffffffff 6b0db1b600060a15 6b0db1b600060ede 00000000 5a5a5a5a5a5a5a5a5a5a5a5a P"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			clock := &scripted{times: []time.Time{{}}} // the accept's
			for _, x := range tc.exchanges {
				receive, send := stamps(unhex(t, x[1]), tc.offset)
				clock.times = append(clock.times, receive, send)
			}
			r, addr := start(t, Options{Clock: clock.now})
			c := dial(t, addr)
			for i, x := range tc.exchanges {
				request, want := unhex(t, x[0]), unhex(t, x[1])
				write(t, c, request)
				got := read(t, c, max(len(want), tc.replies))
				if !bytes.Equal(got[:len(want)], want) {
					t.Errorf("reply %d\n got %x\nwant %x", i, got[:len(want)], want)
				}
			}
			end(t, c)
			if s := settled(t, r); s.Bounces != uint64(len(tc.exchanges)) || s.Tests != 1 || s.Acks != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// The ack comes first and has our version, or the emulated one; with trip-times it
// has the three stamps.
func TestAcks(t *testing.T) {
	const request = "02800000 00000064 00000001 %s 5a5a 00000000 6b0df1150009731e ffffffffffffffff ffffffffffffffff 00000000 5a5a5a5a5a5a5a5a5a5a5a5a P"
	const versionRequest = `40010078 00000001 00001389 00000000 00000000 ffffff38 00000000 00000000
		00000000 00020001 00080003 00000000 00000000 00000000 00000000`
	accepted, received, acked, sent := time.Unix(1, 2000), time.Unix(3, 4000), time.Unix(5, 6000), time.Unix(7, 8000)
	for name, tc := range map[string]struct {
		emulate *Emulation
		request string
		times   []time.Time
		want    string
	}{
		"own": {nil, strings.Replace(request, "%s", "8000", 1), []time.Time{accepted, received, acked, sent},
			`00000002 0000001c 00000000 00020002 00630000 00000000 00000000
			02800000 00000064 00000001 8000 5a5a 00000000 6b0df1150009731e 0000000300000004 0000000700000008 00000000 5a5a5a5a5a5a5a5a5a5a5a5a P`},
		"own, trip-times": {nil, strings.Replace(request, "%s", "c000", 1), []time.Time{accepted, received, acked, sent},
			`00000002 00000034 00000000 00020002 00630000 00000000 00000000 6b0df115 0009731e 00000001 00000002 00000005 00000006
			02800000 00000064 00000001 c000 5a5a 00000000 6b0df1150009731e 0000000300000004 0000000700000008 00000000 5a5a5a5a5a5a5a5a5a5a5a5a P`},
		"compatibility mode": {&Emulation{NoAck: true}, strings.Replace(request, "%s", "8000", 1), []time.Time{accepted, received, sent},
			`02800000 00000064 00000001 8000 5a5a 00000000 6b0df1150009731e 0000000300000004 0000000700000008 00000000 5a5a5a5a5a5a5a5a5a5a5a5a P`},
		"2.1.9": {&Emulation{Version: version(2, 1, 9, 3)}, strings.Replace(request, "%s", "8000", 1), []time.Time{accepted, received, acked, sent},
			`00000002 0000001c 00000000 00020001 00090003 00000000 00000000
			02800000 00000064 00000001 8000 5a5a 00000000 6b0df1150009731e 0000000300000004 0000000700000008 00000000 5a5a5a5a5a5a5a5a5a5a5a5a P`},
		"2.1.7": {&Emulation{Version: version(2, 1, 7, 3)}, strings.Replace(request, "%s", "8000", 1), nil,
			`00000002 0000001c 00000000 00020001 00070003 00000000 00000000`},
		"2.1.6": {&Emulation{Version: version(2, 1, 6, 3)}, strings.Replace(request, "%s", "8000", 1), nil,
			`00000002 0000001c 00000000 00020001 00060003 00000000 00000000`},
		"2.1.1":                  {&Emulation{Version: version(2, 1, 1, 3)}, strings.Replace(request, "%s", "8000", 1), nil, ``},
		"version request":        {nil, versionRequest, nil, `00000002 0000001c 00000000 00020002 00630000 00000000 00000000`},
		"version request, 2.1.1": {&Emulation{Version: version(2, 1, 1, 3)}, versionRequest, nil, `00000002 0000001c 00000000 00020001 00010003 00000000 00000000`},
	} {
		t.Run(name, func(t *testing.T) {
			clock := &scripted{times: tc.times}
			_, addr := start(t, Options{Emulate: tc.emulate, Clock: clock.now})
			c := dial(t, addr)
			write(t, c, unhex(t, tc.request))
			if err := c.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(c)
			if want := unhex(t, tc.want); err != nil || !bytes.Equal(got, want) {
				t.Errorf("\n got %x, %v\nwant %x", got, err, want)
			}
		})
	}
}
