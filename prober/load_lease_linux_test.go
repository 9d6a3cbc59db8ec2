package prober

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/prober/fakeserver"
	"github.com/bounceback-exporter/bounceback_exporter/prober/peers"
)

// The server stays marked as busy for as long as its load may run by its own
// clock, though the answer came before: nobody else is let in until then, a plain
// probe as little as one with a load.
func TestLoadKeepsItsServer(t *testing.T) {
	tests := make(map[string]func(*testing.T))
	for _, dir := range []string{"up", "down", "both"} {
		tests[dir] = func(t *testing.T) {
			s := startLoadPeer(t, honest(dir, 3*time.Second))
			table := peers.New(peers.Options{})
			p := New(Options{Peers: table})
			start := time.Now()
			r := p.Run(t.Context(), &Job{Module: module(loaded(dir, 2, 0), parts(200*ms, 0, 300*ms)), Addr: s.addr, Start: start})
			checkLoad(t, r, 1)
			if t.Failed() {
				return
			}
			// Of an up load nothing is to come any more when our half is closed.
			if dir == "up" {
				checkEnded(t, p, 5*time.Second)
				if err := enter(t, table, s, false, 100*ms); err != nil {
					t.Errorf("after the end: %v", err)
				}
				return
			}
			for _, exclusive := range []bool{false, true} {
				if err := enter(t, table, s, exclusive, 50*ms); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("while the load may run, exclusive %v: %v", exclusive, err)
				}
			}
			// Both streams were asked for at least so much, after the baseline.
			until := start.Add(200*ms + (<-s.headers).Duration)
			var all sync.WaitGroup
			for _, exclusive := range []bool{false, true} {
				all.Go(func() {
					err := enter(t, table, s, exclusive, 10*time.Second)
					if at := time.Since(until); err != nil || at < 0 || at > 5*time.Second {
						t.Errorf("exclusive %v: %v, %v after the load's time", exclusive, err, at)
					}
				})
			}
			all.Go(func() {
				r := p.Run(t.Context(), &Job{Module: module(counted(3)), Addr: s.addr})
				want(t, r, "")
				if at := time.Since(until); at < 0 {
					t.Errorf("a plain probe was over %v before the load's time", -at)
				}
				if r.Phases[PhaseWait].V < 500*ms {
					t.Errorf("a plain probe waited for %v", r.Phases[PhaseWait].V)
				}
			})
			all.Wait()
			checkEnded(t, p, 5*time.Second)
		}
	}
	sideBySide(t, tests)
}

// enter takes a lease within the given time and gives it back at once.
func enter(t *testing.T, table *peers.Table, s *loadPeer, exclusive bool, within time.Duration) error {
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	l, err := table.Enter(ctx, s.addr, exclusive)
	if err == nil {
		l.Release()
	}
	return err
}

// Load streams are opened one after the other, each with the server's handshake
// slot until it has proved itself, and never while somebody else has it.
func TestLoadStreamsTakeTurns(t *testing.T) {
	const streams, slow = 4, 60 * ms
	var mu sync.Mutex
	var came, proved []time.Time
	s := startLoadPeer(t, func(c *net.TCPConn, _ int) {
		mu.Lock()
		came = append(came, time.Now())
		mu.Unlock()
		time.Sleep(slow)
		mu.Lock()
		proved = append(proved, time.Now())
		mu.Unlock()
		honest("up", 3*time.Second)(c, 0)
	})
	table := peers.New(peers.Options{})
	p := New(Options{Peers: table})
	var released time.Time
	done := make(chan struct{})
	time.AfterFunc(100*ms, func() { // during the baseline
		defer close(done)
		slot, err := table.Handshake(t.Context(), s.addr)
		if err != nil {
			t.Error(err)
			return
		}
		time.Sleep(500 * ms)
		released = time.Now()
		slot.Release()
	})
	r := p.Run(t.Context(), &Job{Module: module(loaded("up", streams, 0), parts(300*ms, 0, 300*ms)), Addr: s.addr})
	<-done
	checkLoad(t, r, 1)
	checkEnded(t, p, 5*time.Second)
	if len(came) != streams {
		t.Fatalf("%d streams", len(came))
	}
	if came[0].Before(released) {
		t.Errorf("a load stream came %v before the handshake slot was free", released.Sub(came[0]))
	}
	if r.Phases[PhaseWait].V < 200*ms {
		t.Errorf("waited for %v", r.Phases[PhaseWait].V)
	}
	for i := 1; i < streams; i++ {
		if came[i].Before(proved[i-1]) {
			t.Errorf("stream %d came %v before the one before it had its ack", i, proved[i-1].Sub(came[i]))
		}
	}
}

// An immediate exit half-closes everything, in the middle of a load too: the peer
// sees a FIN on each connection, and no reset before it.
func TestLoadHalfCloseAll(t *testing.T) {
	tests := make(map[string]func(*testing.T))
	for _, dir := range []string{"up", "down", "both"} {
		tests[dir] = func(t *testing.T) {
			type end struct {
				at  time.Time
				err error
			}
			ends := make(chan end, 8)
			s := startLoadPeer(t, func(c *net.TCPConn, _ int) {
				ackOf(c)
				sent := make(chan struct{})
				go func() {
					defer close(sent)
					data := make([]byte, 8<<10)
					for range 2000 {
						if _, err := c.Write(data); err != nil {
							return
						}
						time.Sleep(ms)
					}
				}()
				_, err := io.Copy(io.Discard, c)
				ends <- end{time.Now(), err}
				<-sent
				_ = c.Close()
			})
			p := New(Options{Bounds: shortBounds})
			var at time.Time
			called := make(chan struct{})
			time.AfterFunc(700*ms, func() {
				defer close(called)
				at = time.Now()
				p.HalfCloseAll()
			})
			r := p.Run(t.Context(), &Job{Module: module(loaded(dir, 2, 3*time.Second)), Addr: s.addr})
			<-called
			if r.Err == nil || r.Err.Reason != ReasonLoadFailed && r.Err.Reason != ReasonClosedEarly {
				t.Errorf("%v, want load_failed or closed_early", r.Err)
			}
			for range 2 {
				e := <-ends
				if late := e.at.Sub(at); e.err != nil || late < 0 || late > lateness {
					t.Errorf("a load stream ended %v later with %v, want a FIN at once", late, e.err)
				}
			}
			bounce := s.bounces.WaitEnded(t, 1, 3*time.Second)[0]
			if late := bounce.EndAt.Sub(at); bounce.End != fakeserver.FIN || late < 0 || late > lateness {
				t.Errorf("the bounce connection ended %v later with a %v, want a FIN at once", late, bounce.End)
			}
			idle(t, p, 20*time.Second)
		}
	}
	sideBySide(t, tests)
}
