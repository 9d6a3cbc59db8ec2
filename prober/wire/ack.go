package wire

import (
	"encoding/binary"
	"fmt"
)

// Version is an iperf 2 release, as acks and test headers carry it.
type Version struct {
	Upper, Lower, Patch uint16
	Stage               uint16 // StageRelease, StageCandidate, else a development build
}

// Stages of a version. The release 2.2.1 calls itself a candidate.
const (
	StageRelease   = 3
	StageCandidate = 1
)

// String is U.V.P.
func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v.Upper, v.Lower, v.Patch) }

// Less orders by upper, lower and patch; the stage does not count.
func (v Version) Less(w Version) bool {
	if v.Upper != w.Upper {
		return v.Upper < w.Upper
	}
	if v.Lower != w.Lower {
		return v.Lower < w.Lower
	}
	return v.Patch < w.Patch
}

// Known tells whether the version lies between 2.0.0 and 2.9.99, the range in
// which it can be a real iperf 2's. The bytes are the peer's: outside of it they
// must not become a label.
func (v Version) Known() bool {
	return v.Upper == 2 && v.Lower <= 9 && v.Patch <= 99
}

// Releases at which the peer's behaviour changes.
var (
	V2_1_7 = Version{Upper: 2, Lower: 1, Patch: 7, Stage: StageRelease} // first with bounceback, layout A
	V2_1_8 = Version{Upper: 2, Lower: 1, Patch: 8, Stage: StageRelease} // layout B
	V2_1_9 = Version{Upper: 2, Lower: 1, Patch: 9, Stage: StageRelease} // survives instant reconnects
	V2_2_0 = Version{Upper: 2, Lower: 2, Patch: 0, Stage: StageRelease} // layout C, reply size, no hold
)

// Lengths of an ack in bytes.
const (
	AckLen          = 28
	AckLenTripTimes = 52
)

// ackType is the first word of an ack.
const ackType = 0x00000002

// IsAck tells whether the first four bytes that a server sent begin an ack.
func IsAck(b []byte) bool {
	return len(b) >= 4 && binary.BigEndian.Uint32(b) == ackType
}

// Ack is a server's answer to a test header or to AckRequest.
type Ack struct {
	Length  int // 28, or 52 with the three trip-times stamps
	Version Version
	// With trip-times: the client's stamp echoed, and when the server accepted
	// the connection and sent the ack.
	ClientSend, Accepted, Sent Stamp
}

// AckLength reads an ack's length from its first eight bytes. It returns a
// *FormatError for a length that no iperf 2 sends.
func AckLength(b []byte) (int, error) {
	if len(b) < 8 {
		return 0, &ShortError{What: "ack", Got: len(b), Need: 8}
	}
	if !IsAck(b) {
		return 0, &FormatError{What: "type of an ack", Got: binary.BigEndian.Uint32(b)}
	}
	n := binary.BigEndian.Uint32(b[4:])
	if n != AckLen && n != AckLenTripTimes {
		return 0, &FormatError{What: "length of an ack", Got: n}
	}
	return int(n), nil
}

// DecodeAck reads a whole ack.
func DecodeAck(b []byte) (Ack, error) {
	n, err := AckLength(b)
	if err != nil {
		return Ack{}, err
	}
	if len(b) < n {
		return Ack{}, &ShortError{What: "ack", Got: len(b), Need: n}
	}
	a := Ack{Length: n, Version: getVersion(b[12:])}
	if n == AckLenTripTimes {
		a.ClientSend, a.Accepted, a.Sent = getStamp(b[28:]), getStamp(b[36:]), getStamp(b[44:])
	}
	return a, nil
}

// Put writes the ack and returns its length, a.Length (28 if that is not 52).
func (a *Ack) Put(b []byte) (int, error) {
	n := AckLen
	if a.Length == AckLenTripTimes {
		n = AckLenTripTimes
	}
	if len(b) < n {
		return 0, &ShortError{What: "ack", Got: len(b), Need: n}
	}
	clear(b[:n])
	binary.BigEndian.PutUint32(b, ackType)
	binary.BigEndian.PutUint32(b[4:], uint32(n))
	putVersion(b[12:], a.Version)
	if n == AckLenTripTimes {
		putStamp(b[28:], a.ClientSend)
		putStamp(b[36:], a.Accepted)
		putStamp(b[44:], a.Sent)
	}
	return n, nil
}

func getVersion(b []byte) Version {
	be := binary.BigEndian
	return Version{be.Uint16(b), be.Uint16(b[2:]), be.Uint16(b[4:]), be.Uint16(b[6:])}
}

func putVersion(b []byte, v Version) {
	be := binary.BigEndian
	be.PutUint16(b, v.Upper)
	be.PutUint16(b[2:], v.Lower)
	be.PutUint16(b[4:], v.Patch)
	be.PutUint16(b[6:], v.Stage)
}
