package wire

import "encoding/binary"

// Stamp is a wall clock time as iperf 2 writes it: whole seconds since the Unix
// epoch and microseconds, 32 bits each. The server truncates to the microsecond.
type Stamp struct {
	Seconds      uint32
	Microseconds uint32
}

// unfilled is what iperf clients put where the server will write its stamps.
const unfilled = 0xffffffff

// StampFromUnixNano converts wall clock nanoseconds since the Unix epoch,
// truncating to the microsecond. Times before 1970 or after 2106 wrap, as they
// do in iperf 2.
func StampFromUnixNano(ns int64) Stamp {
	s := ns / 1e9
	rest := ns % 1e9
	if rest < 0 {
		s, rest = s-1, rest+1e9
	}
	return Stamp{Seconds: uint32(s), Microseconds: uint32(rest / 1e3)}
}

// UnixNano is the stamp as nanoseconds since the Unix epoch.
func (s Stamp) UnixNano() int64 {
	return int64(s.Seconds)*1e9 + int64(s.Microseconds)*1e3
}

// Valid tells whether the microseconds are below one million. Every stamp a real
// server writes is valid; the 0xff filling of a request is not.
func (s Stamp) Valid() bool { return s.Microseconds < 1e6 }

func putStamp(b []byte, s Stamp) {
	binary.BigEndian.PutUint32(b, s.Seconds)
	binary.BigEndian.PutUint32(b[4:], s.Microseconds)
}

func getStamp(b []byte) Stamp {
	return Stamp{binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])}
}
