package fakeserver

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"
)

// Server is a running peer.
type Server struct {
	script Script
	ln     net.Listener
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	records []*record
}

// Start starts a peer on a free port of 127.0.0.1 that ends with the test.
func Start(t testing.TB, s Script) *Server {
	t.Helper()
	return StartAt(t, "127.0.0.1:0", s)
}

// StartAt starts a peer on an address of the caller's choice, such as "[::1]:0".
func StartAt(t testing.TB, address string, s Script) *Server {
	t.Helper()
	lc := net.ListenConfig{KeepAlive: -1}
	lc.SetMultipathTCP(false)
	if needsSmallWindow(s) {
		lc.Control = smallReceiveBuffer
	}
	ln, err := lc.Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatalf("fakeserver: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	srv := &Server{script: s, ln: ln, ctx: ctx, cancel: cancel}
	srv.wg.Go(srv.accept)
	t.Cleanup(srv.Close)
	return srv
}

// A peer that never reads has a small window, so that the client's writes come
// to a halt soon.
func needsSmallWindow(s Script) bool { return s.Mode == NeverReads }

// Addr is where the peer listens.
func (s *Server) Addr() netip.AddrPort {
	return s.ln.Addr().(*net.TCPAddr).AddrPort()
}

// Close ends the peer and all its connections, and waits for that. It may be
// called more than once.
func (s *Server) Close() {
	s.cancel()
	s.ln.Close()
	s.wg.Wait()
}

// Journal is what the clients did so far, a connection each, in the order in
// which they were accepted.
func (s *Server) Journal() []Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Conn, len(s.records))
	for i, r := range s.records {
		out[i] = r.get()
	}
	return out
}

// WaitEnded returns the journal as soon as n connections were accepted and the
// client's end of each of them was seen, or we closed. It fails the test if that
// takes longer than the time given.
func (s *Server) WaitEnded(t testing.TB, n int, within time.Duration) []Conn {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		j := s.Journal()
		ended := 0
		for _, c := range j {
			if c.End != Open || !c.Closed.IsZero() {
				ended++
			}
		}
		if ended >= n && ended == len(j) {
			return j
		}
		if time.Now().After(deadline) {
			t.Fatalf("fakeserver: %d of %d connections ended within %s, want %d: %+v", ended, len(j), within, n, j)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (s *Server) accept() {
	for i := 0; ; i++ {
		c, err := s.ln.Accept()
		if err != nil {
			return
		}
		script := s.script
		if script.PerConnection != nil {
			script = script.PerConnection(i)
		}
		r := &record{c: Conn{
			Remote:   c.RemoteAddr().(*net.TCPAddr).AddrPort(),
			Accepted: time.Now(),
		}}
		s.mu.Lock()
		s.records = append(s.records, r)
		s.mu.Unlock()
		p := &peer{script: script, conn: c.(*net.TCPConn), rec: r, ctx: s.ctx}
		s.wg.Go(p.run)
	}
}
