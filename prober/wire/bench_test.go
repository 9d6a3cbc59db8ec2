package wire_test

import (
	"testing"

	"github.com/bounceback-exporter/bounceback_exporter/prober/wire"
)

// What the measuring loop does with each request.
func BenchmarkPatch(b *testing.B) {
	m := wire.Message{Layout: wire.LayoutC, Size: 100, ReplySize: 100, ID: 1}
	buf := make([]byte, 100)
	if err := m.PutRequest(buf); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	ns := int64(1_800_000_000_123_456_789)
	for i := uint32(0); b.Loop(); i++ {
		ns += 50_000
		m.Patch(buf, i, wire.StampFromUnixNano(ns))
	}
}

// What it does with each reply.
func BenchmarkStamps(b *testing.B) {
	m := wire.Message{Layout: wire.LayoutC, Size: 100, ReplySize: 100, ID: 1}
	buf := make([]byte, 100)
	if err := m.PutRequest(buf); err != nil {
		b.Fatal(err)
	}
	wire.LayoutC.PutStamps(buf, wire.Stamp{Seconds: 1, Microseconds: 2}, wire.Stamp{Seconds: 1, Microseconds: 3})
	b.ReportAllocs()
	for b.Loop() {
		_, receive, send, err := wire.LayoutC.Stamps(buf)
		if err != nil || receive.UnixNano() > send.UnixNano() {
			b.Fatal(receive, send, err)
		}
	}
}

// The whole first message, by size.
func BenchmarkPutRequest(b *testing.B) {
	for _, size := range []int{100, 131072} {
		b.Run(map[int]string{100: "100", 131072: "131072"}[size], func(b *testing.B) {
			m := wire.Message{Layout: wire.LayoutC, Size: uint32(size), ReplySize: uint32(size), ID: 1}
			buf := make([]byte, size)
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				if err := m.PutRequest(buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// What a responder reads of a request.
func BenchmarkDecodeMessage(b *testing.B) {
	m := wire.Message{Layout: wire.LayoutC, Size: 100, ReplySize: 100, ID: 1}
	buf := make([]byte, 100)
	if err := m.PutRequest(buf); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.DecodeMessage(wire.LayoutC, buf); err != nil {
			b.Fatal(err)
		}
	}
}
