package wire

import (
	"errors"
	"math"
	"testing"
	"time"
)

// Each error is of the type that its function promises, and says what was found.
func TestErrors(t *testing.T) {
	short := func(err error) bool { var e *ShortError; return errors.As(err, &e) && e.Got < e.Need }
	size := func(err error) bool { var e *SizeError; return errors.As(err, &e) && e.Got < e.Min }
	format := func(err error) bool { var e *FormatError; return errors.As(err, &e) }
	request := make([]byte, 100)
	m := Message{Layout: LayoutC, Size: 100, ID: 1}
	if err := m.PutRequest(request); err != nil {
		t.Fatal(err)
	}
	ack := make([]byte, AckLen)
	a := Ack{Version: V2_2_0}
	if _, err := a.Put(ack); err != nil {
		t.Fatal(err)
	}
	with := func(b []byte, offset int, v ...byte) []byte {
		b = append([]byte(nil), b...)
		copy(b[offset:], v)
		return b
	}
	second := func(_ any, err error) error { return err }
	stamps := func(l Layout, b []byte) error { _, _, _, err := l.Stamps(b); return err }
	for name, tc := range map[string]struct {
		err error
		is  func(error) bool
	}{
		"request buffer":      {m.PutRequest(make([]byte, 99)), short},
		"request size A":      {(&Message{Layout: LayoutA, Size: 55}).PutRequest(request), size},
		"request size B":      {(&Message{Layout: LayoutB, Size: 59}).PutRequest(request), size},
		"request size C":      {(&Message{Layout: LayoutC, Size: 63}).PutRequest(request), size},
		"stamps short A":      {stamps(LayoutA, request[:39]), short},
		"stamps short B":      {stamps(LayoutB, request[:43]), short},
		"stamps word":         {stamps(LayoutB, with(request, 0, 0x10, 0, 0, 0)), format},
		"stamps word A":       {stamps(LayoutA, request), format},
		"stamps unfilled":     {stamps(LayoutC, request), format},
		"stamps second":       {stamps(LayoutC, with(request, 32, 0, 0, 0, 1)), format},
		"message short":       {second(DecodeMessage(LayoutB, request[:43])), short},
		"message word":        {second(DecodeMessage(LayoutA, request)), format},
		"ack buffer":          {second(a.Put(make([]byte, 27))), short},
		"ack buffer 52":       {second((&Ack{Length: 52}).Put(make([]byte, 51))), short},
		"ack head":            {second(AckLength(ack[:7])), short},
		"ack body":            {second(DecodeAck(ack[:27])), short},
		"ack type":            {second(DecodeAck(request)), format},
		"ack length":          {second(DecodeAck(with(ack, 4, 0, 0, 0, 29))), format},
		"ack huge":            {second(DecodeAck(with(ack, 4, 0xff, 0xff, 0xff, 0xff))), format},
		"header buffer":       {(&TestHeader{}).Put(make([]byte, 59)), short},
		"version request":     {PutVersionRequest(make([]byte, 59)), short},
		"test request short":  {second(DecodeTestRequest(make([]byte, 35))), short},
		"test request word":   {second(DecodeTestRequest(make([]byte, 60))), format},
		"test request text":   {second(DecodeTestRequest([]byte("GET /metrics HTTP/1.1\r\nHost: localhost:5001\r\n"))), format},
		"test request cut":    {second(DecodeTestRequest(unhex(t, literalDown)[:59])), short},
		"test request length": {second(DecodeTestRequest(with(unhex(t, literalDown), 3, 2*35))), format},
		"burst short":         {second(DecodeBurstHeader(make([]byte, 91))), short},
		"burst size":          {second(DecodeBurstHeader(with(make([]byte, 92), 51, 91))), size},
		"burst buffer":        {(&BurstHeader{}).Put(make([]byte, 91)), short},
		"server header":       {PutTripTimesHeader(make([]byte, 79), true, V2_2_0, Stamp{}), short},
	} {
		if !tc.is(tc.err) {
			t.Errorf("%s: %v (%T)", name, tc.err, tc.err)
		}
	}
	err := stamps(LayoutB, with(request, 0, 0, 0, 0, 0x64))
	if want := "reply's first word is 0x00000064, which no iperf 2 writes there"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// A reply that is as long as its stamps is read; the fields behind are zero.
func TestShortestReply(t *testing.T) {
	for _, l := range []Layout{LayoutA, LayoutB, LayoutC} {
		b := make([]byte, 100)
		m := Message{Layout: l, Size: 100, ID: 7, Hold: 5, ReplySize: 44}
		if err := m.PutRequest(b); err != nil {
			t.Fatal(err)
		}
		l.PutStamps(b, Stamp{1, 2}, Stamp{3, 4})
		b = b[:l.stampsEnd()]
		id, receive, send, err := l.Stamps(b)
		if err != nil || id != 7 || receive != (Stamp{1, 2}) || send != (Stamp{3, 4}) {
			t.Errorf("%s: %d, %v, %v, %v", l, id, receive, send, err)
		}
		got, err := DecodeMessage(l, b)
		if err != nil || got.Hold != 0 || got.ReplySize != 0 || got.ServerSend != send {
			t.Errorf("%s: %+v, %v", l, got, err)
		}
	}
}

// The ack bit is sent with the first message only.
func TestPatchClearsAckRequest(t *testing.T) {
	b := make([]byte, 100)
	m := Message{Layout: LayoutC, AckRequest: true, Size: 100, ID: 1}
	if err := m.PutRequest(b); err != nil {
		t.Fatal(err)
	}
	if w := word(b, 0); w != 0x02800000 {
		t.Errorf("first word %08x", w)
	}
	m.Patch(b, 0xfffffffe, Stamp{5, 6})
	got, err := DecodeMessage(LayoutC, b)
	if err != nil || got.AckRequest || got.ID != 0xfffffffe || got.ClientSend != (Stamp{5, 6}) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestHoldMicroseconds(t *testing.T) {
	for d, want := range map[time.Duration]uint32{
		0: 0, -1: 0, -time.Hour: 0, 999: 0, time.Microsecond: 1, 20 * time.Millisecond: 20000,
		time.Hour: 3_600_000_000, 72 * time.Minute: math.MaxUint32, math.MaxInt64: math.MaxUint32,
	} {
		if got := HoldMicroseconds(d); got != want {
			t.Errorf("%s: %d, want %d", d, got, want)
		}
	}
}

// The load's time is never shorter than asked for, and never wraps.
func TestHeaderDuration(t *testing.T) {
	for d, want := range map[time.Duration]time.Duration{
		-time.Second: 10 * time.Millisecond, 0: 10 * time.Millisecond, 1: 10 * time.Millisecond,
		10 * time.Millisecond: 10 * time.Millisecond, 10*time.Millisecond + 1: 20 * time.Millisecond,
		time.Minute:   time.Minute,
		math.MaxInt64: (1<<31 - 1) * 10 * time.Millisecond,
	} {
		b := make([]byte, TestHeaderLen)
		if err := (&TestHeader{Direction: Down, Duration: d}).Put(b); err != nil {
			t.Fatal(err)
		}
		got, err := DecodeTestRequest(b)
		if err != nil || got.Duration != want || got.Bytes != 0 {
			t.Errorf("%s: reads as %s, %d bytes, %v", d, got.Duration, got.Bytes, err)
		}
	}
}

func TestStamp(t *testing.T) {
	for ns, want := range map[int64]Stamp{
		0: {0, 0}, 999: {0, 0}, 1999: {0, 1}, 1_999_999_999: {1, 999_999},
		1796074940_588833999: {1796074940, 588833},
		-1:                   {math.MaxUint32, 999_999}, // wraps, but is a stamp
	} {
		got := StampFromUnixNano(ns)
		if got != want || !got.Valid() {
			t.Errorf("%d ns: %v, want %v", ns, got, want)
		}
		if back := got.UnixNano(); ns >= 0 && (back > ns || ns-back >= 1000) {
			t.Errorf("%d ns: back %d", ns, back)
		}
	}
	if (Stamp{1, 1_000_000}).Valid() || (Stamp{unfilled, unfilled}).Valid() {
		t.Error("a stamp of a million microseconds passes")
	}
}

func TestVersion(t *testing.T) {
	order := []Version{{2, 0, 13, 3}, {2, 1, 6, 3}, V2_1_7, V2_1_8, V2_1_9, V2_2_0, {2, 2, 1, 1}, {2, 2, 99, 0}, {3, 0, 0, 0}}
	for i, v := range order {
		for j, w := range order {
			if v.Less(w) != (i < j) {
				t.Errorf("%s < %s: %t", v, w, v.Less(w))
			}
		}
	}
	if V2_1_8.Less(Version{2, 1, 8, 0}) || (Version{2, 1, 8, 0}).Less(V2_1_8) {
		t.Error("the stage decides an order")
	}
	for v, known := range map[Version]bool{
		{2, 0, 0, 0}: true, {2, 9, 99, 9}: true, {2, 10, 0, 0}: false, {2, 1, 100, 0}: false, {1, 9, 0, 0}: false,
		{3, 0, 0, 0}: false, {}: false, {0xffff, 0xffff, 0xffff, 0xffff}: false,
	} {
		if v.Known() != known {
			t.Errorf("%s known: %t", v, v.Known())
		}
	}
	if s := V2_1_8.String(); s != "2.1.8" {
		t.Error(s)
	}
}

func TestClassifyFirst(t *testing.T) {
	text := func(s string) uint32 { return word([]byte(s), 0) }
	for w, want := range map[uint32]FirstWord{
		0x00800000: FirstBounce, 0x02800000: FirstBounce, 0x10800000: FirstBounce, 0xffffffff: FirstBounce,
		0x10000000: FirstBounceA, 0x12000000: FirstBounceA,
		0x40010078: FirstTest, 0x44010078: FirstTest, 0x440100a0: FirstTest, 0x46010078: FirstTest,
		0x5401007c: FirstTest, // a permit key follows
		0x80000001: FirstTest, // legacy dual test
		0:          FirstData, text("0123"): FirstData,
		text("GET "): FirstOther, text("POST"): FirstOther, text("PRI "): FirstOther, text("SSH-"): FirstOther,
		text("\x16\x03\x01\x02"): FirstOther, text("\x16\x03\x03\x00"): FirstOther, // TLS
		1: FirstOther, 0x02000000: FirstOther, 0x14000000 | 1<<17: FirstOther,
	} {
		if got := ClassifyFirst(w); got != want {
			t.Errorf("%08x: %d, want %d", w, got, want)
		}
	}
	for a := byte(' '); a <= '~'; a++ {
		for b := byte(' '); b <= '~'; b++ {
			if s := string([]byte{a, b, '2', '3'}); s != "0123" && ClassifyFirst(text(s)) != FirstOther {
				t.Errorf("text %q is taken for iperf", s)
			}
		}
	}
}

// What a client leaves out of a short header is zero.
func TestShortTestHeader(t *testing.T) {
	b := unhex(t, literalBoth)
	b[46], b[47], b[51] = 0, 0x20, 9
	b[3] = 36 << 1
	got, err := DecodeTestRequest(b)
	want := TestRequest{Length: 36, Direction: Both, Duration: 2 * time.Second}
	if err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if n := TestHeaderLength(word(b, 0)); n != 36 {
		t.Errorf("length %d", n)
	}
	if n := TestHeaderLength(0x80000001); n != 0 {
		t.Errorf("length %d of a header that tells none", n)
	}
	// A rate above 32 bits, in its odd upper half.
	copy(b, unhex(t, literalDown))
	copy(b[48:], unhex(t, "540be400 00000200")) // 10 Gbit/s
	if got, err := DecodeTestRequest(b); err != nil || got.Rate != 10_000_000_000 {
		t.Errorf("rate %d, %v", got.Rate, err)
	}
	b[32] |= 0x40
	copy(b[56:], unhex(t, "00004000"))
	if got, err := DecodeTestRequest(b); err != nil || got.LowWater != 16384 {
		t.Errorf("low-water mark %d, %v", got.LowWater, err)
	}
}

func TestNames(t *testing.T) {
	for got, want := range map[string]string{
		LayoutA.String(): "A (2.1.7)", LayoutB.String(): "B (2.1.8, 2.1.9)", LayoutC.String(): "C (2.2.0 and newer)",
		Layout(9).String(): "Layout(9)", Up.String(): "up", Down.String(): "down", Both.String(): "both", Direction(0).String(): "unknown",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for l, want := range map[Layout]int{LayoutA: 60, LayoutB: 64, LayoutC: MinSize} {
		if l.MinSize() != want {
			t.Errorf("smallest message of %s: %d", l, l.MinSize())
		}
	}
}

// What runs between two bounces allocates nothing.
func TestAllocations(t *testing.T) {
	b := make([]byte, 1470)
	ack := make([]byte, AckLenTripTimes)
	a := Ack{Length: AckLenTripTimes, Version: V2_2_0}
	if _, err := a.Put(ack); err != nil {
		t.Fatal(err)
	}
	header := make([]byte, BurstHeaderLen)
	var sink int64
	for _, l := range []Layout{LayoutA, LayoutB, LayoutC} {
		m := Message{Layout: l, Size: 1470, ID: 1, Flags: FlagTOS}
		for name, f := range map[string]func(){
			"PutRequest": func() { _ = m.PutRequest(b) },
			"Patch":      func() { m.Patch(b, 2, StampFromUnixNano(1e18)) },
			"PutStamps":  func() { l.PutStamps(b, Stamp{1, 2}, Stamp{3, 4}) },
			"Stamps": func() {
				_, r, s, err := l.Stamps(b)
				if err != nil {
					t.Fatal(err)
				}
				sink += s.UnixNano() - r.UnixNano()
			},
			"DecodeMessage": func() { d, _ := DecodeMessage(l, b); sink += int64(d.Size) },
			"DecodeAck":     func() { d, _ := DecodeAck(ack); sink += int64(d.Length) },
			"Ack.Put":       func() { _, _ = a.Put(ack) },
			"TestHeader":    func() { _ = (&TestHeader{Direction: Both, Duration: time.Second}).Put(b[:60]) },
			"BurstHeader":   func() { _ = (&BurstHeader{Number: 1, Size: 92}).Put(header) },
		} {
			if err := m.PutRequest(b); err != nil {
				t.Fatal(err)
			}
			l.PutStamps(b, Stamp{1, 2}, Stamp{3, 4})
			if n := testing.AllocsPerRun(100, f); n != 0 {
				t.Errorf("%s of layout %s: %g allocations", name, l, n)
			}
		}
	}
	_ = sink
}
