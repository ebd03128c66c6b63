package checks

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// haproxyAccess is where HAProxy's statistics are read, which the types
// haproxy and haproxy-rate have in common.
type haproxyAccess struct {
	socket, path                 string
	user, password, passwordFile string
	backend, server              string
}

func (a *haproxyAccess) problems() []Problem {
	var ps []Problem
	add := func(key, format string, args ...any) {
		ps = append(ps, Problem{key, fmt.Sprintf(format, args...)})
	}
	if a.socket != "" {
		if !filepath.IsAbs(a.socket) {
			add("socket", "%q must be an absolute path, as stats socket in HAProxy's configuration has it", a.socket)
		}
		if a.user != "" {
			add("user", "is of the statistics page, which is not read where there is a socket; use one of them")
		}
	} else {
		for _, p := range (&HTTPOptions{Path: a.path}).Problems() {
			add("path", "%s", p.Msg)
		}
	}
	ps = append(ps, secretProblems("password", a.password, a.passwordFile)...)
	if (a.password != "" || a.passwordFile != "") && a.user == "" {
		add("user", "is missing beside the password")
	}
	switch {
	case a.backend == "":
		add("backend", "is missing: name the backend as HAProxy's configuration has it")
	case strings.ContainsAny(a.backend, " \t\r\n;\\"):
		add("backend", "%q is not the name of a backend", a.backend)
	}
	return ps
}

func (a *haproxyAccess) needsTarget() TargetKind {
	if a.socket != "" {
		return TargetNone
	}
	return TargetPort
}

// haproxyReader reads one backend from a HAProxy.
type haproxyReader struct {
	haproxyAccess
	*aim // of the statistics page
	http *httpProbe
}

func (a *haproxyAccess) reader(t Target) (*haproxyReader, error) {
	r := &haproxyReader{haproxyAccess: *a, aim: &aim{limit: t.Limit}}
	if a.socket != "" {
		return r, nil
	}
	password, err := secretOf(a.password, a.passwordFile)
	if err != nil {
		return nil, fmt.Errorf("password: %w", err)
	}
	o := HTTPOptions{Path: orDefault(a.path, "/haproxy?stats;csv")}
	if a.user != "" {
		o.Headers = map[string]string{"Authorization": "Basic " + base64.StdEncoding.EncodeToString([]byte(a.user+":"+password))}
	}
	if r.http, err = o.probeOf(t, "http"); err != nil {
		return nil, err
	}
	r.aim = r.http.aim
	return r, nil
}

// read returns the backend, or why it cannot be known.
func (r *haproxyReader) read(ctx context.Context) (*haproxyBackend, *failure) {
	from := r.readPage
	if r.socket != "" {
		from = r.readSocket
	}
	var b *haproxyBackend
	f := from(ctx, func(in io.Reader) (err error) {
		b, err = readHAProxyStats(in, r.backend)
		return err
	})
	if f == nil && r.server != "" && b.server(r.server) == nil {
		return nil, failf(CauseAnswer, "backend %s of HAProxy has no server %q", r.backend, r.server)
	}
	return b, f
}

// readSocket asks the runtime socket (HAProxy management guide, 9.3).
func (r *haproxyReader) readSocket(ctx context.Context, parse func(io.Reader) error) *failure {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", r.socket)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return failf(CauseRefused, "%s does not exist: HAProxy does not run, or has its socket elsewhere", r.socket)
	case errors.Is(err, fs.ErrPermission):
		return failf(CauseInternal, "this process may not use %s: put its user into the group of the socket", r.socket)
	case err != nil:
		return netFailure(ctx, err, "HAProxy does not take the connection to its socket within "+r.limitText())
	}
	defer conn.Close()
	defer bind(ctx, conn)()
	if _, err := io.WriteString(conn, "show stat\n"); err != nil {
		return netFailure(ctx, err, "connected, but could not ask HAProxy within "+r.limitText())
	}
	return r.parseFailure(ctx, parse(conn))
}

// readPage reads the statistics page over HTTP.
func (r *haproxyReader) readPage(ctx context.Context, parse func(io.Reader) error) *failure {
	p := r.http
	addr, f := p.resolve(ctx)
	if f != nil {
		return f
	}
	conn, f := p.connect(ctx, p.req, netip.AddrPortFrom(addr, p.port))
	if f != nil {
		return f
	}
	defer conn.Close()
	defer bind(ctx, conn)()
	if err := p.req.Write(conn); err != nil {
		return p.answerFailure(ctx, err, "connected, but could not send the request within "+p.limitText())
	}
	in := &io.LimitedReader{R: conn, N: httpHeadLimit}
	p.in.Reset(in)
	resp, f := p.readHead(ctx, in, p.req)
	switch {
	case f != nil:
		return f
	case resp.StatusCode == http.StatusUnauthorized:
		return &failure{CauseAnswer, "HTTP status 401: HAProxy's statistics page wants another user or password"}
	case resp.StatusCode != http.StatusOK:
		return failf(CauseAnswer, "HTTP status %d in the place of HAProxy's statistics", resp.StatusCode)
	}
	in.N = haproxyStatsLimit
	return r.parseFailure(ctx, parse(resp.Body))
}

// parseFailure explains why the statistics could not be read.
func (r *haproxyReader) parseFailure(ctx context.Context, err error) *failure {
	if err == nil {
		return nil
	}
	// The connection's own deadline may be noticed before that of ctx.
	if ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded) {
		return netFailure(ctx, err, "connected, but not all of HAProxy's statistics came within "+r.limitText())
	}
	return failf(CauseAnswer, "%s", cut(err.Error(), 200))
}

// HAProxyOptions are the settings of a haproxy check.
type HAProxyOptions struct {
	Socket       string        `yaml:"socket" doc:"path of HAProxy's runtime socket, of which level user is enough; without it the statistics page of the target is read"`
	Path         string        `yaml:"path" default:"/haproxy?stats;csv" doc:"path of the statistics page in CSV form, where there is no socket"`
	User         string        `yaml:"user" doc:"user of the statistics page"`
	Password     string        `yaml:"password" secret:"true" doc:"password of the statistics page"`
	PasswordFile string        `yaml:"password_file" doc:"file whose first line is the password"`
	Backend      string        `yaml:"backend" required:"true" doc:"the backend, as HAProxy's configuration names it"`
	Server       string        `yaml:"server" doc:"one server of the backend, which alone is judged; the whole backend by default"`
	MinServers   int           `yaml:"min_servers" doc:"active servers that must be up; HAProxy's own word for the backend decides by default"`
	MinWeight    int           `yaml:"min_weight" doc:"percentage of the active servers' weight that must be up, 1 to 100"`
	MaxSessions  int           `yaml:"max_sessions" doc:"sessions there may be at once"`
	MaxQueue     int           `yaml:"max_queue" doc:"requests that may wait for a server at once"`
	Max5xx       int           `yaml:"max_5xx" doc:"percentage of the answers that may have a status of class 5xx, 1 to 99"`
	MaxErrors    int           `yaml:"max_errors" doc:"percentage of the sessions that may end in a connection that failed or broke, 1 to 99"`
	Over         time.Duration `yaml:"over" default:"10s" doc:"time over which max_5xx and max_errors look"`
	MinSamples   int           `yaml:"min_samples" default:"20" doc:"answers or sessions within that time below which max_5xx and max_errors are not judged"`
}

func (o *HAProxyOptions) access() *haproxyAccess {
	return &haproxyAccess{o.Socket, o.Path, o.User, o.Password, o.PasswordFile, o.Backend, o.Server}
}

// NeedsTarget implements Options: the runtime socket needs none.
func (o *HAProxyOptions) NeedsTarget() TargetKind { return o.access().needsTarget() }

// Problems implements Options.
func (o *HAProxyOptions) Problems() []Problem {
	ps := o.access().problems()
	within := func(key string, v, hi int) {
		if v < 0 || v > hi {
			ps = append(ps, Problem{key, fmt.Sprintf("%d is not between 1 and %d; leave it out for no limit", v, hi)})
		}
	}
	const many = 1_000_000_000
	within("min_servers", o.MinServers, haproxyServersLimit)
	within("min_weight", o.MinWeight, 100)
	within("max_sessions", o.MaxSessions, many)
	within("max_queue", o.MaxQueue, many)
	within("max_5xx", o.Max5xx, 99)
	within("max_errors", o.MaxErrors, 99)
	within("min_samples", o.MinSamples, many)
	if o.Over < 0 || o.Over > time.Hour {
		ps = append(ps, Problem{"over", fmt.Sprintf("%s is not between 0s and 1h", o.Over)})
	}
	if o.Server != "" && (o.MinServers > 0 || o.MinWeight > 0) {
		ps = append(ps, Problem{"server", "cannot stand together with min_servers or min_weight, which are of the whole backend"})
	}
	return ps
}
