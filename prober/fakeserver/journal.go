package fakeserver

import (
	"net/netip"
	"sync"
	"time"
)

// End is how the client's side of a connection ended.
type End uint8

// Ends of a connection, as the server sees them.
const (
	Open    End = iota // not yet; or not to be seen, after we closed first
	FIN                // a FIN, whatever came later
	RST                // an RST, and no FIN before it
	Unknown            // another error
)

// String names the end.
func (e End) String() string {
	switch e {
	case Open:
		return "open"
	case FIN:
		return "FIN"
	case RST:
		return "RST"
	}
	return "unknown"
}

// Conn is what the client did on one connection.
type Conn struct {
	Remote   netip.AddrPort
	Accepted time.Time
	// First is the beginning of what came, at most 128 bytes.
	First []byte
	// FirstComplete tells whether the whole first message (or test header) came;
	// FirstByteAt and FirstCompleteAt when. Zero: it did not.
	FirstComplete                bool
	FirstByteAt, FirstCompleteAt time.Time
	Received                     int64 // bytes read
	Requests                     int   // complete bounce messages
	Sent                         int64 // bytes written
	Replies                      int   // replies written whole
	// End of the client's side, and when it was seen.
	End   End
	EndAt time.Time
	// Closed is when the server's socket was closed or reset; zero: still open.
	Closed time.Time
}

// IsBounce tells a bounce connection from a load or a version request.
func (c Conn) IsBounce() bool { return len(c.First) >= 4 && isBounce(c.First) }

type record struct {
	mu sync.Mutex
	c  Conn
}

func (r *record) update(f func(*Conn)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.c)
}

func (r *record) get() Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.c
	c.First = append([]byte(nil), c.First...)
	return c
}
