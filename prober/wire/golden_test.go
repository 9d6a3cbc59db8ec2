package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// captured is one message of a capture.
type captured struct {
	fromServer bool
	bytes      []byte
}

// capture reads a file of testdata.
func capture(t testing.TB, name string) []captured {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var out []captured
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		b := unhex(t, line[1:])
		if line[0] != '>' && line[0] != '<' {
			t.Fatalf("%s: a line that begins with neither > nor <: %s", name, line)
		}
		out = append(out, captured{line[0] == '<', b})
	}
	if len(out) == 0 {
		t.Fatalf("%s: no messages", name)
	}
	return out
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// word is a 32-bit field of a captured message.
func word(b []byte, offset int) uint32 { return binary.BigEndian.Uint32(b[offset:]) }

// bounces are the captures of bounce connections. What a client sent before Header
// bytes must be what we send; Padded tells that the rest is there as well.
var bounces = []struct {
	file   string
	layout Layout
	want   Message // of the first request, without its stamp
	ids    []uint32
	padded bool
}{
	{"2.1.7-all-options.hex", LayoutA, Message{Size: 128, Flags: FlagQuickAck | FlagTripTimes | FlagTOS, TOS: 0x20, Hold: 10000}, []uint32{1}, false},
	{"2.1.8-bounce.hex", LayoutB, Message{Size: 100, Flags: FlagQuickAck}, []uint32{1, 1, 1}, true},
	{"2.1.8-trip-times.hex", LayoutB, Message{Size: 100, Flags: FlagQuickAck | FlagTripTimes}, []uint32{1, 1, 1}, true},
	{"2.2.1-reply-size.hex", LayoutC, Message{Size: 200, Flags: FlagQuickAck | FlagReplySize, ReplySize: 500}, []uint32{1}, false},
	{"debian-bounce.hex", LayoutB, Message{Size: 100, Flags: FlagQuickAck}, []uint32{1, 1, 1}, true},
	{"debian-trip-times.hex", LayoutB, Message{Size: 100, Flags: FlagQuickAck | FlagTripTimes}, []uint32{1, 1, 1}, true},
	{"debian-hold-tos.hex", LayoutB, Message{Size: 100, Flags: FlagQuickAck | FlagTripTimes | FlagTOS, TOS: 0x20, Hold: 20000}, []uint32{1, 1, 1}, true},
	{"debian-no-quickack-68.hex", LayoutB, Message{Size: 68}, []uint32{1, 1, 1}, true},
	{"debian-back-to-back.hex", LayoutB, Message{Size: 100, Flags: FlagQuickAck}, []uint32{1, 2, 3, 4}, true},
}

// What iperf clients sent is, byte for byte, what we send for the same options, and
// reads as them; what the servers answered is what PutStamps makes of the request.
func TestGoldenBounces(t *testing.T) {
	for _, tc := range bounces {
		t.Run(tc.file, func(t *testing.T) {
			messages := capture(t, tc.file)
			if len(messages) != 2*len(tc.ids) {
				t.Fatalf("%d messages, want %d", len(messages), 2*len(tc.ids))
			}
			ours := make([]byte, tc.want.Size)
			for i, id := range tc.ids {
				request, reply := messages[2*i], messages[2*i+1]
				if request.fromServer || !reply.fromServer {
					t.Fatalf("bounce %d is not a request and its reply", i)
				}
				want := tc.want
				want.Layout, want.ID = tc.layout, id
				stamps := tc.layout.stampOffset()
				want.ClientSend = Stamp{word(request.bytes, stamps), word(request.bytes, stamps+4)}

				// Written by us: the first one whole, the others by Patch.
				if i == 0 {
					if err := want.PutRequest(ours); err != nil {
						t.Fatal(err)
					}
				} else {
					want.Patch(ours, id, want.ClientSend)
				}
				same := len(request.bytes)
				if tc.padded && same != int(want.Size) {
					t.Fatalf("the capture has %d bytes of %d", same, want.Size)
				}
				if !bytes.Equal(ours[:same], request.bytes) {
					t.Errorf("request %d\n ours %x\niperf %x", i, ours[:same], request.bytes)
				}

				// Read by us.
				got, err := DecodeMessage(tc.layout, request.bytes)
				want.ServerReceive, want.ServerSend = Stamp{unfilled, unfilled}, Stamp{unfilled, unfilled}
				if err != nil || got != want {
					t.Errorf("request %d reads as\n %+v, %v, want\n %+v", i, got, err, want)
				}
				if _, _, _, err := tc.layout.Stamps(request.bytes); err == nil {
					t.Errorf("request %d passes for a reply", i)
				}
				got, err = DecodeMessage(tc.layout, reply.bytes)
				want.ServerReceive = Stamp{word(reply.bytes, stamps+8), word(reply.bytes, stamps+12)}
				want.ServerSend = Stamp{word(reply.bytes, stamps+16), word(reply.bytes, stamps+20)}
				if err != nil || got != want {
					t.Errorf("reply %d reads as\n %+v, %v, want\n %+v", i, got, err, want)
				}
				gotID, receive, send, err := tc.layout.Stamps(reply.bytes)
				if err != nil || gotID != id || receive != want.ServerReceive || send != want.ServerSend {
					t.Errorf("stamps of reply %d: id %d, %v, %v, %v", i, gotID, receive, send, err)
				}

				// Answered by us.
				answer := bytes.Clone(request.bytes)
				tc.layout.PutStamps(answer, receive, send)
				if !bytes.Equal(answer, reply.bytes) {
					t.Errorf("reply %d\n ours %x\niperf %x", i, answer, reply.bytes)
				}
			}
		})
	}
}

// The stamps of the worked example, by hand: 870586 us and 872061 us, the server's
// turnaround 1.475 ms.
func TestGoldenTurnaround(t *testing.T) {
	_, receive, send, err := LayoutB.Stamps(capture(t, "2.1.8-trip-times.hex")[1].bytes)
	if err != nil || receive.Microseconds != 870586 || send.Microseconds != 872061 {
		t.Fatalf("%v, %v, %v", receive, send, err)
	}
	if d := time.Duration(send.UnixNano() - receive.UnixNano()); d != 1475*time.Microsecond {
		t.Errorf("turnaround %s", d)
	}
}

// Debian's server answers our request for an ack with its version and then with the
// reply, of the same bytes as ever.
func TestGoldenAcks(t *testing.T) {
	debian := Version{Upper: 2, Lower: 1, Patch: 8, Stage: StageRelease}
	for _, tc := range []struct {
		file   string
		length int
		flags  Flags
	}{
		{"debian-ack.hex", AckLen, FlagQuickAck},
		{"debian-ack-trip-times.hex", AckLenTripTimes, FlagQuickAck | FlagTripTimes},
	} {
		m := capture(t, tc.file)
		request, ack, reply := m[0].bytes, m[1].bytes, m[2].bytes
		sent := Stamp{word(request, 20), word(request, 24)}
		want := Message{Layout: LayoutC, AckRequest: true, Size: 100, ID: 1, Flags: tc.flags, ClientSend: sent}
		ours := make([]byte, 100)
		if err := want.PutRequest(ours); err != nil || !bytes.Equal(ours, request) {
			t.Errorf("%s: request\n ours %x, %v\nsent  %x", tc.file, ours, err, request)
		}
		got, err := DecodeAck(ack)
		wantAck := Ack{Length: tc.length, Version: debian}
		if tc.length == AckLenTripTimes {
			wantAck.ClientSend = sent
			wantAck.Accepted = Stamp{word(ack, 36), word(ack, 40)}
			wantAck.Sent = Stamp{word(ack, 44), word(ack, 48)}
			if r, s := got.Accepted.UnixNano(), got.Sent.UnixNano(); r > s || s-r > 1e9 {
				t.Errorf("%s: accepted %d, ack sent %d", tc.file, r, s)
			}
		}
		if err != nil || got != wantAck {
			t.Errorf("%s: ack %+v, %v, want %+v", tc.file, got, err, wantAck)
		}
		again := make([]byte, AckLenTripTimes)
		if n, err := got.Put(again); err != nil || !bytes.Equal(again[:n], ack) {
			t.Errorf("%s: ack\n ours %x, %v\niperf %x", tc.file, again[:n], err, ack)
		}
		// The reply keeps the ack bit of the request.
		if _, _, _, err := LayoutC.Stamps(reply); err != nil {
			t.Errorf("%s: reply: %v", tc.file, err)
		}
	}
}
