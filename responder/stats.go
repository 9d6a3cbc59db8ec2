package responder

import "sync/atomic"

// Stats is what a responder did since it was made.
type Stats struct {
	Accepted uint64 // connections taken on
	Active   int    // connections now
	Waiting  int    // of these, without a complete first message
	// Rejected connections were closed at once, at MaxConnections or MaxPerAddress.
	Rejected uint64
	// Evicted connections had no complete first message and gave way to new ones.
	Evicted uint64
	Tests   uint64 // bounce tests begun
	Bounces uint64 // replies written
	Acks    uint64 // version requests and load headers answered
	// Garbage is connections whose first message no iperf 2 client sends.
	Garbage uint64
	Resets  uint64 // connections that the client reset
	// TimedOut connections took longer than FirstMessageTimeout or IdleTimeout.
	TimedOut     uint64
	Loads        uint64 // load streams begun
	LoadsActive  int    // load streams now
	LoadsRefused uint64 // beyond MaxLoadStreams, or all with DisableLoads
	LoadReceived uint64 // bytes of load streams
	LoadSent     uint64
	AcceptErrors uint64 // failures of the listener that it recovered from
}

type counters struct {
	accepted, rejected, evicted, tests, bounces, acks, garbage, resets, timedOut,
	loads, loadsRefused, loadReceived, loadSent, acceptErrors atomic.Uint64
	loadsActive atomic.Int64
}

// Stats is safe to call at any time.
func (r *Responder) Stats() Stats {
	r.mu.Lock()
	active, waiting := len(r.conns), r.waiting.Len()
	r.mu.Unlock()
	n := &r.count
	return Stats{
		Accepted: n.accepted.Load(), Active: active, Waiting: waiting,
		Rejected: n.rejected.Load(), Evicted: n.evicted.Load(),
		Tests: n.tests.Load(), Bounces: n.bounces.Load(), Acks: n.acks.Load(),
		Garbage: n.garbage.Load(), Resets: n.resets.Load(), TimedOut: n.timedOut.Load(),
		Loads: n.loads.Load(), LoadsActive: int(n.loadsActive.Load()),
		LoadsRefused: n.loadsRefused.Load(),
		LoadReceived: n.loadReceived.Load(), LoadSent: n.loadSent.Load(),
		AcceptErrors: n.acceptErrors.Load(),
	}
}
