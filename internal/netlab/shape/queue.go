package shape

import "time"

// Packet is one IP packet on its way through a Shaper.
type Packet struct {
	Data []byte // the IP packet, within Buf
	Buf  []byte // the whole buffer
	// Port is free for the driver's use: where the packet is to be delivered.
	Port int

	due time.Duration // when the delay stage lets it out
}

// queue is a ring of packets that grows and never shrinks: in steady state it
// allocates nothing.
type queue struct {
	ring  []*Packet
	first int
	n     int
}

func (q *queue) len() int { return q.n }

func (q *queue) slot(i int) *(*Packet) { return &q.ring[(q.first+i)%len(q.ring)] }

func (q *queue) front() *Packet { return *q.slot(0) }

func (q *queue) push(p *Packet) {
	if q.n == len(q.ring) {
		q.grow()
	}
	*q.slot(q.n) = p
	q.n++
}

func (q *queue) pop() *Packet {
	s := q.slot(0)
	p := *s
	*s = nil
	q.first = (q.first + 1) % len(q.ring)
	q.n--
	return p
}

// insert puts p behind all packets that are due no later than it. Packets mostly
// come in order, so the search from the back is short.
func (q *queue) insert(p *Packet) {
	q.push(p)
	for i := q.n - 1; i > 0; i-- {
		before := q.slot(i - 1)
		if (*before).due <= p.due {
			break
		}
		*q.slot(i), *before = *before, p
	}
}

func (q *queue) grow() {
	bigger := make([]*Packet, max(64, 2*len(q.ring)))
	for i := range q.n {
		bigger[i] = *q.slot(i)
	}
	q.ring, q.first = bigger, 0
}
