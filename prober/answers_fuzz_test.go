package prober

import (
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/prober/wire"
)

// parrot is a peer that says the same, whatever it is asked, and then half-closes.
type parrot struct {
	ln   net.Listener
	mu   sync.Mutex
	says []byte
	saw  error // anything but FINs
}

func newParrot(f *testing.F) *parrot {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	p := &parrot{ln: l}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.serve(c)
		}
	}()
	f.Cleanup(func() { l.Close(); <-done })
	return p
}

func (p *parrot) serve(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	c.Write(p.says)
	c.(*net.TCPConn).CloseWrite()
	if _, err := io.Copy(io.Discard, c); err != nil {
		p.saw = err
	}
}

func (p *parrot) say(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.says, p.saw = b, nil
}

func (p *parrot) seen() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.saw
}

// Whatever a peer says, a probe ends with a reason and without an RST, and calls
// nothing a success that is not a reply to what it asked.
func FuzzAnswers(f *testing.F) {
	ack, reply := make([]byte, wire.AckLen), make([]byte, 100)
	if _, err := (&wire.Ack{Version: wire.V2_1_9}).Put(ack); err != nil {
		f.Fatal(err)
	}
	bounce := func(id uint32) []byte {
		m := wire.Message{Layout: wire.LayoutC, Size: 100, ID: id}
		if err := m.PutRequest(reply); err != nil {
			f.Fatal(err)
		}
		wire.LayoutC.PutStamps(reply, wire.Stamp{Seconds: 1}, wire.Stamp{Seconds: 1})
		return append([]byte(nil), reply...)
	}
	whole := append(append(append([]byte(nil), ack...), bounce(1)...), bounce(2)...)
	f.Add(whole, false)
	f.Add(whole[wire.AckLen:], false)
	f.Add(whole[:60], false)
	f.Add(whole, true)
	f.Add(ack, true)
	f.Add([]byte{9}, false)
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"), true)
	f.Add([]byte{}, false)
	peer := newParrot(f)
	f.Fuzz(func(t *testing.T, b []byte, big bool) {
		peer.say(b)
		p := New(Options{})
		m := module(counted(3), func(m *config.Module) {
			m.Timeout = 5 * time.Second
			if big {
				m.Size = 8192
			}
		})
		r := p.Run(t.Context(), &Job{Module: m, Addr: addrOf(peer.ln)})
		idle(t, p, 10*time.Second)
		if err := peer.seen(); err != nil {
			t.Errorf("the peer saw %v", err)
		}
		if r.Err == nil || !slices.Contains(Reasons(), r.Err.Reason) {
			t.Errorf("%v", r.Err)
		}
	})
}
