package wire

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"
)

// seed adds every captured message.
func seed(f *testing.F) {
	f.Helper()
	files, err := filepath.Glob("testdata/*.hex")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		for _, c := range capture(f, filepath.Base(file)) {
			f.Add(c.bytes)
		}
	}
	f.Add([]byte{})
	f.Add([]byte("GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: something that is long enough\r\n\r\n"))
	f.Add(bytes.Repeat([]byte{0xff}, 128))
	f.Add(bytes.Repeat([]byte{0}, 128))
}

// typed fails on an error that is none of the package's.
func typed(t *testing.T, err error) {
	t.Helper()
	var short *ShortError
	var size *SizeError
	var format *FormatError
	if err != nil && !errors.As(err, &short) && !errors.As(err, &size) && !errors.As(err, &format) {
		t.Fatalf("untyped error %v", err)
	}
}

// What is read as a message is, written again and read again, the same message; and
// the reader of the measuring loop agrees with the full one.
func FuzzMessage(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, l := range []Layout{LayoutA, LayoutB, LayoutC} {
			before := bytes.Clone(b)
			m, err := DecodeMessage(l, b)
			typed(t, err)
			id, receive, send, serr := l.Stamps(b)
			typed(t, serr)
			if serr == nil {
				if err != nil || id != m.ID || receive != m.ServerReceive || send != m.ServerSend {
					t.Fatalf("%s: Stamps %d %v %v, DecodeMessage %+v, %v", l, id, receive, send, m, err)
				}
				if !receive.Valid() || !send.Valid() {
					t.Fatalf("%s: invalid stamps %v %v pass", l, receive, send)
				}
			}
			if !bytes.Equal(b, before) {
				t.Fatal("reading has written")
			}
			if err != nil {
				continue
			}
			m.Size = uint32(l.HeaderLen()) + m.Size%256
			again := make([]byte, m.Size)
			if err := m.PutRequest(again); err != nil {
				t.Fatal(err)
			}
			l.PutStamps(again, m.ServerReceive, m.ServerSend)
			got, err := DecodeMessage(l, again)
			if err != nil || got != m {
				t.Fatalf("%s: %+v\nagain %+v, %v", l, m, got, err)
			}
		}
	})
}

func FuzzAck(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		n, lerr := AckLength(b)
		typed(t, lerr)
		a, err := DecodeAck(b)
		typed(t, err)
		if lerr == nil && (!IsAck(b) || n != AckLen && n != AckLenTripTimes) {
			t.Fatalf("length %d of %x", n, b)
		}
		if err != nil {
			return
		}
		if lerr != nil || n != a.Length || n > len(b) {
			t.Fatalf("ack of %d of %d bytes, AckLength %d, %v", a.Length, len(b), n, lerr)
		}
		var again [AckLenTripTimes]byte
		if n, err := a.Put(again[:]); err != nil || n != a.Length {
			t.Fatal(n, err)
		}
		if got, err := DecodeAck(again[:n]); err != nil || got != a {
			t.Fatalf("%+v\nagain %+v, %v", a, got, err)
		}
	})
}

func FuzzTestRequest(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := DecodeTestRequest(b)
		typed(t, err)
		if err != nil {
			return
		}
		w := word(b, 0)
		if ClassifyFirst(w) != FirstTest || r.Length != TestHeaderLength(w) || r.Length > len(b) || r.Length < TestHeaderMinLen {
			t.Fatalf("%+v of first word %08x", r, w)
		}
		if r.Duration < 0 || r.Duration > 0 && r.Bytes > 0 || r.Direction < Up || r.Direction > Both || r.Rate >= 1<<56 {
			t.Fatalf("%+v", r)
		}
		// Nothing behind the header's length counts.
		if cut, err := DecodeTestRequest(b[:r.Length]); err != nil || cut != r {
			t.Fatalf("%+v\ncut to its length %+v, %v", r, cut, err)
		}
	})
}

func FuzzBurstHeader(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := DecodeBurstHeader(b)
		typed(t, err)
		if err != nil {
			return
		}
		var again [BurstHeaderLen]byte
		if err := h.Put(again[:]); err != nil {
			t.Fatal(err)
		}
		if got, err := DecodeBurstHeader(again[:]); err != nil || got != h {
			t.Fatalf("%+v\nagain %+v, %v", h, got, err)
		}
	})
}
