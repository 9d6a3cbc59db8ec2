package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// raw sends bytes to an exporter and returns all of its answers, as they are before
// it closes the connection or has nothing more to say for a while.
func (p *process) raw(t *testing.T, send string) []rawAnswer {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	go func() { _, _ = io.WriteString(c, send) }() // it may be answered, and closed on, before its end
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	in := bufio.NewReader(c)
	var answers []rawAnswer
	for {
		if len(answers) > 0 { // the first one may take its time
			_ = c.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
		}
		if _, err := in.Peek(1); err != nil {
			return answers
		}
		method := http.MethodGet
		if strings.HasPrefix(send, "HEAD") {
			method = http.MethodHead
		}
		res, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			t.Errorf("after %d answers: %v", len(answers), err)
			return answers
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Errorf("answer %d: %v", len(answers), err)
		}
		answers = append(answers, rawAnswer{res.StatusCode, string(body), res.Header})
	}
}

type rawAnswer struct {
	code   int
	body   string
	header http.Header
}

// request is HTTP/1.1 with these header lines and body.
func request(line, headers, body string) string {
	return line + " HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n" + body
}

// What a hostile or broken client, or one behind a proxy that reads requests in
// another way, can get out of the whole program: as many answers as it has asked
// questions, none of them a surprise, and never a probe that was hidden in another
// request.
func TestLifeHTTP(t *testing.T) {
	r, target := startResponder(t, "127.0.0.1")
	p := startExporter(t, "--config.file="+writeConfig(t, "modules: {rtt: {count: 2}}"))
	hidden := request("GET /probe?target="+target, "", "")
	healthy := request("GET /-/healthy", "", "")
	cases := map[string]struct {
		send string
		want []int
	}{
		"pipelined":            {healthy + request("GET /nope", "", "") + healthy, []int{200, 404, 200}},
		"a page and its head":  {request("HEAD /", "", ""), []int{200}},
		"head of a probe":      {request("HEAD /probe?target="+target, "", ""), []int{405}},
		"probe by POST":        {request("POST /probe?target="+target, "Content-Length: 0\r\n", ""), []int{405}},
		"probe by a form":      {request("POST /probe", "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 9\r\n", "target=a&"), []int{413}},
		"options of all":       {request("OPTIONS *", "", ""), []int{200}},
		"options of a probe":   {request("OPTIONS /probe?target="+target, "", ""), []int{405}},
		"trace":                {request("TRACE /", "", ""), []int{405}},
		"a proxy's connect":    {request("CONNECT "+target, "", ""), []int{404}},
		"HTTP/2 without asked": {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", []int{413}},
		"an upgrade":           {request("GET /-/healthy", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n", ""), []int{200}},
		"a method of its own":  {request("PROBE /probe?target="+target, "", ""), []int{405}},

		"path upwards":              {request("GET /../../etc/passwd", "", ""), []int{404}},
		"path upwards, encoded":     {request("GET /%2e%2e/%2e%2e/etc/passwd", "", ""), []int{404}},
		"path upwards from a page":  {request("GET /history/../config", "", ""), []int{404}},
		"path with two slashes":     {request("GET //probe?target="+target, "", ""), []int{404}},
		"path with a backslash":     {request("GET /..\\config", "", ""), []int{404}},
		"path with a NUL":           {request("GET /config%00.html", "", ""), []int{404}},
		"another letter case":       {request("GET /PROBE?target="+target, "", ""), []int{404}},
		"a slash in the page's end": {request("GET /history%2f1", "", ""), []int{404}},
		"a bad escape":              {request("GET /%zz", "", ""), []int{400}},
		"new lines in a target":     {request("GET /probe?target=a%0d%0aX-Injected:%201", "", ""), []int{400}},
		"new lines in a header":     {request("GET /probe?target="+target, "X-Prometheus-Scrape-Timeout-Seconds: 1\r\n 0\r\n", ""), []int{400}},

		// What one may read as the end of a request and another as its body.
		"length and chunks": {request("GET /-/healthy", "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"+hidden), []int{413}},
		"two lengths":       {request("GET /-/healthy", "Content-Length: 0\r\nContent-Length: 44\r\n", hidden), []int{400}},
		"odd coding":        {request("GET /-/healthy", "Transfer-Encoding: xchunked\r\n", hidden), []int{501}},
		"two codings":       {request("GET /-/healthy", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "0\r\n\r\n"+hidden), []int{501}},
		"a body with GET":   {request("GET /-/healthy", fmt.Sprintf("Content-Length: %d\r\n", len(hidden)), hidden), []int{413}},
		"a length with +":   {request("GET /-/healthy", "Content-Length: +0\r\n", hidden), []int{400}},
		"a length below 0":  {request("GET /-/healthy", "Content-Length: -1\r\n", hidden), []int{400}},
		"space before :":    {request("GET /-/healthy", "Content-Length : 44\r\n", hidden), []int{400}},
		// There are no chunks in HTTP/1.0: they are taken for the next request, and
		// that is none.
		"chunks in HTTP/1.0": {"GET /-/healthy HTTP/1.0\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n0\r\n\r\n" + hidden,
			[]int{200, 400}},
		"nothing at all as host": {"GET /-/healthy HTTP/1.1\r\n\r\n" + hidden, []int{400}},
		"two hosts":              {request("GET /-/healthy", "Host: y\r\n", ""), []int{400}},
		"a host in the line":     {request("GET http://elsewhere.example/-/healthy", "", ""), []int{200}},

		"a header of 1 MiB":   {request("GET /-/healthy", "A: "+strings.Repeat("a", 1<<20)+"\r\n", ""), []int{431}},
		"50 000 headers":      {request("GET /-/healthy", strings.Repeat("A: b\r\n", 50000), ""), []int{431}},
		"a method of 64 KiB":  {strings.Repeat("G", 64<<10) + " / HTTP/1.1\r\nHost: x\r\n\r\n", []int{431}},
		"a path of 5 KiB":     {request("GET /"+strings.Repeat("a", 5<<10), "", ""), []int{414}},
		"2000 parameters":     {request("GET /probe?"+strings.Repeat("a&", 2000), "", ""), []int{400}},
		"parameters of one ;": {request("GET /probe?target="+target+";module=rtt", "", ""), []int{400}},
	}
	t.Run("requests", func(t *testing.T) {
		for name, tc := range cases {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				p.checkAnswers(t, tc.send, tc.want)
			})
		}
	})
	if s := r.Stats(); s.Accepted != 0 {
		t.Errorf("%d connections to the target", s.Accepted)
	}

	// A question asked while a probe runs waits for its turn, and both are answered.
	got := p.raw(t, hidden+healthy)
	if len(got) != 2 || series(got[0].body, "probe_success") != "1" || !strings.Contains(got[1].body, "healthy") {
		t.Errorf("a probe and a page, pipelined: %+v", got)
	}
}

// A hundred clients that say nothing, or a byte now and then, keep nobody else
// from being served.
func TestLifeSlowCrowd(t *testing.T) {
	_, target := startResponder(t, "127.0.0.1")
	p := startExporter(t, "--config.file="+writeConfig(t, "modules: {rtt: {count: 2}}"))
	stop := make(chan struct{})
	defer close(stop)
	for i := range 100 {
		c, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if i%2 == 0 {
			continue
		}
		go func() {
			for _, b := range []byte(request("GET /probe?target="+target, "A: "+strings.Repeat("a", 1000)+"\r\n", "")) {
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
				select {
				case <-stop:
					return
				case <-time.After(50 * time.Millisecond):
				}
			}
		}()
	}
	for range 20 {
		if s := p.scrape("/probe?target=" + target); s.err != nil || series(s.body, "probe_success") != "1" {
			t.Fatalf("an honest client got %d, %v: %s", s.code, s.err, s.body)
		}
	}
}

// checkAnswers sends bytes and wants these status codes, no more and no fewer.
func (p *process) checkAnswers(t *testing.T, send string, want []int) {
	t.Helper()
	var codes []int
	for _, a := range p.raw(t, send) {
		codes = append(codes, a.code)
		if a.header.Get("X-Injected") != "" || strings.Contains(a.body, "root:") {
			t.Errorf("the answer is not ours: %+v", a)
		}
		if len(a.body) > 64<<10 {
			t.Errorf("an answer of %d bytes", len(a.body))
		}
	}
	if !slices.Equal(codes, want) {
		t.Errorf("answers %v; want %v", codes, want)
	}
}
