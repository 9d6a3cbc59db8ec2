package responder

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// 1000 connections that say nothing, 1000 that send garbage and stay, and more than
// the limit of them: an honest client gets its answers, all are counted, and all are
// gone in the end.
func TestCrowd(t *testing.T) {
	const limit, crowd = 1500, 1000
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil || files.Cur < 2*2*crowd+100 {
		t.Skipf("needs %d open files, may have %d (%v)", 2*2*crowd+100, files.Cur, err)
	}
	r, addr := start(t, Options{MaxConnections: limit, FirstMessageTimeout: 3 * time.Second})
	var conns []net.Conn
	t.Cleanup(func() {
		for _, c := range conns {
			c.Close()
		}
	})
	garbage := []byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 noise")
	for i := range crowd {
		for _, b := range [][]byte{nil, garbage[:4+i%(len(garbage)-4)]} {
			c, err := net.Dial("tcp", addr.String())
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, c)
			if len(b) > 0 {
				write(t, c, b)
			}
		}
		if i%250 == 0 {
			honest(t, addr, 2)
		}
	}
	honest(t, addr, 10)
	waitFor(t, func() bool { return r.Stats().Garbage == crowd })
	s := r.Stats()
	if s.Bounces != 4*2+10 || s.Active > limit || s.Accepted != 2*crowd+5 || s.Rejected > 0 {
		t.Errorf("%+v", s)
	}
	waitFor(t, func() bool { return r.Stats().Active == 0 })
	if s := r.Stats(); s.TimedOut+s.Evicted < crowd {
		t.Errorf("%d silent ones, %+v", crowd, s)
	}
}
