package web

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	toolkit "github.com/prometheus/exporter-toolkit/web"

	"github.com/bounceback-exporter/bounceback_exporter/prober"
)

// freeAddress is a loopback address that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// service is a lab that serves on real ports.
type service struct {
	*lab
	addresses []string
	signals   chan os.Signal
	code      chan int
}

func (l *lab) start(t *testing.T, n int, b StopBounds, alongside ...func(context.Context) error) *service {
	t.Helper()
	s := &service{lab: l, signals: make(chan os.Signal, 4), code: make(chan int, 1)}
	for range n {
		s.addresses = append(s.addresses, freeAddress(t))
	}
	var no bool
	var none string
	flags := &toolkit.FlagConfig{WebListenAddresses: &s.addresses, WebSystemdSocket: &no, WebConfigFile: &none}
	go func() {
		s.code <- l.Serve(ServeOptions{Flags: flags, Signals: s.signals, Bounds: b, Alongside: alongside})
	}()
	for _, a := range s.addresses {
		waitFor(t, a, func() bool {
			c, err := net.Dial("tcp", a)
			if err == nil {
				c.Close()
			}
			return err == nil
		})
	}
	return s
}

// exit waits for the end.
func (s *service) exit(t *testing.T) int {
	t.Helper()
	select {
	case code := <-s.code:
		return code
	case <-time.After(20 * time.Second):
		t.Fatal("it does not stop")
		return -1
	}
}

var longBounds = StopBounds{Answers: time.Minute, Cancelled: time.Minute, Background: time.Minute}

func TestServeStopsInOrder(t *testing.T) {
	l := newLab(testConfig(testModule("rtt")), nil)
	began, finish := make(chan struct{}), make(chan struct{})
	l.runner.run = func(ctx context.Context, job *prober.Job) *prober.Result {
		close(began)
		select {
		case <-finish:
			return bounced(job)
		case <-ctx.Done():
			return untilDone(ctx, job)
		}
	}
	var alongside atomic.Value
	s := l.start(t, 2, longBounds, func(ctx context.Context) error {
		<-ctx.Done()
		select {
		case <-finish:
			alongside.Store("after the answers")
		default:
			alongside.Store("before the answers")
		}
		return nil
	})
	for _, a := range s.addresses {
		if code, _, _ := fetch(t, "http://"+a+"/-/ready"); code != 200 {
			t.Errorf("%s answers %d", a, code)
		}
	}
	var body string
	var wg sync.WaitGroup
	wg.Go(func() { _, _, body = fetch(t, "http://"+s.addresses[1]+"/probe?target=192.0.2.1") })
	<-began
	s.signals <- syscall.SIGHUP // no stop
	s.signals <- syscall.SIGTERM
	for _, a := range s.addresses {
		waitFor(t, a+" to stop listening", func() bool {
			c, err := net.Dial("tcp", a)
			if err == nil {
				c.Close()
			}
			return err != nil
		})
	}
	s.signals <- syscall.SIGHUP // no second signal either
	close(finish)
	if code := s.exit(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	wg.Wait()
	if seriesOf(body, "probe_success") != "1" {
		t.Errorf("the running probe answered %s", body)
	}
	if got := alongside.Load(); got != "after the answers" {
		t.Errorf("what runs alongside ended %v", got)
	}
	if n := l.background.halfClosed.Load(); n != 0 {
		t.Errorf("half-closed %d times in an orderly stop", n)
	}
}

// A probe that takes longer than the bound is called off, and still answers.
func TestServeCallsOffLongProbes(t *testing.T) {
	l := newLab(testConfig(testModule("rtt")), nil)
	began := make(chan struct{})
	l.runner.run = func(ctx context.Context, job *prober.Job) *prober.Result {
		close(began)
		return untilDone(ctx, job)
	}
	b := longBounds
	b.Answers = 10 * time.Millisecond
	s := l.start(t, 1, b)
	var body string
	var wg sync.WaitGroup
	wg.Go(func() { _, _, body = fetch(t, "http://"+s.addresses[0]+"/probe?target=192.0.2.1") })
	<-began
	s.signals <- os.Interrupt
	if code := s.exit(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	wg.Wait()
	if seriesOf(body, `probe_failure_reason{reason="cancelled"}`) != "1" {
		t.Errorf("got %s", body)
	}
}

// What goes on in the background is waited for, but not for ever.
func TestServeBackground(t *testing.T) {
	for _, ends := range []bool{true, false} {
		l := newLab(testConfig(testModule("rtt")), nil)
		b := longBounds
		if !ends {
			b.Background = 10 * time.Millisecond
		}
		s := l.start(t, 1, b)
		l.background.drains.Store(1)
		s.signals <- syscall.SIGTERM
		if ends {
			time.AfterFunc(50*time.Millisecond, func() { l.background.drains.Store(0) })
		}
		if code := s.exit(t); code != 0 {
			t.Errorf("exit code %d", code)
		}
		if halfClosed := l.background.halfClosed.Load() > 0; halfClosed == ends {
			t.Errorf("the background ends: %v; half-closed: %v", ends, halfClosed)
		}
	}
}

func TestServeSecondSignal(t *testing.T) {
	l := newLab(testConfig(testModule("rtt")), nil)
	began, end := make(chan struct{}), make(chan struct{})
	l.runner.run = func(ctx context.Context, job *prober.Job) *prober.Result {
		close(began)
		<-end // even one that does not listen
		return bounced(job)
	}
	s := l.start(t, 1, longBounds)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if res, err := http.Get("http://" + s.addresses[0] + "/probe?target=192.0.2.1"); err == nil {
			res.Body.Close()
		}
	}()
	<-began
	s.signals <- syscall.SIGTERM
	s.signals <- syscall.SIGTERM
	if code := s.exit(t); code == 0 {
		t.Error("exit code 0, as after an orderly stop")
	}
	if l.background.halfClosed.Load() != 1 {
		t.Error("no connection was half-closed")
	}
	close(end)
	<-done
	// What an exit of the process would have ended.
	http.DefaultClient.CloseIdleConnections()
	waitFor(t, "the first stop", func() bool { return strings.Count(l.log.String(), "stopped at once") == 1 })
}

func TestServeWhereItCannot(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for name, tc := range map[string]struct {
		addresses []string
		config    string
		alongside error
	}{
		"port taken":  {addresses: []string{freeAddress(t), ln.Addr().String()}},
		"no address":  {addresses: []string{"nonsense"}},
		"no config":   {addresses: []string{freeAddress(t)}, config: "/does/not/exist.yml"},
		"other broke": {addresses: []string{freeAddress(t)}, alongside: errors.New("other broke")},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(testConfig(testModule("rtt")), nil)
			var no bool
			code := make(chan int, 1)
			go func() {
				code <- l.Serve(ServeOptions{
					Flags:   &toolkit.FlagConfig{WebListenAddresses: &tc.addresses, WebSystemdSocket: &no, WebConfigFile: &tc.config},
					Signals: make(chan os.Signal), Bounds: longBounds,
					Alongside: []func(context.Context) error{func(ctx context.Context) error {
						if tc.alongside != nil {
							return tc.alongside
						}
						<-ctx.Done()
						return nil
					}},
				})
			}()
			select {
			case c := <-code:
				if c == 0 {
					t.Error("exit code 0")
				}
			case <-time.After(20 * time.Second):
				t.Fatal("it goes on")
			}
			if !strings.Contains(l.log.String(), "can't go on") {
				t.Errorf("log: %s", l.log)
			}
		})
	}
}

// raw talks to a server of ours byte by byte.
func raw(t *testing.T, l *lab, change func(*http.Server)) net.Conn {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := l.server(t.Context())
	if srv.ReadHeaderTimeout <= 0 || srv.IdleTimeout <= 0 || srv.MaxHeaderBytes <= 0 {
		t.Fatal("a bound is missing")
	}
	change(srv)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(ln)
	}()
	t.Cleanup(func() {
		srv.Close()
		<-done
	})
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return c
}

func TestSlowClients(t *testing.T) {
	short := func(s *http.Server) { s.ReadHeaderTimeout, s.IdleTimeout = 50*time.Millisecond, 50*time.Millisecond }
	for name, send := range map[string]string{
		"silent":         "",
		"half a line":    "GET /probe?target=192.0.2.1 HT",
		"endless header": "GET / HTTP/1.1\r\nHost: x\r\nA: b",
		"idle after one": "GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			c := raw(t, newLab(testConfig(testModule("rtt")), nil), short)
			if _, err := io.WriteString(c, send); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(c); err != nil {
				t.Errorf("the connection stays open: %v", err)
			}
		})
	}
}

// A client that asks, but never reads: the server does not write for ever.
func TestClientThatNeverReads(t *testing.T) {
	l := newLab(testConfig(testModule("rtt")), nil)
	l.writeTime = 50 * time.Millisecond
	c := raw(t, l, func(*http.Server) {})
	request := []byte("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
	for range 1_000_000 { // 10 GB of answers: more than any buffer
		if _, err := c.Write(request); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the connection stays open")
			}
			return
		}
	}
	t.Error("a million answers were written, and none was read")
}

// A client that waits long for its probe is no slow client.
func TestPatientClient(t *testing.T) {
	l := newLab(testConfig(testModule("rtt")), nil)
	l.runner.run = func(ctx context.Context, job *prober.Job) *prober.Result {
		select {
		case <-ctx.Done():
			return untilDone(ctx, job)
		case <-time.After(300 * time.Millisecond):
			return bounced(job)
		}
	}
	c := raw(t, l, func(s *http.Server) { s.ReadHeaderTimeout, s.IdleTimeout = 50*time.Millisecond, 50*time.Millisecond })
	if _, err := io.WriteString(c, "GET /probe?target=192.0.2.1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if err != nil || !strings.Contains(string(answer), "\nprobe_success 1\n") {
		t.Errorf("%v: %s", err, answer)
	}
}

func TestBodiesAndHeadersAreBounded(t *testing.T) {
	for name, tc := range map[string]struct{ send, want string }{
		"body that never comes":    {"POST /-/reload HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", "HTTP/1.1 413"},
		"chunks that never come":   {"GET /probe?target=192.0.2.1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.1 413"},
		"expects to be asked":      {"PUT /-/reload HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n", "HTTP/1.1 413"},
		"headers of 64 KiB":        {"GET / HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("a", 64<<10) + "\r\n\r\n", "HTTP/1.1 431"},
		"URL of 64 KiB":            {"GET /probe?target=" + strings.Repeat("a", 64<<10) + " HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 431"},
		"URL of 8 KiB":             {"GET /probe?target=" + strings.Repeat("a", 8<<10) + " HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 414"},
		"POST without a body":      {"POST /-/reload HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200"},
		"what is no HTTP at all":   {"\x16\x03\x01 hello\r\n\r\n", "HTTP/1.1 400"},
		"a probe of another epoch": {"GET /probe?target=192.0.2.1 HTTP/0.9\r\n\r\n", "HTTP/1.1 505"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(testConfig(testModule("rtt")), nil)
			c := raw(t, l, func(*http.Server) {})
			go func() { _, _ = io.WriteString(c, tc.send) }()
			line, err := bufio.NewReader(c).ReadString('\n')
			if err != nil || !strings.HasPrefix(line, tc.want) {
				t.Errorf("got %q, %v; want %s", line, err, tc.want)
			}
			if l.runner.runs.Load() != 0 {
				t.Error("something was probed")
			}
		})
	}
}
