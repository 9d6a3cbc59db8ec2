package shape

import (
	"encoding/binary"
	"net/netip"
	"testing"
)

// packet4 makes an IPv4 packet with a TCP or UDP header.
func packet4(protocol uint8, src, dst uint16, flags uint8, payload int) []byte {
	header := map[uint8]int{TCP: 20, UDP: 8}[protocol]
	b := make([]byte, 20+header+payload)
	b[0], b[9] = 0x45, protocol
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	copy(b[12:], []byte{198, 18, 0, 1, 198, 18, 0, 2})
	transport(b[20:], protocol, src, dst, flags)
	return b
}

func packet6(protocol uint8, src, dst uint16, flags uint8, payload int) []byte {
	four := packet4(protocol, src, dst, flags, payload)
	b := append(make([]byte, 40), four[20:]...)
	b[0], b[6] = 0x60, protocol
	binary.BigEndian.PutUint16(b[4:], uint16(len(b)-40))
	b[8], b[24], b[39] = 0xfd, 0xfd, 2
	return b
}

func transport(b []byte, protocol uint8, src, dst uint16, flags uint8) {
	binary.BigEndian.PutUint16(b, src)
	binary.BigEndian.PutUint16(b[2:], dst)
	if protocol == TCP {
		b[12], b[13] = 5<<4, flags
	}
}

func TestMatch(t *testing.T) {
	fragment := packet4(TCP, 1, 5001, SYN, 0)
	fragment[7] = 1
	for _, c := range []struct {
		name string
		m    Match
		p    []byte
		want bool
	}{
		{"anything", Match{}, []byte{1}, true},
		{"SYN", FirstSYN().Match, packet4(TCP, 1, 5001, SYN, 0), true},
		{"SYN of IPv6", FirstSYN().Match, packet6(TCP, 1, 5001, SYN, 0), true},
		{"SYN-ACK", FirstSYN().Match, packet4(TCP, 5001, 1, SYN|ACK, 0), false},
		{"data", FirstSYN().Match, packet4(TCP, 1, 5001, PSH|ACK, 9), false},
		{"UDP with a byte that looks like SYN", Match{Flags: SYN}, packet4(UDP, 1, 5001, 0, 20), false},
		{"flag among others", Match{Flags: FIN}, packet4(TCP, 1, 2, FIN|ACK, 0), true},
		{"flag absent", Match{Mask: ACK}, packet4(TCP, 1, 2, SYN, 0), true},
		{"flag absent, but there", Match{Mask: ACK}, packet4(TCP, 1, 2, ACK, 0), false},
		{"destination", Match{DstPort: 5001}, packet6(UDP, 1, 5001, 0, 0), true},
		{"source", Match{SrcPort: 5001}, packet4(TCP, 1, 5001, 0, 0), false},
		{"protocol", Match{Protocol: UDP}, packet4(TCP, 1, 2, 0, 0), false},
		{"payload", Match{MinPayload: 100}, packet4(TCP, 1, 2, 0, 100), true},
		{"too little payload", Match{MinPayload: 101}, packet4(TCP, 1, 2, 0, 100), false},
		{"UDP payload", Match{MinPayload: 3}, packet6(UDP, 1, 2, 0, 3), true},
		{"later fragment", Match{DstPort: 5001}, fragment, false},
		{"protocol of a later fragment", Match{Protocol: TCP}, fragment, true},
		{"garbage", Match{Protocol: TCP}, []byte{0x45, 0}, false},
	} {
		if got := c.m.Matches(c.p); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestRuleSkipsAndCounts(t *testing.T) {
	data, ack := packet4(TCP, 1, 2, ACK, 10), packet4(TCP, 1, 2, ACK, 0)
	for _, c := range []struct {
		r    Rule
		want string // of six packets with data, which are dropped
	}{
		{Rule{}, "x-----"},
		{Rule{Count: 2}, "xx----"},
		{Rule{Skip: 1}, "-x----"},
		{Rule{Skip: 2, Count: 3}, "--xxx-"},
		{Rule{Skip: 3, Count: -1}, "---xxx"},
	} {
		c.r.MinPayload = 1
		s := newShaper(t, Link{})
		s.Drop(c.r)
		got := ""
		for range 6 {
			for _, b := range [][]byte{ack, data} {
				p := s.Get()
				p.Data = p.Buf[:copy(p.Buf, b)]
				ok := s.Arrive(0, p)
				switch {
				case len(b) == len(ack) && !ok:
					t.Errorf("%+v dropped an ACK", c.r)
				case len(b) == len(data) && ok:
					got += "-"
				case len(b) == len(data):
					got += "x"
				}
			}
		}
		if got != c.want {
			t.Errorf("%+v: %s, want %s", c.r, got, c.want)
		}
	}
}

func TestRulesCanBeRemoved(t *testing.T) {
	s := newShaper(t, Link{})
	s.Drop(Rule{Count: -1})
	if offer(s, 0, 0, 40) {
		t.Error("the rule does nothing")
	}
	s.DropNothing()
	if !offer(s, 0, 1, 40) {
		t.Error("the rule is still there")
	}
	if st := s.Stats(0); st.DroppedRule != 1 {
		t.Errorf("counters are %+v", st)
	}
	s.ResetStats()
	if st := s.Stats(0); st.InPackets != 0 || st.DroppedRule != 0 || st.InFlight != 1 {
		t.Errorf("after a reset counters are %+v", st)
	}
}

func TestDestination(t *testing.T) {
	for _, c := range []struct {
		p    []byte
		want string
	}{
		{packet4(UDP, 1, 2, 0, 0), "198.18.0.2"},
		{packet6(UDP, 1, 2, 0, 0), "fd00::2"},
		{[]byte{0x45, 0, 0}, "none"},
		{make([]byte, 60), "none"},
		{nil, "none"},
	} {
		got, ok := Destination(c.p)
		if ok != (c.want != "none") || ok && got != netip.MustParseAddr(c.want) {
			t.Errorf("%x: %v, %v", c.p, got, ok)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(packet4(TCP, 1, 5001, SYN, 0))
	f.Add(packet6(UDP, 1, 5001, 0, 100))
	f.Add([]byte{0x4f, 0, 0, 60})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, ok := parse(b)
		if h.payload < 0 || h.payload > len(b)-28 && h.payload != 0 {
			t.Errorf("payload of %d bytes in a packet of %d", h.payload, len(b))
		}
		if !ok && h.payload != 0 {
			t.Error("payload of what is no packet")
		}
		if _, known := Destination(b); ok && !known {
			t.Error("a packet without destination")
		}
	})
}
