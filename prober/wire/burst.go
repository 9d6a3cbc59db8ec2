package wire

import "encoding/binary"

// BurstHeaderLen is the length of the header of each burst of a load with
// trip-times.
const BurstHeaderLen = 92

// BurstHeader begins each burst of a load with trip-times. A reader takes exactly
// Size bytes for the burst, so a wrong one desynchronises it.
type BurstHeader struct {
	Start    Stamp  // of the test
	Write    Stamp  // of this burst
	Number   uint32 // from 1
	Size     uint32 // bytes, this header included; at least BurstHeaderLen
	Sequence uint64 // bytes so far
}

// Put writes the 92 bytes of the header.
func (h *BurstHeader) Put(b []byte) error {
	if len(b) < BurstHeaderLen {
		return &ShortError{What: "burst header", Got: len(b), Need: BurstHeaderLen}
	}
	b = b[:BurstHeaderLen]
	clear(b)
	be := binary.BigEndian
	be.PutUint32(b[0:], FlagExtend|FlagLenValid|TestHeaderTripTimesLen<<1) // not read
	putStamp(b[12:], h.Start)
	putStamp(b[20:], h.Write)
	be.PutUint32(b[44:], h.Number)
	be.PutUint32(b[48:], h.Size)
	be.PutUint32(b[52:], uint32(h.Sequence))
	be.PutUint32(b[56:], uint32(h.Sequence>>32))
	return nil
}

// DecodeBurstHeader reads a burst header. It returns a *ShortError if b is too
// short and a *SizeError if the burst is smaller than its header.
func DecodeBurstHeader(b []byte) (BurstHeader, error) {
	if len(b) < BurstHeaderLen {
		return BurstHeader{}, &ShortError{What: "burst header", Got: len(b), Need: BurstHeaderLen}
	}
	be := binary.BigEndian
	h := BurstHeader{
		Start:    getStamp(b[12:]),
		Write:    getStamp(b[20:]),
		Number:   be.Uint32(b[44:]),
		Size:     be.Uint32(b[48:]),
		Sequence: uint64(be.Uint32(b[52:])) | uint64(be.Uint32(b[56:]))<<32,
	}
	if h.Size < BurstHeaderLen {
		return BurstHeader{}, &SizeError{What: "burst", Got: int(h.Size), Min: BurstHeaderLen}
	}
	return h, nil
}

// PutTripTimesHeader writes the 80 byte test header with which a server's own half
// of a load with trip-times begins: both tells full duplex from reverse, start is
// when that half began.
func PutTripTimesHeader(b []byte, both bool, v Version, start Stamp) error {
	if len(b) < TestHeaderTripTimesLen {
		return &ShortError{What: "test header", Got: len(b), Need: TestHeaderTripTimesLen}
	}
	b = b[:TestHeaderTripTimesLen]
	clear(b)
	be := binary.BigEndian
	flags, upper := FlagExtend|FlagLenValid|TestHeaderTripTimesLen<<1, UpperTripTimes
	if both {
		flags |= FlagVersion2
		upper |= UpperFullDuplex
	}
	be.PutUint32(b[0:], flags)
	be.PutUint32(b[4:], 1)
	be.PutUint16(b[32:], upper)
	putVersion(b[36:], v)
	putStamp(b[64:], start)
	return nil
}
