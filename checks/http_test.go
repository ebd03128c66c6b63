package checks

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// site is a web server with a path for each thing that can happen.
func site(t *testing.T) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "status: UP") })
	mux.HandleFunc("/busy", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/ok", http.StatusFound) })
	mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) })
	mux.HandleFunc("/astray", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "ftp://x/")
		w.WriteHeader(http.StatusFound)
	})
	mux.HandleFunc("/nowhere", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusFound) })
	mux.HandleFunc("/early", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		fmt.Fprint(w, "late")
	})
	mux.HandleFunc("/big", func(w http.ResponseWriter, r *http.Request) {
		for range 300 {
			fmt.Fprint(w, strings.Repeat("x", 1024))
		}
		fmt.Fprint(w, "END")
	})
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "begun")
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
		<-r.Context().Done()
	})
	mux.HandleFunc("/mute", func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s host=%s agent=%s key=%s close=%v proto=%s", r.Method, r.URL.RequestURI(), r.Host,
			r.UserAgent(), r.Header.Get("X-Key"), r.Close, r.Proto)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func serverTarget(t *testing.T, s *httptest.Server, limit time.Duration) Target {
	t.Helper()
	return targetOf(addrPort(t, s.Listener.Addr()), limit)
}

func TestHTTP(t *testing.T) {
	s := site(t)
	tests := []struct {
		name  string
		opts  HTTPOptions
		limit time.Duration
		want  outcome
	}{
		{"ok", HTTPOptions{Path: "/ok"}, probeLimit, outcome{true, CauseNone, "HTTP status 200"}},
		{"not found", HTTPOptions{}, probeLimit, outcome{false, CauseAnswer, "HTTP status 404, wanted 200-299"}},
		{"unavailable", HTTPOptions{Path: "/busy", ExpectStatus: []string{"200-299", "301"}}, probeLimit, outcome{false, CauseAnswer, "HTTP status 503, wanted 200-299, 301"}},
		{"wanted 503", HTTPOptions{Path: "/busy", ExpectStatus: []string{"503"}}, probeLimit, outcome{true, CauseNone, "HTTP status 503"}},
		{"redirect is an answer", HTTPOptions{Path: "/moved"}, probeLimit, outcome{false, CauseAnswer, "HTTP status 302, wanted 200-299"}},
		{"redirect followed", HTTPOptions{Path: "/moved", FollowRedirects: true, ExpectBody: "UP"}, probeLimit, outcome{true, CauseNone, "HTTP status 200"}},
		{"redirected for ever", HTTPOptions{Path: "/loop", FollowRedirects: true}, probeLimit, outcome{false, CauseAnswer, "more than 5 redirects, the last to " + s.URL + "/loop"}},
		{"redirected astray", HTTPOptions{Path: "/astray", FollowRedirects: true}, probeLimit, outcome{false, CauseAnswer, "redirected to ftp://x/, which is not HTTP"}},
		{"redirected nowhere", HTTPOptions{Path: "/nowhere", FollowRedirects: true}, probeLimit, outcome{false, CauseAnswer, "HTTP status 302 without a usable Location"}},
		{"interim answer", HTTPOptions{Path: "/early", ExpectBody: "late"}, probeLimit, outcome{true, CauseNone, "HTTP status 200"}},
		{"body", HTTPOptions{Path: "/ok", ExpectBody: "^status: (UP|OK)$"}, probeLimit, outcome{true, CauseNone, "HTTP status 200"}},
		{"wrong body", HTTPOptions{Path: "/ok", ExpectBody: "DOWN"}, probeLimit, outcome{false, CauseAnswer, `the body "status: UP" does not match "DOWN"`}},
		{"body beyond the limit", HTTPOptions{Path: "/big", ExpectBody: "END"}, probeLimit, outcome{false, CauseAnswer, `the body "` + strings.Repeat("x", 60) + `"… does not match "END"`}},
		{"slow body is not read", HTTPOptions{Path: "/slow"}, probeLimit, outcome{true, CauseNone, "HTTP status 200"}},
		{"slow body", HTTPOptions{Path: "/slow", ExpectBody: "END"}, partLimit, outcome{false, CauseTimeout, "only 5 bytes of the body within 1s"}},
		{"mute", HTTPOptions{Path: "/mute"}, shortLimit, outcome{false, CauseTimeout, "connected, but no HTTP answer within 300ms"}},
		{"HEAD", HTTPOptions{Path: "/ok", Method: "HEAD"}, probeLimit, outcome{true, CauseNone, "HTTP status 200"}},
		{"what is sent", HTTPOptions{
			Path: "/echo?a=1", Method: "OPTIONS", Host: "atm.bank.example", Headers: map[string]string{"X-Key": "k"},
			ExpectBody: `^OPTIONS /echo\?a=1 host=atm.bank.example agent=rhid key=k close=true proto=HTTP/1.1$`,
		}, probeLimit, outcome{true, CauseNone, "HTTP status 200"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wantOutcome(t, probeOnce(t, &tt.opts, serverTarget(t, s, tt.limit)), tt.want)
		})
	}
}

func TestHTTPBadServers(t *testing.T) {
	tests := []struct {
		name   string
		answer string
		want   outcome
	}{
		{"not HTTP", "SSH-2.0-x\r\n\r\n", outcome{false, CauseAnswer, `the answer is not HTTP: malformed HTTP response "SSH-2.0-x"`}},
		{"nothing", "", outcome{false, CauseAnswer, "the target closed the connection without a whole answer"}},
		{"half", "HTTP/1.1 200 OK\r\nA: b", outcome{false, CauseAnswer, "the target closed the connection without a whole answer"}},
		{"endless headers", "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("b", 65<<10), outcome{false, CauseAnswer, "the answer's headers are longer than 65536 bytes"}},
		{"only interim answers", strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 20), outcome{false, CauseAnswer, "more than 8 interim answers (HTTP status 1xx)"}},
		{"body breaks off", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nUP", outcome{false, CauseAnswer, `the body broke off after 2 bytes and does not match "fine"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			to := serve(t, "127.0.0.1:0", func(c net.Conn) {
				if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
					t.Errorf("server: %v", err)
				}
				_, _ = io.WriteString(c, tt.answer) // the probe may have seen enough
				if tc, ok := c.(*net.TCPConn); ok {
					_ = tc.CloseWrite() // as above
				}
				_, _ = io.Copy(io.Discard, c) // until the probe closes
			})
			wantOutcome(t, probeOnce(t, &HTTPOptions{ExpectBody: "fine"}, targetOf(to, probeLimit)), tt.want)
		})
	}
	t.Run("refused", func(t *testing.T) {
		wantOutcome(t, probeOnce(t, &HTTPOptions{}, targetOf(closedPort(t), probeLimit)), outcome{false, CauseRefused, "connection refused"})
	})
	t.Run("black hole", func(t *testing.T) {
		wantOutcome(t, probeOnce(t, &HTTPOptions{}, targetOf(blackHole(t), shortLimit)),
			outcome{false, CauseTimeout, "no answer within 300ms (SYN not answered)"})
	})
}

// Each probe has a connection of its own, and no proxy stands between.
func TestHTTPFreshConnections(t *testing.T) {
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	from := make(chan string, 3)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { from <- r.RemoteAddr }))
	defer s.Close()
	to := serverTarget(t, s, probeLimit)
	to.Source = netip.MustParseAddr("127.0.0.78")
	p, err := (&HTTPOptions{}).Prober(to)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for range 3 {
		if res := p.Probe(t.Context()); !res.OK {
			t.Fatalf("%+v", res)
		}
		addr := <-from
		if !strings.HasPrefix(addr, "127.0.0.78:") {
			t.Errorf("the probe came from %s", addr)
		}
		seen[addr] = true
	}
	if len(seen) != 3 {
		t.Errorf("3 probes on %d connections", len(seen))
	}
}

// What is meant for the target does not follow a redirect to another host.
func TestHTTPRedirectToAnotherHost(t *testing.T) {
	got := make(chan *http.Request, 1)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got <- r }))
	defer other.Close()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+"/there", http.StatusSeeOther)
	}))
	defer s.Close()
	o := HTTPOptions{
		Method: "POST", Host: "inside.example", FollowRedirects: true,
		Headers: map[string]string{"Authorization": "Basic eDp5", "X-Key": "k"},
	}
	if res := probeOnce(t, &o, serverTarget(t, s, probeLimit)); !res.OK {
		t.Fatalf("%+v", res)
	}
	r := <-got
	want := []string{"GET", "/there", strings.TrimPrefix(other.URL, "http://"), "", "k"}
	if d := cmp.Diff(want, []string{r.Method, r.URL.Path, r.Host, r.Header.Get("Authorization"), r.Header.Get("X-Key")}); d != "" {
		t.Errorf("second request (-want +got):\n%s", d)
	}
}

func TestHTTPLocate(t *testing.T) {
	p := &httpProbe{aim: &aim{}}
	tests := []struct{ in, want string }{
		{"http://10.0.0.1/", "10.0.0.1:80"},
		{"https://10.0.0.1/", "10.0.0.1:443"},
		{"http://[fd00::1]:8080/", "[fd00::1]:8080"},
	}
	for _, tt := range tests {
		u, err := url.Parse(tt.in)
		if err != nil {
			t.Fatal(err)
		}
		got, f := p.locate(context.Background(), u)
		if f != nil || got.String() != tt.want {
			t.Errorf("%s leads to %s (%v), want %s", tt.in, got, f, tt.want)
		}
	}
}

func TestHTTPLeavesNothingOpen(t *testing.T) {
	s := site(t)
	run := func(n int) {
		for range n {
			probeOnce(t, &HTTPOptions{Path: "/ok", ExpectBody: "UP"}, serverTarget(t, s, probeLimit))
			probeOnce(t, &HTTPOptions{Path: "/mute"}, serverTarget(t, s, 5*time.Millisecond))
		}
	}
	run(1)
	before := openFiles(t)
	run(20)
	eventually(t, "all connections are closed", func() bool { return openFiles(t) <= before })
}

func FuzzStatuses(f *testing.F) {
	for _, s := range []string{"200", "200-299", "100-599", "2xx", "-", "600", "300-200", " 200 - 204 "} {
		f.Add(s, 204)
	}
	f.Fuzz(func(t *testing.T, s string, code int) {
		rs, text, err := parseStatuses([]string{s})
		if err == nil && (len(rs) != 1 || text != s || included(rs, code) && (code < 100 || code > 599)) {
			t.Errorf("%q became %v, %q", s, rs, text)
		}
	})
}
