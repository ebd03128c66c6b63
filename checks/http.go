package checks

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

const (
	httpHeadLimit    = 64 << 10  // bytes of status line and headers of one answer
	httpBodyLimit    = 256 << 10 // bytes of a body that expect_body sees
	httpMaxRedirects = 5
	httpMaxInterim   = 8 // answers of class 1xx before the real one
)

// httpProbe is an http or https check of one target. It speaks HTTP/1.1 by
// itself on one fresh connection for each request, without a proxy: so it
// knows in which phase a probe failed, and nothing of one probe lives on into
// the next.
type httpProbe struct {
	*aim
	req      *http.Request
	want     []statusRange
	wantText string
	body     *regexp.Regexp
	follow   bool
	tls      *tls.Config // nil for http
	named    bool        // server_name was set, and holds after redirects, too
	in       *bufio.Reader
}

// Prober implements Options.
func (o *HTTPOptions) Prober(t Target) (Prober, error) {
	p, err := o.probeOf(t, "http")
	if err != nil {
		return nil, err
	}
	return timed(p.probe), nil
}

// probeOf makes the probe that http and https have in common.
func (o *HTTPOptions) probeOf(t Target, scheme string) (*httpProbe, error) {
	if ps := o.Problems(); len(ps) > 0 {
		return nil, fmt.Errorf("%s check: %s %s", scheme, ps[0].Key, ps[0].Msg)
	}
	a, err := newAim(t, TargetPort)
	if err != nil {
		return nil, fmt.Errorf("%s check: %w", scheme, err)
	}
	p := &httpProbe{aim: a, follow: o.FollowRedirects, in: bufio.NewReader(nil)}
	if p.want, p.wantText, err = parseStatuses(o.ExpectStatus); err != nil {
		return nil, fmt.Errorf("%s check: %w", scheme, err)
	}
	if o.ExpectBody != "" {
		if p.body, err = regexp.Compile(o.ExpectBody); err != nil {
			return nil, fmt.Errorf("%s check: expect_body: %w", scheme, err)
		}
	}
	p.req, err = o.request(scheme, net.JoinHostPort(t.Host, strconv.Itoa(int(t.Port))))
	if err != nil {
		return nil, fmt.Errorf("%s check: %w", scheme, err)
	}
	return p, nil
}

// request makes the request, which is the same at each probe.
func (o *HTTPOptions) request(scheme, authority string) (*http.Request, error) {
	ref, err := url.ParseRequestURI(orDefault(o.Path, "/"))
	if err != nil {
		return nil, fmt.Errorf("path: %w", err)
	}
	ref.Scheme, ref.Host = scheme, authority
	req, err := http.NewRequest(orDefault(o.Method, http.MethodGet), ref.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	req.Close = true
	if o.Host != "" {
		req.Host = o.Host
	}
	req.Header.Set("User-Agent", "rhid")
	for k, v := range o.Headers {
		req.Header.Set(k, v)
	}
	return req, nil
}

func orDefault(s, def string) string {
	if s == "" {
		return def
	}
	return s
}

func (p *httpProbe) probe(ctx context.Context) Result {
	addr, f := p.resolve(ctx)
	if f != nil {
		return f.result("")
	}
	req, to := p.req, netip.AddrPortFrom(addr, p.port)
	for hops := 0; ; hops++ {
		var next *http.Request
		var good string
		good, next, f = p.exchange(ctx, req, to)
		if f != nil || next == nil {
			return f.result(good)
		}
		if hops == httpMaxRedirects {
			return failf(CauseAnswer, "more than %d redirects, the last to %s",
				httpMaxRedirects, cut(next.URL.String(), 120)).result("")
		}
		req = next
		if to, f = p.locate(ctx, req.URL); f != nil {
			return f.result("")
		}
	}
}

// exchange makes one request. It returns the sentence of success, or the
// request that a redirect asks for.
func (p *httpProbe) exchange(ctx context.Context, req *http.Request, to netip.AddrPort) (string, *http.Request, *failure) {
	conn, f := p.connect(ctx, req, to)
	if f != nil {
		return "", nil, f
	}
	defer conn.Close()
	defer bind(ctx, conn)()

	if err := req.Write(conn); err != nil {
		return "", nil, p.answerFailure(ctx, err, "connected, but could not send the request within "+p.limitText())
	}
	in := &io.LimitedReader{R: conn, N: httpHeadLimit}
	p.in.Reset(in)
	resp, f := p.readHead(ctx, in, req)
	if f != nil {
		return "", nil, f
	}
	if p.follow && isRedirect(resp.StatusCode) {
		next, f := redirected(req, resp)
		return "", next, f
	}
	if !included(p.want, resp.StatusCode) {
		return "", nil, failf(CauseAnswer, "HTTP status %d, wanted %s", resp.StatusCode, p.wantText)
	}
	if p.body != nil {
		in.N = httpBodyLimit + httpHeadLimit // chunking takes some of it
		if f := p.judgeBody(ctx, resp.Body); f != nil {
			return "", nil, f
		}
	}
	return "HTTP status " + strconv.Itoa(resp.StatusCode), nil, nil
}

// connect opens the connection for a request, with TLS where it is https.
func (p *httpProbe) connect(ctx context.Context, req *http.Request, to netip.AddrPort) (net.Conn, *failure) {
	conn, f := p.dialAddr(ctx, to)
	if f != nil || req.URL.Scheme != "https" {
		return conn, f
	}
	return p.handshake(ctx, conn, req)
}

// readHead reads status line and headers, and passes over interim answers.
func (p *httpProbe) readHead(ctx context.Context, in *io.LimitedReader, req *http.Request) (*http.Response, *failure) {
	for range httpMaxInterim {
		resp, err := http.ReadResponse(p.in, req)
		switch {
		case err != nil && in.N <= 0:
			return nil, failf(CauseAnswer, "the answer's headers are longer than %d bytes", httpHeadLimit)
		case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
			return nil, &failure{CauseAnswer, "the target closed the connection without a whole answer"}
		case err != nil:
			return nil, p.answerFailure(ctx, err, "connected, but no HTTP answer within "+p.limitText())
		case resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols:
			return resp, nil
		}
	}
	return nil, failf(CauseAnswer, "more than %d interim answers (HTTP status 1xx)", httpMaxInterim)
}

// judgeBody reads the body as far as it counts, and looks for the expression.
func (p *httpProbe) judgeBody(ctx context.Context, body io.Reader) *failure {
	text, err := io.ReadAll(io.LimitReader(body, httpBodyLimit))
	if p.body.Match(text) {
		return nil // whatever became of the rest
	}
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF) && len(text) < httpBodyLimit:
		return failf(CauseAnswer, "the body broke off after %d bytes and does not match %s", len(text), quoted([]byte(p.body.String()), quoteLimit))
	case err != nil:
		return p.answerFailure(ctx, err, fmt.Sprintf("only %d bytes of the body within %s", len(text), p.limitText()))
	}
	return failf(CauseAnswer, "the body %s does not match %s", quoted(text, quoteLimit), quoted([]byte(p.body.String()), quoteLimit))
}

// answerFailure explains an error after the connection was made: of TLS (an
// alert may come that late with TLS 1.3), of HTTP, or of the network.
func (p *httpProbe) answerFailure(ctx context.Context, err error, late string) *failure {
	if f := alertFailure(err); f != nil {
		return f
	}
	f := netFailure(ctx, err, late)
	if f.cause == CauseNetwork && strings.Contains(f.detail, "HTTP") {
		return failf(CauseAnswer, "the answer is not HTTP: %s", cut(f.detail, 120))
	}
	return f
}

// locate finds where a redirect leads to. To the target's own name it stays
// at the address that was probed first.
func (p *httpProbe) locate(ctx context.Context, u *url.URL) (netip.AddrPort, *failure) {
	port := uint16(80)
	if u.Scheme == "https" {
		port = 443
	}
	if s := u.Port(); s != "" {
		n, err := strconv.ParseUint(s, 10, 16)
		if err != nil {
			return netip.AddrPort{}, failf(CauseAnswer, "redirected to the bad port %s", cut(s, 20))
		}
		port = uint16(n)
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
		return netip.AddrPortFrom(addr.Unmap(), port), nil
	}
	addr, f := p.lookup(ctx, u.Hostname())
	return netip.AddrPortFrom(addr, port), f
}

func isRedirect(code int) bool {
	switch code {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// redirected makes the request that follows a redirect. The method stays,
// except that 303 asks for GET (RFC 9110, 15.4.4); there is never a body.
func redirected(req *http.Request, resp *http.Response) (*http.Request, *failure) {
	u, err := resp.Location()
	if err != nil {
		return nil, failf(CauseAnswer, "HTTP status %d without a usable Location", resp.StatusCode)
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return nil, failf(CauseAnswer, "redirected to %s, which is not HTTP", cut(u.String(), 120))
	}
	next := req.Clone(req.Context())
	next.URL = u
	if u.Host != req.URL.Host {
		next.Host = u.Host
		next.Header.Del("Authorization") // meant for the target only
		next.Header.Del("Cookie")
	}
	if resp.StatusCode == http.StatusSeeOther && req.Method != http.MethodHead {
		next.Method = http.MethodGet
	}
	return next, nil
}
