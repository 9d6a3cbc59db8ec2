package prober

import (
	"encoding/binary"
	"testing"
	"time"
)

// info is a struct tcp_info as long as a kernel makes it, each field a number of
// its own.
func info(n int) []byte {
	b := make([]byte, n)
	put := func(off int, v uint32) {
		if off+4 <= n {
			binary.NativeEndian.PutUint32(b[off:], v)
		}
	}
	put(tcpiSndMSS, 1448)
	put(tcpiRTT, 2000)
	put(tcpiRTTVar, 300)
	put(tcpiSndCwnd, 10)
	put(tcpiTotalRetr, 7)
	put(tcpiMinRTT, 1500)
	for off, v := range map[int]uint64{tcpiBytesAcked: 1 << 40, tcpiBytesRecvd: 1<<40 + 5} {
		if off+8 <= n {
			binary.NativeEndian.PutUint64(b[off:], v)
		}
	}
	return b
}

// Kernels return as much as they know of; the rest is absent, not zero.
func TestTCPInfoByLength(t *testing.T) {
	for _, tc := range []struct {
		n                                        int
		rtt, retransmits, acked, received, least bool
	}{
		{0, false, false, false, false, false},
		{68, false, false, false, false, false},
		{72, true, false, false, false, false},
		{103, true, false, false, false, false},
		{104, true, true, false, false, false}, // Linux 2.6 to 3.14
		{127, true, true, false, false, false},
		{128, true, true, true, false, false},
		{151, true, true, true, true, false},
		{192, true, true, true, true, true}, // Linux 4.9 and so on
		{232, true, true, true, true, true},
		{280, true, true, true, true, true},
	} {
		got := TCPInfo{MinRTT: Some(time.Hour)} // must not survive
		parseTCPInfo(info(tc.n), &got)
		check := func(what string, ok, wanted, right bool) {
			if ok != wanted || ok && !right {
				t.Errorf("%d bytes: %s: there %v, want %v; right %v", tc.n, what, ok, wanted, right)
			}
		}
		check("rtt", got.RTT.OK, tc.rtt, got.RTT.V == 2*time.Millisecond)
		check("retransmits", got.TotalRetransmits.OK, tc.retransmits, got.TotalRetransmits.V == 7)
		check("bytes acked", got.BytesAcked.OK, tc.acked, got.BytesAcked.V == 1<<40)
		check("bytes received", got.BytesReceived.OK, tc.received, got.BytesReceived.V == 1<<40+5)
		check("min rtt", got.MinRTT.OK, tc.least, got.MinRTT.V == 1500*time.Microsecond)
		check("mss", got.MSS.OK, tc.n >= 20, got.MSS.V == 1448)
		check("cwnd", got.CongestionWindow.OK, tc.n >= 84, got.CongestionWindow.V == 10)
		check("rttvar", got.RTTVar.OK, tc.n >= 76, got.RTTVar.V == 300*time.Microsecond)
	}
}

// Before the first sample the kernel's minimum is all ones.
func TestTCPInfoUnsetMinimum(t *testing.T) {
	b := info(192)
	binary.NativeEndian.PutUint32(b[tcpiMinRTT:], 0xffffffff)
	var got TCPInfo
	parseTCPInfo(b, &got)
	if got.MinRTT.OK {
		t.Errorf("a minimum of %v", got.MinRTT.V)
	}
}

func FuzzTCPInfo(f *testing.F) {
	f.Add(info(104))
	f.Add(info(232))
	f.Fuzz(func(t *testing.T, b []byte) {
		var got TCPInfo
		parseTCPInfo(b, &got)
		if got.MinRTT.OK && len(b) < tcpiMinRTT+4 || got.RTT.OK != (len(b) >= tcpiRTT+4) {
			t.Errorf("%d bytes: %+v", len(b), got)
		}
	})
}
