package wire

import (
	"bytes"
	"testing"
	"time"
)

// The headers that docs/PROTOCOL.md gives literally, for two seconds. They were fed
// to servers of seven builds.
const (
	literalVersionRequest = `40010078 00000001 00001389 00000000 00000000 ffffff38 00000000 00000000
		00000000 00020001 00080003 00000000 00000000 00000000 00000000`
	literalUp = `44010078 00000001 00001389 00000000 00000000 ffffff38 00000000 00000000
		00000000 00020001 00080003 00000000 00000000 00000000 00000000`
	literalDown = `44010078 00000001 00001389 00000000 00000000 ffffff38 00000000 00000000
		04000000 00020001 00080003 00000000 00000000 00000000 00000000`
	literalBoth = `44010078 00000001 00001389 00000000 00000000 ffffff38 00000000 00000000
		08000000 00020001 00080003 00000000 00000000 00000000 00000000`
)

func TestGoldenTestHeaders(t *testing.T) {
	for name, tc := range map[string]struct {
		header  TestHeader
		literal string
	}{
		"up":           {TestHeader{Direction: Up, Duration: 2 * time.Second}, literalUp},
		"up with ack":  {TestHeader{Direction: Up, Duration: 2 * time.Second, Ack: true}, literalVersionRequest},
		"down":         {TestHeader{Direction: Down, Duration: 2 * time.Second}, literalDown},
		"both":         {TestHeader{Direction: Both, Duration: 2 * time.Second}, literalBoth},
		"rounded up":   {TestHeader{Direction: Both, Duration: 1990*time.Millisecond + 1}, literalBoth},
		"one unit low": {TestHeader{Direction: Down, Duration: 1991 * time.Millisecond}, literalDown},
	} {
		want := unhex(t, tc.literal)
		got := bytes.Repeat([]byte{0xee}, TestHeaderLen+1)
		if err := tc.header.Put(got); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got[:TestHeaderLen], want) || got[TestHeaderLen] != 0xee {
			t.Errorf("%s\n got %x\nwant %x", name, got, want)
		}
		back, err := DecodeTestRequest(got)
		if err != nil || back.Direction != tc.header.Direction || back.Ack != tc.header.Ack || back.Duration != 2*time.Second {
			t.Errorf("%s reads as %+v, %v", name, back, err)
		}
	}
	got := make([]byte, TestHeaderLen)
	if err := PutVersionRequest(got); err != nil || !bytes.Equal(got, unhex(t, literalVersionRequest)) {
		t.Errorf("version request %x, %v", got, err)
	}
}

// What Debian's client sends at the start of a load, and what its server answers.
func TestGoldenLoads(t *testing.T) {
	for file, want := range map[string]TestRequest{
		"debian-version-request.hex":      {Length: 60, Direction: Up, Ack: true, Duration: 2 * time.Second},
		"debian-load-up.hex":              {Length: 60, Direction: Up, Ack: true, Duration: time.Second},
		"debian-load-down.hex":            {Length: 60, Direction: Down, Duration: time.Second},
		"debian-load-both.hex":            {Length: 60, Direction: Both, Duration: time.Second},
		"debian-load-up-trip-times.hex":   {Length: 80, Direction: Up, Ack: true, TripTimes: true, Duration: time.Second},
		"debian-load-down-trip-times.hex": {Length: 80, Direction: Down, TripTimes: true, Duration: time.Second},
		"debian-load-both-trip-times.hex": {Length: 80, Direction: Both, TripTimes: true, Duration: time.Second},
		"debian-reverse-tos-rate.hex":     {Length: 60, Direction: Down, Duration: time.Second, TOS: 0x20, Rate: 8_000_000},
		"debian-reverse-bytes.hex":        {Length: 60, Direction: Down, Bytes: 1 << 20},
	} {
		want.Version = Version{Upper: 2, Lower: 1, Patch: 8, Stage: StageRelease}
		m := capture(t, file)
		header := m[0].bytes
		if want.TripTimes {
			want.Start = Stamp{word(header, 64), word(header, 68)}
		}
		if k := ClassifyFirst(word(header, 0)); k != FirstTest {
			t.Errorf("%s: kind %d", file, k)
		}
		got, err := DecodeTestRequest(header)
		if err != nil || got != want {
			t.Errorf("%s reads as\n%+v, %v, want\n%+v", file, got, err, want)
		}
		for _, c := range m {
			if !c.fromServer {
				continue
			}
			if acked := IsAck(c.bytes); acked != want.Ack {
				t.Errorf("%s: the server's first bytes are an ack: %t, the header asks for one: %t", file, acked, want.Ack)
			}
			break
		}
	}
}

// The bursts of Debian's client and server, and ours beside them in the fields that
// are read.
func TestGoldenBursts(t *testing.T) {
	m := capture(t, "debian-load-both-trip-times.hex")
	first, second, header, reply := m[1].bytes, m[2].bytes, m[3].bytes, m[4].bytes
	for i, b := range [][]byte{first, second} {
		h, err := DecodeBurstHeader(b)
		if err != nil || h.Number != uint32(i+1) || h.Size != 100 {
			t.Errorf("the client's burst %d: %+v, %v", i+1, h, err)
		}
	}
	h, err := DecodeBurstHeader(reply)
	if err != nil || h.Number != 1 || h.Size != 131072 {
		t.Errorf("the server's burst: %+v, %v", h, err)
	}
	start := Stamp{word(header, 64), word(header, 68)}
	if h.Start.UnixNano() < start.UnixNano() || h.Write.UnixNano() < h.Start.UnixNano() {
		t.Errorf("the server's burst starts %v and is written %v, its header says %v", h.Start, h.Write, start)
	}
	ours := bytes.Repeat([]byte{0xee}, BurstHeaderLen+1)
	if err := h.Put(ours); err != nil {
		t.Fatal(err)
	}
	// 0 to 11 are not read; 28 to 43 are unused.
	if !bytes.Equal(ours[12:28], reply[12:28]) || !bytes.Equal(ours[44:60], reply[44:60]) || ours[BurstHeaderLen] != 0xee {
		t.Errorf("burst header\n ours %x\niperf %x", ours, reply)
	}

	for file, both := range map[string]bool{"debian-load-both-trip-times.hex": true, "debian-load-down-trip-times.hex": false} {
		m := capture(t, file)
		var iperf []byte
		for _, c := range m {
			if c.fromServer {
				iperf = c.bytes
				break
			}
		}
		ours := make([]byte, TestHeaderTripTimesLen)
		v := Version{Upper: 2, Lower: 1, Patch: 8, Stage: StageRelease}
		if err := PutTripTimesHeader(ours, both, v, Stamp{word(iperf, 64), word(iperf, 68)}); err != nil {
			t.Fatal(err)
		}
		// iperf's server repeats what is not read: port, amount, the quickack bit.
		mask := func(b []byte) []byte {
			b = bytes.Clone(b)
			clear(b[8:24])
			b[32] &^= 0x80
			return b
		}
		if !bytes.Equal(mask(ours), mask(iperf)) {
			t.Errorf("%s: server's header\n ours %x\niperf %x", file, ours, iperf)
		}
	}
}
