package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bounceback-exporter/bounceback_exporter/responder"
)

// asProgram makes the test binary the program itself, so that tests start what
// they were built from, with the race detector where they have it.
const asProgram = "BOUNCEBACK_EXPORTER_AS_PROGRAM"

var listening = regexp.MustCompile(`msg="Listening on" address=(\S+)`)

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// process is a running exporter.
type process struct {
	cmd  *exec.Cmd
	url  string
	urls []string
	done chan struct{} // closed when it has ended and all of its log is there

	mu  sync.Mutex
	log strings.Builder
}

// programCommand is the exporter as a command that is not started yet.
func programCommand(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	return cmd
}

// startExporter starts an exporter on a free port and waits until it listens.
func startExporter(t testing.TB, args ...string) *process {
	t.Helper()
	return startCommand(t, programCommand(append([]string{"--web.listen-address=127.0.0.1:0"}, args...)...), 1)
}

// startCommand starts an exporter that will listen on n addresses.
func startCommand(t testing.TB, cmd *exec.Cmd, n int) *process {
	t.Helper()
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	addresses := make(chan string, 9)
	go func() {
		defer close(p.done)
		in := bufio.NewScanner(stderr)
		in.Buffer(nil, 1<<20)
		for in.Scan() {
			p.mu.Lock()
			p.log.WriteString(in.Text() + "\n")
			p.mu.Unlock()
			if m := listening.FindStringSubmatch(in.Text()); m != nil {
				addresses <- m[1]
			}
		}
		_, _ = io.Copy(io.Discard, stderr)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.done
		if log := p.logged(); strings.Contains(log, "DATA RACE") || strings.Contains(log, "panic") {
			t.Errorf("the exporter says:\n%s", log)
		} else if t.Failed() {
			t.Logf("the exporter says:\n%s", log)
		}
	})
	for range n {
		select {
		case a := <-addresses:
			p.urls = append(p.urls, "http://"+a)
		case <-p.done:
			t.Fatalf("it ended: %v\n%s", cmd.ProcessState, p.logged())
		case <-time.After(30 * time.Second):
			t.Fatalf("it does not listen\n%s", p.logged())
		}
	}
	if n > 0 {
		p.url = p.urls[0]
	}
	return p
}

func (p *process) logged() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// exit waits for the end and returns the exit code.
func (p *process) exit(t *testing.T) int {
	t.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(40 * time.Second):
		t.Fatal("it does not end")
		return -1
	}
}

// get fetches a page; header are pairs.
func (p *process) get(t *testing.T, path string, header ...string) (int, string) {
	t.Helper()
	code, body, err := tryGet(p.url+path, header...)
	if err != nil {
		t.Fatal(err)
	}
	return code, body
}

func tryGet(url string, header ...string) (int, string, error) {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return res.StatusCode, string(body), err
}

// series is the value of a series of an exposition; "" if it is absent.
func series(exposition, name string) string {
	for line := range strings.Lines(exposition) {
		if v, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// eventually waits for a fact.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// startResponder answers bounce tests on a free port of an address, in this
// process.
func startResponder(t *testing.T, host string) (*responder.Responder, string) {
	t.Helper()
	ln, err := responder.Listen(t.Context(), net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	r := responder.New(responder.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return r, ln.Addr().String()
}

// writeConfig writes a configuration file and returns its name.
func writeConfig(t testing.TB, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "bounceback.yml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// writeCertificate writes cert.pem and key.pem for 127.0.0.1.
func writeCertificate(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: private},
	} {
		data := pem.EncodeToMemory(block)
		if name == "cert.pem" {
			pool.AppendCertsFromPEM(data)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return pool
}
