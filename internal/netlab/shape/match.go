package shape

import (
	"encoding/binary"
	"net/netip"
)

// IP protocol numbers and TCP flags for Match.
const (
	TCP = 6
	UDP = 17

	FIN = 0x01
	SYN = 0x02
	RST = 0x04
	PSH = 0x08
	ACK = 0x10
)

// Match selects packets. Each field that is not zero must hold; the zero value
// matches every packet.
type Match struct {
	Protocol         uint8  // TCP, UDP or another IP protocol number
	SrcPort, DstPort uint16 // of TCP or UDP
	// Of the TCP flags named in Mask, exactly those in Flags are set; where Mask is 0
	// it is Flags. {Flags: SYN, Mask: SYN | ACK} is a client's SYN.
	Flags, Mask uint8
	// MinPayload is the least number of bytes behind the TCP or UDP header.
	MinPayload int
}

// Rule drops chosen packets: of those that match, the first Skip pass, then Count
// are dropped. Count 0 drops one, a negative Count all that follow.
type Rule struct {
	Match
	Skip, Count int

	seen int
}

// FirstSYN is the rule that drops the first TCP SYN without ACK.
func FirstSYN() Rule { return Rule{Match: Match{Protocol: TCP, Flags: SYN, Mask: SYN | ACK}} }

// take tells whether the rule drops this packet, and counts.
func (r *Rule) take(packet []byte) bool {
	if r.spent() || !r.Matches(packet) {
		return false
	}
	r.seen++
	return r.seen > r.Skip
}

func (r *Rule) spent() bool { return r.Count >= 0 && r.seen >= r.Skip+max(1, r.Count) }

// Matches tells whether m selects this IP packet.
func (m Match) Matches(packet []byte) bool {
	if m == (Match{}) {
		return true
	}
	h, ok := parse(packet)
	if !ok {
		return false
	}
	mask := m.Mask
	if mask == 0 {
		mask = m.Flags
	}
	switch {
	case m.Protocol != 0 && h.protocol != m.Protocol,
		m.SrcPort != 0 && h.src != m.SrcPort,
		m.DstPort != 0 && h.dst != m.DstPort,
		mask != 0 && (h.protocol != TCP || h.flags&mask != m.Flags),
		h.payload < m.MinPayload:
		return false
	}
	return true
}

// header is what Match looks at; fields that the protocol lacks are 0.
type header struct {
	protocol uint8
	src, dst uint16
	flags    uint8
	payload  int
}

// parse reads an IPv4 (RFC 791) or IPv6 (RFC 8200) packet with a TCP (RFC 9293) or
// UDP (RFC 768) header. Of later fragments and behind IPv6 extension headers only
// the protocol is known.
func parse(b []byte) (h header, ok bool) {
	var rest []byte
	switch {
	case len(b) >= 20 && b[0]>>4 == 4:
		ihl, total := int(b[0]&0xf)*4, int(binary.BigEndian.Uint16(b[2:]))
		if ihl < 20 || total < ihl || total > len(b) {
			return h, false
		}
		h.protocol = b[9]
		if binary.BigEndian.Uint16(b[6:])&0x1fff != 0 {
			return h, true
		}
		rest = b[ihl:total]
	case len(b) >= 40 && b[0]>>4 == 6:
		n := int(binary.BigEndian.Uint16(b[4:]))
		if 40+n > len(b) {
			return h, false
		}
		h.protocol = b[6]
		rest = b[40 : 40+n]
	default:
		return h, false
	}
	switch h.protocol {
	case TCP:
		if len(rest) < 20 {
			return h, false
		}
		offset := int(rest[12]>>4) * 4
		if offset < 20 || offset > len(rest) {
			return h, false
		}
		h.flags, h.payload = rest[13], len(rest)-offset
	case UDP:
		if len(rest) < 8 {
			return h, false
		}
		h.payload = len(rest) - 8
	default:
		return h, true
	}
	h.src, h.dst = binary.BigEndian.Uint16(rest), binary.BigEndian.Uint16(rest[2:])
	return h, true
}

// Destination is the destination address of an IP packet; ok is false for what is
// neither IPv4 nor IPv6.
func Destination(b []byte) (dst netip.Addr, ok bool) {
	switch {
	case len(b) >= 20 && b[0]>>4 == 4:
		return netip.AddrFrom4([4]byte(b[16:20])), true
	case len(b) >= 40 && b[0]>>4 == 6:
		return netip.AddrFrom16([16]byte(b[24:40])), true
	}
	return dst, false
}
