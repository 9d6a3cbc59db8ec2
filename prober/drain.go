package prober

import (
	"errors"
	"io"
	"net/netip"
	"os"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/prober/peers"
)

// ending is what is left to do for a connection when its probe is over. Every
// connection ends the same way, however its probe went: the rest of the first
// message, our FIN, the peer's bytes up to its FIN, close. A reset before our FIN
// aborts every test that runs on an iperf 2 server; a connection that ends before
// its first message is whole damages 2.1.8. docs/PROTOCOL.md has the matrix.
type ending struct {
	addr      netip.AddrPort
	connected bool          // connect has been seen to succeed
	pending   []byte        // what is left of the first message
	hold      time.Duration // the server may sit on a reply for so long
	// apart keeps the end apart from handshakes at the same server, as up to 2.1.8
	// it must be. Not for a connection that holds the handshake slot itself.
	apart bool
	// extra is how long the peer keeps sending by its own clock, for a load: its
	// bytes are not read before that time is over.
	extra time.Duration
	much  bool // of a load that the peer sends: socket buffers hold megabytes
	// early: nothing has come yet of a load that goes both ways. Our FIN waits for
	// the first byte, at most for extra: a 2.1.8 that finds header and FIN together
	// can hang before it sends anything, once in some fifty times, for ever.
	early bool
	// settle is how long the server is left alone after the end.
	settle time.Duration
	// heard, if not nil, is called with the first bytes of what the peer still said.
	heard func([]byte)
	// done is called when the connection has ended.
	done func(clean bool)
}

// How much is read while waiting for the peer's FIN: more than a reply, and more
// than the buffers of a load. A peer that has more to say is closed on, which
// after our FIN is harmless.
const (
	drainReply = 1 << 20
	drainLoad  = 256 << 20
)

// end finishes a connection in the background.
func (p *Prober) end(c *conn, e ending) {
	p.mu.Lock()
	p.bg++
	p.mu.Unlock()
	d := p.opts.Peers.DrainStarted(e.addr)
	go func() {
		clean := p.finish(c, e, d)
		if !clean {
			p.abandoned.Add(1)
		}
		p.untrack(c)
		time.Sleep(e.settle)
		d.Ended()
		if e.done != nil {
			e.done(clean)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.bg--; p.bg == 0 {
			p.idle.Broadcast()
		}
	}()
}

// finish tells whether the connection ended as it should: by the peer's FIN or
// reset, or without ever having come into being.
func (p *Prober) finish(c *conn, e ending, d *peers.Drain) bool {
	if !e.connected && c.abandonConnect() {
		c.close()
		return true
	}
	b := c.handOver()
	defer b.close()
	clean := true
	if !e.connected || len(e.pending) > 0 {
		_ = b.SetDeadline(time.Now().Add(p.opts.Bounds.FirstWrite))
		if !e.connected {
			if err := b.awaitConnect(); err != nil {
				return !errors.Is(err, os.ErrDeadlineExceeded)
			}
		}
		if _, err := b.Write(e.pending); err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				return true // the peer has reset it: nothing is left to end
			}
			clean = false
		}
	}
	over := time.Now().Add(e.extra)
	if e.early {
		_ = b.SetDeadline(over)
		if n, err := b.Read(make([]byte, 1)); n == 0 && !errors.Is(err, os.ErrDeadlineExceeded) {
			over = time.Time{} // the peer has ended it
		}
	}
	if e.apart {
		d.Alone(p.opts.Bounds.Drain)
	}
	c.halfClose()
	time.Sleep(time.Until(over))
	_ = b.SetDeadline(time.Now().Add(e.hold + p.opts.Bounds.Drain))
	limit := int64(drainReply)
	if e.much {
		limit = drainLoad
	}
	rest := io.LimitReader(readerOnly{b}, limit)
	buf := make([]byte, 16<<10)
	var n int64
	if e.heard != nil {
		first, _ := rest.Read(buf)
		e.heard(buf[:first])
		n = int64(first)
	}
	more, err := io.CopyBuffer(io.Discard, rest, buf)
	n += more
	if errors.Is(err, os.ErrDeadlineExceeded) || n == limit {
		clean = false
	}
	return clean
}

// readerOnly hides everything but Read, so that the copy uses our small buffer.
type readerOnly struct{ io.Reader }
