package fakeserver

import (
	"encoding/binary"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/prober/wire"
)

const httpAnswer = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n" +
	"Connection: close\r\n\r\n400 Bad Request"

// act plays the script's part until it has nothing more to say.
func (p *peer) act(first, requests <-chan []byte) {
	msg, ok := <-first
	if !ok {
		return
	}
	if p.script.Load != nil && !isBounce(msg) {
		p.script = *p.script.Load
	}
	switch p.script.Mode {
	case HTTP:
		p.write([]byte(httpAnswer))
		p.conn.CloseWrite()
		return
	case Iperf3:
		p.write([]byte{0x09})
		p.sleep(5 * time.Millisecond) // the byte is to be read before the RST discards it
		p.reset()
		return
	case Iperf3Busy:
		p.write([]byte{0xff})
		p.conn.CloseWrite()
		return
	case Silent:
		return
	}
	if !isBounce(msg) {
		p.load(msg)
		return
	}
	layout, answered := p.layoutOf(msg)
	if p.script.Mode == Sink || !answered {
		p.sendAck(msg, nil)
		return
	}
	p.bounce(layout, msg, requests)
}

func isBounce(b []byte) bool { return firstNeed(b) == 8 }

// layoutOf tells the message's layout and whether this peer answers it.
func (p *peer) layoutOf(b []byte) (wire.Layout, bool) {
	w := binary.BigEndian.Uint32(b)
	if p.script.Layout == wire.LayoutA {
		return wire.LayoutA, w&wire.StartA != 0
	}
	if w&wire.StartBC != 0 {
		if p.script.Layout == wire.LayoutB {
			return wire.LayoutB, true
		}
		return wire.LayoutC, true
	}
	return wire.LayoutA, p.script.Layout == 0
}

// load answers a test header: with the ack it asks for, and with data.
func (p *peer) load(msg []byte) {
	if !p.sendAck(msg, nil) || p.script.LoadBytes == 0 || p.script.Mode == Sink {
		return
	}
	t, err := wire.DecodeTestRequest(msg)
	if err != nil || t.Direction == wire.Up {
		return
	}
	data := make([]byte, p.script.LoadBytes)
	for i := range data {
		data[i] = '0' + byte(i%10)
	}
	if p.send(1, data) {
		p.conn.CloseWrite()
	}
}

func (p *peer) bounce(l wire.Layout, first []byte, requests <-chan []byte) {
	m, err := wire.DecodeMessage(l, first)
	if err != nil {
		p.conn.CloseWrite()
		return
	}
	size := int(m.Size)
	if l == wire.LayoutC && m.Flags&wire.FlagReplySize != 0 && m.ReplySize <= 1<<20 {
		size = int(m.ReplySize)
	}
	hold := time.Duration(m.Hold) * time.Microsecond
	if p.script.IgnoreHold {
		hold = 0
	}
	n := 0
	for req := range requests {
		n++
		if n > 1 && binary.BigEndian.Uint16(req[12:])&uint16(wire.FlagStop) != 0 && l != wire.LayoutA {
			p.conn.CloseWrite()
			return
		}
		receive := p.now()
		p.sleep(hold)
		reply := make([]byte, size)
		for i := copy(reply, req); i < size; i++ {
			reply[i] = '0' + byte(i%10)
		}
		if size >= l.HeaderLen() {
			l.PutStamps(reply, receive, p.now())
		}
		if p.script.Delay != nil {
			p.sleep(p.script.Delay(n))
		}
		if p.script.Edit != nil {
			reply = p.script.Edit(n, reply)
		}
		if n == 1 && m.AckRequest {
			if p.script.Ack == AckJoined {
				if !p.sendAck(first, reply) {
					return
				}
				continue
			}
			if !p.sendAck(first, nil) {
				return
			}
		}
		if !p.send(n, reply) {
			return
		}
	}
}

func (p *peer) now() wire.Stamp {
	return wire.StampFromUnixNano(time.Now().Add(p.script.ClockOffset).UnixNano())
}

// sendAck answers a first message that asks for an ack, joined in one write with
// what follows. It tells whether the peer goes on answering.
func (p *peer) sendAck(msg, joined []byte) bool {
	ack := p.ackFor(msg)
	switch {
	case ack == nil && joined == nil:
		return true
	case p.script.Ack == AckBytewise:
		for i := range ack {
			if !p.send(0, ack[i:i+1]) {
				return false
			}
			p.sleep(time.Millisecond)
		}
		return true
	case joined != nil:
		ok := p.sendJoined(ack, joined)
		return ok
	}
	return p.send(0, ack)
}

// ackFor is the ack that the first message asks for, nil if it asks for none.
func (p *peer) ackFor(msg []byte) []byte {
	v := p.script.Version
	if v == (wire.Version{}) {
		v = wire.V2_2_0
	}
	w := binary.BigEndian.Uint32(msg)
	asked := w&wire.AckRequest != 0 && !v.Less(wire.Version{Upper: 2, Lower: 1, Patch: 5})
	if !isBounce(msg) {
		asked = asked || w&wire.FlagExtend != 0 && w&wire.FlagVersion2 == 0
	}
	if !asked || p.script.Ack == AckNever {
		return nil
	}
	if p.script.AckBytes != nil {
		return p.script.AckBytes
	}
	a := wire.Ack{Length: wire.AckLen, Version: v}
	if isBounce(msg) && len(msg) >= 16 && binary.BigEndian.Uint16(msg[12:])&uint16(wire.FlagTripTimes) != 0 {
		a.Length = wire.AckLenTripTimes
		a.Accepted, a.Sent = p.now(), p.now()
	}
	b := make([]byte, wire.AckLenTripTimes)
	n, _ := a.Put(b) // b is as long as the longest ack
	return b[:n]
}
