package prober

import (
	"encoding/binary"
	"time"
)

// Offsets in Linux's struct tcp_info (include/uapi/linux/tcp.h). The struct only
// ever grows at its end, so a field is there if the kernel returned enough bytes.
const (
	tcpiState       = 0
	tcpiSndMSS      = 16
	tcpiRTT         = 68
	tcpiRTTVar      = 72
	tcpiSndCwnd     = 80
	tcpiRcvRTT      = 92
	tcpiTotalRetr   = 100
	tcpiBytesAcked  = 120
	tcpiBytesRecvd  = 128
	tcpiMinRTT      = 148
	tcpInfoWanted   = 232 // more than is read; newer kernels return more still
	tcpiMinRTTUnset = 1<<32 - 1
)

// parseTCPInfo reads the fields that b, as long as the kernel made it, has.
func parseTCPInfo(b []byte, t *TCPInfo) {
	*t = TCPInfo{}
	t.RTT = micros(b, tcpiRTT)
	t.RTTVar = micros(b, tcpiRTTVar)
	if t.MinRTT = micros(b, tcpiMinRTT); t.MinRTT.V == tcpiMinRTTUnset*time.Microsecond {
		t.MinRTT = Optional[time.Duration]{}
	}
	t.CongestionWindow = field32(b, tcpiSndCwnd)
	t.MSS = field32(b, tcpiSndMSS)
	t.TotalRetransmits = field32(b, tcpiTotalRetr)
	t.BytesAcked = field64(b, tcpiBytesAcked)
	t.BytesReceived = field64(b, tcpiBytesRecvd)
}

func field32(b []byte, off int) Optional[uint32] {
	if len(b) < off+4 {
		return Optional[uint32]{}
	}
	return Some(binary.NativeEndian.Uint32(b[off:]))
}

func field64(b []byte, off int) Optional[uint64] {
	if len(b) < off+8 {
		return Optional[uint64]{}
	}
	return Some(binary.NativeEndian.Uint64(b[off:]))
}

func micros(b []byte, off int) Optional[time.Duration] {
	v := field32(b, off)
	return Optional[time.Duration]{time.Duration(v.V) * time.Microsecond, v.OK}
}
