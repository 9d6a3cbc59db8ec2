package responder

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/prober/wire"
)

func loadHeader(t testing.TB, h wire.TestHeader) []byte {
	t.Helper()
	b := make([]byte, wire.TestHeaderLen)
	if err := h.Put(b); err != nil {
		t.Fatal(err)
	}
	return b
}

// load opens a load stream.
func load(t testing.TB, to netip.AddrPort, header []byte) *net.TCPConn {
	t.Helper()
	c := dial(t, to)
	write(t, c, header)
	return c
}

// drain reads to the FIN and tells how much there was and how long it took.
func drain(t testing.TB, c net.Conn) (int64, time.Duration) {
	t.Helper()
	begin := time.Now()
	n, err := io.Copy(io.Discard, c)
	if err != nil {
		t.Fatalf("after %d bytes: %v", n, err)
	}
	return n, time.Since(begin)
}

// A download is digits for the time that its header asks for, then a FIN; the
// client's FIN does not shorten it.
func TestDownload(t *testing.T) {
	r, addr := start(t, Options{})
	c := load(t, addr, loadHeader(t, wire.TestHeader{Direction: wire.Down, Duration: 300 * time.Millisecond}))
	for i, b := range read(t, c, 1000) {
		if b != '0'+byte(i%10) {
			t.Fatalf("byte %d is %#x", i, b)
		}
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	n, took := drain(t, c)
	if n < 1<<20 || took < 200*time.Millisecond {
		t.Errorf("%d bytes in %s", n, took)
	}
	c.Close()
	if s := settled(t, r); s.Loads != 1 || s.LoadSent != uint64(n+1000) || s.Resets+s.TimedOut+s.Acks > 0 {
		t.Errorf("%d bytes read, %+v", n+1000, s)
	}
}

// Full duplex: what is sent both ways is counted, and the client may send beyond the
// responder's own time, up to its FIN.
func TestFullDuplex(t *testing.T) {
	r, addr := start(t, Options{})
	c := load(t, addr, loadHeader(t, wire.TestHeader{Direction: wire.Both, Duration: 200 * time.Millisecond, Ack: true}))
	if !wire.IsAck(read(t, c, wire.AckLen)) {
		t.Error("no ack")
	}
	var got int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		got, _ = io.Copy(io.Discard, c)
	}()
	sent := 0
	chunk := make([]byte, 64<<10)
	for begin := time.Now(); time.Since(begin) < 400*time.Millisecond; sent += len(chunk) {
		write(t, c, chunk)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	<-done
	c.Close()
	if s := settled(t, r); s.LoadReceived != uint64(sent) || s.LoadSent != uint64(got) || got < 1<<20 || s.Resets+s.TimedOut > 0 {
		t.Errorf("sent %d, got %d: %+v", sent, got, s)
	}
}

// A load that is called off (its client stops reading, half-closes, waits for the end
// of its time and then reads) sends little more, and ends with a FIN.
func TestCalledOff(t *testing.T) {
	for _, d := range []wire.Direction{wire.Down, wire.Both} {
		r, addr := start(t, Options{})
		c := load(t, addr, loadHeader(t, wire.TestHeader{Direction: d, Duration: 400 * time.Millisecond}))
		read(t, c, 100_000)
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(600 * time.Millisecond)
		before := r.Stats().LoadSent
		n, took := drain(t, c)
		if s := r.Stats().LoadSent; s != before || uint64(n)+100_000 != s {
			t.Errorf("%s: %d bytes sent at the end of the time, %d at last, %d read", d, before, s, n+100_000)
		}
		if took > time.Second {
			t.Errorf("%s: the FIN came %s after reading began again", d, took)
		}
		c.Close()
		if s := settled(t, r); s.Resets+s.TimedOut > 0 {
			t.Errorf("%s: %+v", d, s)
		}
	}
}

// By bytes instead of time: exactly so many.
func TestDownloadBytes(t *testing.T) {
	_, addr := start(t, Options{})
	h := unhex(t, `44010078 00000001 00001389 00000000 00000000 00100001 00000000 00000000
		04000000 00020001 00080003 00000000 00000000 00000000 00000000`)
	if n, _ := drain(t, load(t, addr, h)); n != 1<<20+1 {
		t.Errorf("%d bytes, want %d", n, 1<<20+1)
	}
}

// A rate in the header is kept on the average: 8 Mbit/s for 0.5 s.
func TestRate(t *testing.T) {
	_, addr := start(t, Options{})
	h := loadHeader(t, wire.TestHeader{Direction: wire.Down, Duration: 500 * time.Millisecond})
	copy(h[48:], unhex(t, "007a1200"))
	n, _ := drain(t, load(t, addr, h))
	// Never more than the rate's and one step of it; a busy host may send less.
	if n > 500_000+20_000 || n < 50_000 {
		t.Errorf("%d bytes in 0.5 s at 1 MB/s", n)
	}
}

// With trip-times the stream is a header of 80 bytes and then whole bursts.
func TestTripTimesFrames(t *testing.T) {
	_, addr := start(t, Options{})
	for _, d := range []wire.Direction{wire.Down, wire.Both} {
		for _, size := range []int{0, 1, 100, 5000} {
			h := make([]byte, 80)
			copy(h, loadHeader(t, wire.TestHeader{Direction: d, Duration: 100 * time.Millisecond}))
			h[3] = 80 << 1
			h[14], h[15] = byte(size>>8), byte(size)
			h[33] |= 0x10
			c := load(t, addr, h)
			if err := c.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			own, err := wire.DecodeTestRequest(read(t, c, 80))
			if err != nil || !own.TripTimes || own.Length != 80 || (own.Direction == wire.Both) != (d == wire.Both) || !own.Start.Valid() {
				t.Errorf("%s: own header %+v, %v", d, own, err)
			}
			want := map[int]uint32{0: 131072, 1: 92, 100: 100, 5000: 5000}[size]
			var total uint64
			for number := uint32(1); ; number++ {
				head := make([]byte, wire.BurstHeaderLen)
				if _, err := io.ReadFull(c, head); err == io.EOF {
					if number < 3 {
						t.Errorf("%s: %d bursts", d, number-1)
					}
					break
				} else if err != nil {
					t.Fatalf("%s, %d: burst %d: %v", d, size, number, err)
				}
				b, err := wire.DecodeBurstHeader(head)
				total += uint64(b.Size)
				if err != nil || b.Number != number || b.Size != want || b.Start != own.Start || b.Write.UnixNano() < b.Start.UnixNano() || b.Sequence != total {
					t.Fatalf("%s, %d: burst %d: %+v, %v", d, size, number, b, err)
				}
				read(t, c, int(b.Size)-len(head))
			}
		}
	}
}

// Uploads are received to the client's FIN, with and without a header; what cannot
// be told from data is data.
func TestUpload(t *testing.T) {
	up := loadHeader(t, wire.TestHeader{Direction: wire.Up, Duration: 100 * time.Millisecond, Ack: true})
	key := append(unhex(t, `5401007c 00000001 00001389 00000000 00000000 ffffff38 00000000 00000000
		00000000 00020001 00080003 00000000 00000000 00000000 00000000 0008`), "abcdefgh"...)
	for name, tc := range map[string]struct {
		first    []byte
		received uint64
		acks     uint64
	}{
		"header":      {up, 0, 1},
		"no header":   {make([]byte, 100), 100, 0},
		"digits":      {[]byte("0123456789"), 10, 0},
		"permit key":  {key, 8, 0}, // its two bytes of length are in the header's
		"legacy dual": {unhex(t, "80000001 00000001 00001389 00000000 00000000 ffffff38"), 24, 0},
	} {
		r, addr := start(t, Options{})
		c := load(t, addr, tc.first)
		if tc.acks > 0 {
			if a, err := wire.DecodeAck(read(t, c, wire.AckLen)); err != nil || a.Version != OwnVersion() {
				t.Errorf("%s: ack %+v, %v", name, a, err)
			}
		}
		write(t, c, make([]byte, 1<<20))
		end(t, c)
		c.Close()
		if s := settled(t, r); s.LoadReceived != tc.received+1<<20 || s.Acks != tc.acks || s.Loads != 1 || s.Garbage > 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// A version request is no load: it is answered also where there are none to be had.
func TestVersionRequestIsNoLoad(t *testing.T) {
	r, addr := start(t, Options{DisableLoads: true})
	h := make([]byte, wire.TestHeaderLen)
	if err := wire.PutVersionRequest(h); err != nil {
		t.Fatal(err)
	}
	c := load(t, addr, h)
	if a, err := wire.DecodeAck(read(t, c, wire.AckLen)); err != nil || a.Version != OwnVersion() {
		t.Errorf("ack %+v, %v", a, err)
	}
	end(t, c)
	if s := settled(t, r); s.Loads+s.LoadsRefused+s.TimedOut > 0 || s.Acks != 1 {
		t.Errorf("%+v", s)
	}
}

// refused wants the connection to end without data.
func refused(t testing.TB, c *net.TCPConn) {
	t.Helper()
	b, err := io.ReadAll(c)
	if len(b) > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a refused load: %d bytes, %v", len(b), err)
	}
}

// Loads beyond the limit are refused and counted; bounces go on.
func TestLoadLimits(t *testing.T) {
	r, addr := start(t, Options{MaxLoadStreams: 2})
	down := loadHeader(t, wire.TestHeader{Direction: wire.Down, Duration: 10 * time.Second})
	up := loadHeader(t, wire.TestHeader{Direction: wire.Up, Duration: 10 * time.Second})
	a := load(t, addr, down)
	read(t, a, 1000)
	b := load(t, addr, append(up, make([]byte, 1000)...))
	waitFor(t, func() bool { return r.Stats().LoadsActive == 2 })
	refused(t, load(t, addr, down))
	refused(t, load(t, addr, append(up, 1)))
	c := dial(t, addr)
	write(t, c, message(t, wire.Message{}))
	readReply(t, c, wire.LayoutC, 100)
	if s := r.Stats(); s.LoadsRefused != 2 || s.Loads != 2 {
		t.Errorf("%+v", s)
	}
	// The end of one makes room for another.
	end(t, b)
	waitFor(t, func() bool { return r.Stats().LoadsActive == 1 })
	read(t, load(t, addr, down), 1000)

	r, addr = start(t, Options{DisableLoads: true})
	refused(t, load(t, addr, down))
	refused(t, load(t, addr, append(up, 1)))
	if s := r.Stats(); s.LoadsRefused != 2 || s.Loads+s.LoadSent+s.LoadReceived > 0 {
		t.Errorf("disabled: %+v", s)
	}
}

// However long a client asks for, a load is over after the responder's own time.
func TestMaxLoadDuration(t *testing.T) {
	r, addr := start(t, Options{MaxLoadDuration: 100 * time.Millisecond})
	for name, amount := range map[string]string{"two hours": "fff50420", "for ever": "80000000", "no amount": "00000000", "2 GB": "7fffffff"} {
		h := loadHeader(t, wire.TestHeader{Direction: wire.Down})
		copy(h[20:], unhex(t, amount))
		copy(h[48:], unhex(t, "007a1200")) // 8 Mbit/s
		if n, took := drain(t, load(t, addr, h)); took > 5*time.Second || n > 1<<20 {
			t.Errorf("%s: %d bytes in %s", name, n, took)
		}
	}
	if s := r.Stats(); s.Loads != 4 {
		t.Errorf("%+v", s)
	}
}

// A load that its client resets is tolerated.
func TestLoadReset(t *testing.T) {
	r, addr := start(t, Options{})
	for _, d := range []wire.Direction{wire.Up, wire.Down, wire.Both} {
		c := load(t, addr, append(loadHeader(t, wire.TestHeader{Direction: d, Duration: 5 * time.Second}), make([]byte, 100)...))
		waitFor(t, func() bool { return r.Stats().LoadsActive == 1 })
		c.SetLinger(0)
		c.Close()
		settled(t, r)
	}
	if s := r.Stats(); s.Resets != 3 || s.LoadsActive != 0 || s.Loads != 3 {
		t.Errorf("%+v", s)
	}
}

// The responder's stop ends running loads at once.
func TestCloseDuringLoads(t *testing.T) {
	r, addr := start(t, Options{})
	for _, d := range []wire.Direction{wire.Up, wire.Down, wire.Both} {
		load(t, addr, append(loadHeader(t, wire.TestHeader{Direction: d, Duration: time.Minute}), make([]byte, 100)...))
	}
	waitFor(t, func() bool { return r.Stats().LoadsActive == 3 })
	begin := time.Now()
	r.Close()
	if d := time.Since(begin); d > 5*time.Second {
		t.Errorf("Close took %s", d)
	}
	if s := r.Stats(); s.Active+s.LoadsActive > 0 {
		t.Errorf("%+v", s)
	}
}
