package fakeserver

import "time"

// send writes reply n (0: the ack), with the script's fault if it falls into it.
// It tells whether the peer goes on answering.
func (p *peer) send(n int, b []byte) bool {
	f := p.script.Fault
	if f.Action == NoFault || f.Reply != n || p.sent {
		return p.finish(n, p.write(b))
	}
	at := min(f.Byte, len(b))
	if f.Action == Twice {
		at = len(b)
	}
	if f.Byte > len(b) && f.Action != Twice {
		return p.finish(n, p.write(b))
	}
	p.sent = true
	if !p.write(b[:at]) {
		return false
	}
	if at == len(b) && n > 0 {
		p.rec.update(func(c *Conn) { c.Replies++ })
	}
	switch f.Action {
	case Stop:
		return false
	case HalfClose:
		p.conn.CloseWrite()
		return false
	case Close:
		p.close()
		return false
	case Reset:
		p.reset()
		return false
	case Twice:
		return p.finish(n, p.write(b))
	case Garbage:
		p.noise = true
	case SlowFrom:
		p.slow = true
	case Endless:
		p.endless()
		return false
	}
	return at == len(b) || p.finish(n, p.write(b[at:]))
}

// sendJoined writes ack and reply 1 in one segment; a fault of either applies at
// its place.
func (p *peer) sendJoined(ack, reply []byte) bool {
	f := p.script.Fault
	if f.Action == NoFault || f.Reply > 1 {
		return p.finish(1, p.write(append(append([]byte(nil), ack...), reply...)))
	}
	if f.Reply == 1 {
		p.script.Fault.Byte += len(ack)
	}
	p.script.Fault.Reply = 1
	return p.send(1, append(append([]byte(nil), ack...), reply...))
}

func (p *peer) finish(n int, ok bool) bool {
	if ok && n > 0 {
		p.rec.update(func(c *Conn) { c.Replies++ })
	}
	return ok
}

// write writes b, as noise or slowly where a fault asked for it.
func (p *peer) write(b []byte) bool {
	if p.noise {
		b = noise(len(b))
	}
	step := len(b)
	if p.slow {
		step = 1
	}
	for len(b) > 0 {
		n, err := p.conn.Write(b[:min(step, len(b))])
		p.rec.update(func(c *Conn) { c.Sent += int64(n) })
		if err != nil {
			return false
		}
		b = b[n:]
		if p.slow {
			d := p.script.ByteDelay
			if d == 0 {
				d = time.Second
			}
			p.sleep(d)
		}
	}
	return true
}

func (p *peer) endless() {
	chunk := noise(64 << 10)
	for sent := 0; sent < EndlessCap; sent += len(chunk) {
		n, err := p.conn.Write(chunk)
		p.rec.update(func(c *Conn) { c.Sent += int64(n) })
		if err != nil {
			return
		}
	}
	p.conn.CloseWrite()
}

// noise is n bytes that look like nothing iperf sends, the same in each run.
func noise(n int) []byte {
	b := make([]byte, n)
	x := uint32(0x9e3779b9)
	for i := range b {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		b[i] = byte(x)
	}
	return b
}
