package wire

import (
	"encoding/binary"
	"time"
)

// Flags are the 16 bounce flags at offset 12.
type Flags uint16

const (
	// FlagQuickAck asks the server for TCP_QUICKACK before each hold. Servers up
	// to 2.1.9 act on it, and only with a hold.
	FlagQuickAck Flags = 0x8000
	// FlagTripTimes labels the server's own report; the stamps are written anyway.
	FlagTripTimes Flags = 0x4000
	// FlagTOS makes the server set IP_TOS or IPV6_TCLASS to the TOS field.
	FlagTOS Flags = 0x2000
	// FlagStop in any message but the first ends the test without a reply (2.1.8
	// and newer; 2.1.7 answers it like any other).
	FlagStop Flags = 0x1000
	// FlagReplySize makes the reply size field count (2.2.0 and newer).
	FlagReplySize Flags = 0x0800
)

// Message is a bounce message, request or reply, without its padding.
//
// Size, reply size, hold, flags (but FlagStop) and TOS are read by the server
// from the first message of a connection only.
type Message struct {
	Layout     Layout
	AckRequest bool // ask for an ack before the reply; MaxAckSize bounds its use
	Size       uint32
	ID         uint32
	Flags      Flags
	TOS        uint8 // the TOS byte, sent where Flags has FlagTOS
	ClientSend Stamp
	// ServerReceive is taken after the whole request was read, ServerSend right
	// before the reply is written, after the hold. Both are filled by the server.
	ServerReceive Stamp
	ServerSend    Stamp
	Hold          uint32 // microseconds
	ReplySize     uint32 // bytes; on the wire in layout C only
}

// HoldMicroseconds converts a hold to the wire's unit, saturating at its range of
// 0 to about 71 minutes.
func HoldMicroseconds(d time.Duration) uint32 {
	us := d.Microseconds()
	if us < 0 {
		return 0
	}
	if us > 0xffffffff {
		return 0xffffffff
	}
	return uint32(us)
}

// Word0 is the first four bytes of the message as it is sent.
func (m *Message) Word0() uint32 {
	w := m.Layout.startBit()
	if m.AckRequest {
		w |= AckRequest
	}
	return w
}

// PutRequest writes the whole request, m.Size bytes, into b: the header as an
// iperf client fills it, then the digits that iperf pads with. It returns a
// *ShortError if b holds fewer than m.Size bytes and a *SizeError if m.Size is
// below the layout's header.
func (m *Message) PutRequest(b []byte) error {
	size := int(m.Size)
	if size < m.Layout.HeaderLen() {
		return &SizeError{What: "request", Got: size, Min: m.Layout.HeaderLen()}
	}
	if len(b) < size {
		return &ShortError{What: "request", Got: len(b), Need: size}
	}
	b = b[:size]
	for i := range b {
		b[i] = '0' + byte(i%10)
	}
	be := binary.BigEndian
	be.PutUint32(b[0:], m.Word0())
	be.PutUint32(b[4:], m.Size)
	be.PutUint32(b[8:], m.ID)
	be.PutUint16(b[12:], uint16(m.Flags))
	if m.Flags&FlagTOS != 0 {
		be.PutUint16(b[14:], uint16(m.TOS))
	} else {
		be.PutUint16(b[14:], 0x5a5a)
	}
	if m.Layout != LayoutA {
		be.PutUint32(b[16:], 0) // run time: every client sends 0, no server reads it
	}
	o := m.Layout.stampOffset()
	putStamp(b[o:], m.ClientSend)
	putStamp(b[o+8:], Stamp{unfilled, unfilled})
	putStamp(b[o+16:], Stamp{unfilled, unfilled})
	be.PutUint32(b[o+24:], m.Hold)
	for i := o + 28; i < o+40; i++ {
		b[i] = 0x5a
	}
	if m.Layout == LayoutC && size >= 64 {
		be.PutUint32(b[60:], m.ReplySize)
	}
	return nil
}

// Patch rewrites what changes from one request to the next in a buffer that
// PutRequest has filled: the id and the client's send time. It also clears the
// ack request, which belongs to the first message only.
func (m *Message) Patch(b []byte, id uint32, sent Stamp) {
	binary.BigEndian.PutUint32(b[0:], m.Layout.startBit())
	binary.BigEndian.PutUint32(b[8:], id)
	putStamp(b[m.Layout.stampOffset():], sent)
}

// PutSent writes the client's send time into a buffer that PutRequest has filled.
func (m *Message) PutSent(b []byte, sent Stamp) { putStamp(b[m.Layout.stampOffset():], sent) }

// IsBounce tells whether the first four bytes that a server sent can begin a
// bounce reply of any layout: the echo of a start bit, with or without the ack
// request.
func IsBounce(b []byte) bool {
	if len(b) < 4 {
		return false
	}
	w := binary.BigEndian.Uint32(b) &^ AckRequest
	return w == StartA || w == StartBC
}

// Stamps reads the id and the two server stamps of a reply. It is what the
// measuring loop needs of each reply, and it checks that the reply is one: the
// start bit of the layout in word 0, and stamps that a server has filled in.
// Errors are of the types *ShortError and *FormatError.
func (l Layout) Stamps(b []byte) (id uint32, receive, send Stamp, err error) {
	if len(b) < l.stampsEnd() {
		return 0, Stamp{}, Stamp{}, &ShortError{What: "reply", Got: len(b), Need: l.stampsEnd()}
	}
	w := binary.BigEndian.Uint32(b)
	if w&^AckRequest != l.startBit() {
		return 0, Stamp{}, Stamp{}, &FormatError{What: "reply's first word", Got: w}
	}
	o := l.stampOffset()
	receive, send = getStamp(b[o+8:]), getStamp(b[o+16:])
	if !receive.Valid() {
		return 0, Stamp{}, Stamp{}, &FormatError{What: "microseconds of the server's receive stamp", Got: receive.Microseconds}
	}
	if !send.Valid() {
		return 0, Stamp{}, Stamp{}, &FormatError{What: "microseconds of the server's send stamp", Got: send.Microseconds}
	}
	return binary.BigEndian.Uint32(b[8:]), receive, send, nil
}

// PutStamps writes the two server stamps into a request, which makes it the
// reply. b must hold the layout's header. If the request asked for a TOS, its
// field is narrowed to the low byte, as iperf servers do.
func (l Layout) PutStamps(b []byte, receive, send Stamp) {
	o := l.stampOffset()
	putStamp(b[o+8:], receive)
	putStamp(b[o+16:], send)
	if Flags(binary.BigEndian.Uint16(b[12:]))&FlagTOS != 0 {
		b[14] = 0
	}
}

// DecodeMessage reads the header of a bounce message, request or reply, of the
// given layout from b, which may be longer or shorter than the message. Fields
// that b is too short for and that a server could do without (hold, reply size)
// are zero. Errors are of the types *ShortError and *FormatError.
func DecodeMessage(l Layout, b []byte) (Message, error) {
	var m Message
	if len(b) < l.stampsEnd() {
		return m, &ShortError{What: "bounce message", Got: len(b), Need: l.stampsEnd()}
	}
	be := binary.BigEndian
	w := be.Uint32(b)
	if w&l.startBit() == 0 {
		return m, &FormatError{What: "first word of a bounce message", Got: w}
	}
	o := l.stampOffset()
	m = Message{
		Layout:        l,
		AckRequest:    w&AckRequest != 0,
		Size:          be.Uint32(b[4:]),
		ID:            be.Uint32(b[8:]),
		Flags:         Flags(be.Uint16(b[12:])),
		ClientSend:    getStamp(b[o:]),
		ServerReceive: getStamp(b[o+8:]),
		ServerSend:    getStamp(b[o+16:]),
	}
	if m.Flags&FlagTOS != 0 {
		m.TOS = b[15]
	}
	if len(b) >= o+28 {
		m.Hold = be.Uint32(b[o+24:])
	}
	if l == LayoutC && len(b) >= 64 {
		m.ReplySize = be.Uint32(b[60:])
	}
	return m, nil
}
