package prober

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/config"
	"github.com/bounceback-exporter/bounceback_exporter/internal/iperftest"
	"github.com/bounceback-exporter/bounceback_exporter/prober/fakeserver"
	"github.com/bounceback-exporter/bounceback_exporter/prober/peers"
	"github.com/bounceback-exporter/bounceback_exporter/prober/wire"
	"github.com/bounceback-exporter/bounceback_exporter/responder"
)

func listen(t *testing.T) *net.TCPListener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.(*net.TCPListener)
}

func addrOf(l net.Listener) netip.AddrPort { return l.Addr().(*net.TCPAddr).AddrPort() }

// iperfVersion is a release for scripts and emulations.
func iperfVersion(lower, patch uint16) wire.Version {
	return wire.Version{Upper: 2, Lower: lower, Patch: patch, Stage: wire.StageRelease}
}

// Peers that can't bounce: each has its reason, with small messages, and with big
// ones, where a version request comes first.
func TestStrangers(t *testing.T) {
	t.Parallel()
	web := &http.Server{Handler: http.NotFoundHandler()}
	webListener := listen(t)
	go web.Serve(webListener)
	t.Cleanup(func() { web.Close() })
	fake := func(m fakeserver.Mode) func() netip.AddrPort {
		return func() netip.AddrPort { return fakeserver.Start(t, fakeserver.Script{Mode: m}).Addr() }
	}
	at := func(l net.Listener) func() netip.AddrPort { return func() netip.AddrPort { return addrOf(l) } }
	const anyKind = PeerKind(99)
	gone := listen(t)
	gone.Close()
	for name, tc := range map[string]struct {
		start   func() netip.AddrPort
		reasons string
		kind    PeerKind
		says    string
	}{
		"iperf3":      {func() netip.AddrPort { return iperftest.Iperf3(t) }, "no_bounceback", PeerIperf3, "iperf 3"},
		"busy iperf3": {fake(fakeserver.Iperf3Busy), "no_bounceback", PeerIperf3, "iperf 3"},
		// It waits for the end of a line, which the time stamp of a message may contain.
		"web server":     {at(webListener), "silent no_bounceback", anyKind, ""},
		"fake http":      {fake(fakeserver.HTTP), "no_bounceback", PeerOther, "HTTP/1.1 400"},
		"mute":           {at(listen(t)), "silent", PeerUnknown, ""},
		"silent":         {fake(fakeserver.Silent), "silent", PeerUnknown, ""},
		"never reads":    {fake(fakeserver.NeverReads), "silent", PeerUnknown, ""},
		"closes":         {fake(fakeserver.AcceptClose), "closed_early reset", PeerUnknown, ""},
		"resets":         {fake(fakeserver.AcceptReset), "reset", PeerUnknown, ""},
		"nobody listens": {at(gone), "connect_refused", PeerUnknown, "refused"},
	} {
		for _, size := range []int{100, 131072} {
			p := New(Options{Bounds: shortBounds})
			m := module(counted(3), func(m *config.Module) { m.Timeout, m.Size = time.Second, size })
			r := p.Run(t.Context(), &Job{Module: m, Addr: tc.start()})
			if r.Err == nil || !strings.Contains(" "+tc.reasons+" ", " "+string(r.Err.Reason)+" ") ||
				!strings.Contains(r.Err.Error(), tc.says) || r.Peer.Kind != tc.kind && tc.kind != anyKind {
				t.Errorf("%s, %d bytes: %v, kind %d, want %s%s", name, size, r.Err, r.Peer.Kind, tc.reasons, logOf(r))
			}
			if r.Elapsed > m.Timeout+lateness {
				t.Errorf("%s, %d bytes: answered after %v", name, size, r.Elapsed)
			}
			idle(t, p, shortBounds.FirstWrite+2*shortBounds.Drain+lateness)
		}
	}
}

// A first message that a peer does not read is written on in the background as
// long as that may take, and only then half-closed.
func TestPeerThatNeverReads(t *testing.T) {
	t.Parallel()
	s := fakeserver.Start(t, fakeserver.Script{Mode: fakeserver.NeverReads})
	p := New(Options{Bounds: shortBounds})
	p.opts.Peers.Learn(s.Addr(), peerVersion(wire.V2_1_9)) // no version request first
	m := module(counted(3), func(m *config.Module) { m.Timeout, m.Size = 300*time.Millisecond, 131072 })
	begin := time.Now()
	r := p.Run(t.Context(), &Job{Module: m, Addr: s.Addr()})
	want(t, r, ReasonSilent)
	if n := p.DrainsInFlight(); n != 1 {
		t.Errorf("%d connections are being ended, want 1", n)
	}
	idle(t, p, shortBounds.FirstWrite+shortBounds.Drain+lateness)
	if took := time.Since(begin); took < m.Timeout+shortBounds.FirstWrite {
		t.Errorf("given up after %v: the write had %v beyond the probe", took, shortBounds.FirstWrite)
	}
	if n := p.DrainsAbandoned(); n != 1 {
		t.Errorf("%d abandoned, want 1", n)
	}
	j := s.Journal()
	if len(j) != 1 || j[0].End == fakeserver.RST {
		t.Errorf("journal %+v", j)
	}
}

// Releases of iperf 2 without bounceback are told by their version, even those
// that answer version requests only.
func TestOldReleases(t *testing.T) {
	t.Parallel()
	for _, v := range []wire.Version{iperfVersion(0, 13), iperfVersion(1, 1), iperfVersion(1, 5), iperfVersion(1, 6)} {
		for _, size := range []int{100, 131072} {
			s := fakeserver.Start(t, fakeserver.Script{Mode: fakeserver.Sink, Version: v})
			p := New(Options{Bounds: Bounds{FirstWrite: time.Second, Drain: time.Second, FirstReply: 200 * time.Millisecond}})
			m := module(counted(3), func(m *config.Module) { m.Size = size })
			r := p.Run(t.Context(), &Job{Module: m, Addr: s.Addr()})
			want(t, r, ReasonNoBounceback)
			if r.Err != nil && !strings.Contains(r.Err.Error(), "iperf "+v.String()) || r.Peer.Kind != PeerNoBounceback || r.Peer.Version.V != v {
				t.Errorf("%v, %d bytes: %v, peer %+v", v, size, r.Err, r.Peer)
			}
			idle(t, p, 3*time.Second)
			checkJournal(t, s, 1)
		}
	}
}

// checkJournal states what every connection must be like that an honest peer saw:
// a whole first message, and a FIN.
func checkJournal(t *testing.T, s *fakeserver.Server, least int) []fakeserver.Conn {
	t.Helper()
	j := s.WaitEnded(t, least, 3*time.Second)
	for i, c := range j {
		if !c.FirstComplete || c.End != fakeserver.FIN {
			t.Errorf("connection %d: first message whole: %v, end %v, %d bytes", i, c.FirstComplete, c.End, c.Received)
		}
	}
	return j
}

// checkApart: of two connections the earlier one does not end while the later one
// is being taken, and the later one is not opened while the earlier one is being
// ended, nor for a while after. The peer's own notes are late on a busy machine,
// so half of that while is good enough.
func checkApart(t *testing.T, j []fakeserver.Conn) {
	t.Helper()
	for k, b := range j {
		for i, a := range j[:k] {
			switch {
			case a.EndAt.IsZero() || a.Closed.IsZero():
			case b.Accepted.Before(a.EndAt):
				if a.EndAt.Before(b.FirstCompleteAt) {
					t.Errorf("connection %d was ended while %d was being taken: %v before its message", i, k, b.FirstCompleteAt.Sub(a.EndAt))
				}
			case b.Accepted.Sub(a.Closed) < 50*time.Millisecond:
				t.Errorf("connection %d was opened %v after the end of %d began and %v after it was over", k, b.Accepted.Sub(a.EndAt), i, b.Accepted.Sub(a.Closed))
			}
		}
	}
}

// iperf 2.1.7 speaks a layout of its own: found out by its ack, and after a pause
// there is a second connection.
func TestRelease217(t *testing.T) {
	t.Parallel()
	for _, size := range []int{100, 8000} {
		s := fakeserver.Start(t, fakeserver.Script{Layout: wire.LayoutA, Version: wire.V2_1_7})
		p := New(Options{})
		for probe := range 2 {
			m := module(counted(3), func(m *config.Module) { m.Size = size })
			r := p.Run(t.Context(), &Job{Module: m, Addr: s.Addr()})
			checkComplete(t, r)
			if r.Peer.Layout != wire.LayoutA || r.Peer.Version.V != wire.V2_1_7 {
				t.Errorf("probe %d: peer %+v", probe, r.Peer)
			}
			idle(t, p, 3*time.Second)
		}
		// The second probe knows: one connection.
		j := checkJournal(t, s, 3)
		if len(j) != 3 {
			t.Errorf("%d bytes: %d connections for two probes, want 3", size, len(j))
		}
		checkApart(t, j)
	}
}

// The same against our own responder, which closes as the real one does; it also
// has 2.1.7's limit of ten seconds.
func TestRelease217Responder(t *testing.T) {
	t.Parallel()
	addr := respond(t, responder.Options{Emulate: &responder.Emulation{Version: wire.V2_1_7}})
	p := New(Options{})
	m := module(counted(5), func(m *config.Module) { m.Hold, m.DSCP = 5*time.Millisecond, 10 })
	r := p.Run(t.Context(), &Job{Module: m, Addr: addr})
	checkComplete(t, r)
	if r.Peer.Layout != wire.LayoutA {
		t.Errorf("layout %v", r.Peer.Layout)
	}
	for i := range r.Windows[0].Samples {
		if d := r.Windows[0].Samples[i].Dwell(); d < 5*time.Millisecond-time.Microsecond {
			t.Errorf("a hold of 5 ms took %v", d)
		}
	}
	r = p.Run(t.Context(), &Job{Module: module(timed(30*time.Second), func(m *config.Module) { m.Timeout = time.Minute }), Addr: addr})
	want(t, r, ReasonUnsupported)
	if r.Elapsed > 5*time.Second {
		t.Errorf("refused after %v", r.Elapsed)
	}
	idle(t, p, 3*time.Second)
}

// respond runs a responder that ends with the test.
func respond(t *testing.T, o responder.Options) netip.AddrPort {
	t.Helper()
	ln, err := responder.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- responder.New(o).Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return addrOf(ln)
}

// A server that was replaced by another release is found out anew.
func TestReleaseChanges(t *testing.T) {
	t.Parallel()
	now := fakeserver.Script{Layout: wire.LayoutA, Version: wire.V2_1_7}
	next := fakeserver.Script{Layout: wire.LayoutC, Version: wire.V2_2_0}
	for name, tc := range map[string]struct {
		known wire.Version
		is    fakeserver.Script
		conns int
	}{
		"2.1.8 became 2.1.7": {wire.V2_1_8, now, 2},
		// Layout A is swallowed by what is newer; a version request tells.
		"2.1.7 became 2.2.0": {wire.V2_1_7, next, 3},
	} {
		s := fakeserver.Start(t, tc.is)
		p := New(Options{Bounds: Bounds{FirstReply: 200 * time.Millisecond}})
		p.opts.Peers.Learn(s.Addr(), peerVersion(tc.known))
		r := p.Run(t.Context(), &Job{Module: module(counted(3)), Addr: s.Addr()})
		if !r.Success() || r.Peer.Version.V != tc.is.Version {
			t.Errorf("%s: %v, peer %+v%s", name, r.Err, r.Peer, logOf(r))
		}
		idle(t, p, 3*time.Second)
		if j := checkJournal(t, s, tc.conns); len(j) != tc.conns {
			t.Errorf("%s: %d connections, want %d", name, len(j), tc.conns)
		}
		if v, ok := p.opts.Peers.Version(s.Addr()); !ok || v != peerVersion(tc.is.Version) {
			t.Errorf("%s: remembered %v, %v", name, v, ok)
		}
	}
}

// After a failure nothing that was known of the server is believed any more,
// unless the failure was ours.
func TestVersionForgottenAfterFailure(t *testing.T) {
	t.Parallel()
	s := fakeserver.Start(t, fakeserver.Script{Version: wire.V2_1_9, Fault: fakeserver.Fault{Action: fakeserver.HalfClose, Reply: 3}})
	p := New(Options{})
	r := p.Run(t.Context(), &Job{Module: module(counted(5)), Addr: s.Addr()})
	want(t, r, ReasonClosedEarly)
	if v, ok := p.opts.Peers.Version(s.Addr()); ok {
		t.Errorf("still believed: %v", v)
	}
	p.opts.Peers.Learn(s.Addr(), peers.Version{Upper: 2, Lower: 1, Patch: 9})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	want(t, p.Run(ctx, &Job{Module: module(counted(5)), Addr: s.Addr()}), ReasonCancelled)
	if _, ok := p.opts.Peers.Version(s.Addr()); !ok {
		t.Error("forgotten after a cancel")
	}
	idle(t, p, 3*time.Second)
}
