package fakeserver

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/prober/wire"
)

// peer is one connection: a reader that keeps the journal, and the script that
// acts on what the reader found.
type peer struct {
	script Script
	conn   *net.TCPConn
	rec    *record
	ctx    context.Context

	closeOnce sync.Once
	sent      bool // a fault has taken over what is sent
	noise     bool
	slow      bool
}

// maxQueued bounds the requests kept for a script that does not answer.
const maxQueued = 4096

func (p *peer) run() {
	// Whatever blocks ends with the server.
	stop := context.AfterFunc(p.ctx, func() { p.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	defer p.close()

	switch p.script.Mode {
	case AcceptClose:
		return
	case AcceptReset:
		p.reset()
		return
	case NeverReads:
		p.watch()
		return
	}
	if len(p.script.Early) > 0 {
		p.write(p.script.Early)
	}
	first := make(chan []byte, 1)
	requests := make(chan []byte, maxQueued)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.read(first, requests)
	}()
	p.act(first, requests)
	// The script has nothing more to say; the client's end is still of interest.
	<-ended
	if p.rec.get().End == FIN {
		if p.script.NeverClose {
			<-p.ctx.Done()
		}
		p.sleep(p.script.CloseDelay)
	}
}

// read reads to the client's end. The first message goes to first, bounce
// messages also to requests; both are closed at the end.
func (p *peer) read(first, requests chan<- []byte) {
	defer close(requests)
	defer close(first)
	buf := make([]byte, 64<<10)
	var pending []byte
	need := 4 // of pending, before it can be looked at again
	known := false
	bounce := false
	for {
		n, err := p.conn.Read(buf)
		if n > 0 {
			now := time.Now()
			p.rec.update(func(c *Conn) {
				if c.Received == 0 {
					c.FirstByteAt = now
				}
				c.Received += int64(n)
				if room := 128 - len(c.First); room > 0 {
					c.First = append(c.First, buf[:min(n, room)]...)
				}
			})
			if !known || bounce {
				pending = append(pending, buf[:n]...)
			}
			for len(pending) >= need {
				if !known && need < 8 {
					if need = firstNeed(pending); need > len(pending) {
						continue
					}
				}
				if !known && need == 8 {
					if need = int(binary.BigEndian.Uint32(pending[4:])); need < 8 {
						need = 8
					}
					bounce = true
					if need > len(pending) {
						continue
					}
				}
				msg := append([]byte(nil), pending[:need]...)
				pending = pending[need:]
				if !known {
					known = true
					p.rec.update(func(c *Conn) { c.FirstComplete, c.FirstCompleteAt = true, now })
					first <- msg
				}
				if !bounce {
					pending = nil
					break
				}
				p.rec.update(func(c *Conn) { c.Requests++ })
				select {
				case requests <- msg:
				default:
				}
			}
		}
		if err != nil {
			p.ended(err)
			return
		}
	}
}

// firstNeed is how many bytes the first message needs before it can be told how
// long it is: 8 for a bounce message, else the whole length of a test header.
func firstNeed(b []byte) int {
	w := binary.BigEndian.Uint32(b)
	switch {
	case w&wire.StartBC != 0, w&wire.StartA != 0 && w&(wire.FlagExtend|wire.FlagDual) == 0:
		return 8
	case w&wire.FlagLenValid != 0 && w&wire.FlagExtend != 0:
		// A bounce message is at least 44 bytes, so 8 stays its mark.
		return max(9, int(w&wire.LenMask)>>1)
	}
	return 4
}

func (p *peer) ended(err error) {
	end := Unknown
	switch {
	case err == io.EOF:
		end = FIN
	case errors.Is(err, syscall.ECONNRESET):
		// After a FIN the kernel would have given EOF first.
		end = RST
	case p.ctx.Err() != nil, errors.Is(err, net.ErrClosed):
		return // the server's own end: the client's is not to be seen any more
	}
	p.rec.update(func(c *Conn) { c.End, c.EndAt = end, time.Now() })
}

func (p *peer) close() {
	p.closeOnce.Do(func() {
		p.conn.Close()
		p.rec.update(func(c *Conn) { c.Closed = time.Now() })
	})
}

func (p *peer) reset() {
	p.conn.SetLinger(0)
	p.close()
}

func (p *peer) sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-p.ctx.Done():
	case <-time.After(d):
	}
}

// watch waits for the client's end without reading.
func (p *peer) watch() {
	for p.ctx.Err() == nil {
		if end := peekEnd(p.conn); end != Open {
			p.rec.update(func(c *Conn) { c.End, c.EndAt = end, time.Now() })
			if end == RST || !p.script.NeverClose {
				return
			}
			<-p.ctx.Done()
			return
		}
		p.sleep(2 * time.Millisecond)
	}
}
