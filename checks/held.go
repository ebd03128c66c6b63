package checks

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// heldLost is how many TCP keepalives in a row may stay unanswered; the last
// of them breaks the connection.
const heldLost = 3

// HeldOptions are the settings of a held check.
type HeldOptions struct {
	TLS        bool          `yaml:"tls" doc:"make it a TLS connection"`
	CAFile     string        `yaml:"ca_file" doc:"PEM file of the authorities to trust; those of the system by default"`
	CertFile   string        `yaml:"cert_file" doc:"PEM file of the client certificate and its chain"`
	KeyFile    string        `yaml:"key_file" doc:"PEM file of the client certificate's key"`
	ServerName string        `yaml:"server_name" doc:"name that the certificate must have, and that is sent as SNI; the host by default"`
	SkipVerify bool          `yaml:"skip_verify" doc:"take any certificate, even an expired one"`
	Keepalive  time.Duration `yaml:"keepalive" default:"1s" doc:"between two TCP keepalives, in whole seconds; the third in a row without an answer breaks the connection"`
}

// NeedsTarget implements Options.
func (*HeldOptions) NeedsTarget() TargetKind { return TargetPort }

// Problems implements Options.
func (o *HeldOptions) Problems() []Problem {
	var ps []Problem
	if o.Keepalive%time.Second != 0 || o.Keepalive < 0 || o.Keepalive > time.Hour {
		ps = append(ps, Problem{"keepalive", fmt.Sprintf("%s is not whole seconds, 1s to 1h", o.Keepalive)})
	}
	if !o.TLS {
		return append(ps, o.settings().unusedWithout("tls: true")...)
	}
	return append(ps, o.settings().problems()...)
}

// settings are the TLS options.
func (o *HeldOptions) settings() tlsSettings {
	return tlsSettings{caFile: o.CAFile, certFile: o.CertFile, keyFile: o.KeyFile, serverName: o.ServerName, skipVerify: o.SkipVerify}
}

// Prober implements Options. What it returns is a Holder.
func (o *HeldOptions) Prober(t Target) (Prober, error) {
	if ps := o.Problems(); len(ps) > 0 {
		return nil, fmt.Errorf("held check: %s %s", ps[0].Key, ps[0].Msg)
	}
	a, err := newAim(t, TargetPort)
	if err != nil {
		return nil, fmt.Errorf("held check: %w", err)
	}
	p := &heldProbe{aim: a, keepalive: o.Keepalive, line: new(line)}
	if p.keepalive == 0 {
		p.keepalive = time.Second
	}
	if o.TLS {
		if p.tls, err = o.settings().config(); err != nil {
			return nil, fmt.Errorf("held check: %w", err)
		}
	}
	return p, nil
}

// heldProbe is a held check of one target: a probe makes the connection where
// there is none, and is content with the one that is there.
type heldProbe struct {
	*aim
	keepalive time.Duration
	tls       *tls.Config // nil without TLS
	line      *line
}

// Probe implements Prober.
func (p *heldProbe) Probe(ctx context.Context) Result { return timed(p.probe).Probe(ctx) }

// Watch implements Holder.
func (p *heldProbe) Watch(broken func(Result)) { p.line.watch(broken) }

// Inherit implements Holder. From then on both have the same line, so that a
// connection that the other one is just making is not lost either.
func (p *heldProbe) Inherit(from Holder) {
	if old, ok := from.(*heldProbe); ok {
		p.line = old.line
	}
}

// Release implements Holder.
func (p *heldProbe) Release() { p.line.release() }

func (p *heldProbe) probe(ctx context.Context) Result {
	if age, held := p.line.age(); held {
		return Result{OK: true, Detail: "held for " + age}
	}
	conn, f := p.dial(ctx)
	if f != nil {
		return f.result("")
	}
	if f := p.keepAlive(conn); f != nil {
		conn.Close()
		return f.result("")
	}
	held := conn
	if p.tls != nil {
		tc, f := p.secure(ctx, conn, p.tls)
		if f != nil {
			return f.result("")
		}
		held = tc
	}
	if !p.line.hold(held, conn) {
		conn.Close()
		return Result{Cause: CauseInternal, Detail: "the probe was stopped"}
	}
	return Result{OK: true, Detail: "connected, and held from now on"}
}

// keepAlive has the kernel ask whether a target that says nothing is there.
func (p *heldProbe) keepAlive(conn net.Conn) *failure {
	tc, ok := conn.(interface {
		SetKeepAliveConfig(net.KeepAliveConfig) error
	})
	if !ok {
		return failf(CauseInternal, "a %T has no keepalive", conn)
	}
	err := tc.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: p.keepalive, Interval: p.keepalive, Count: heldLost})
	if err != nil {
		return failf(CauseInternal, "the keepalive could not be set: %v", bareError(err))
	}
	return nil
}

// line is the connection that a held check holds, from one probe to the next
// and over reloads.
type line struct {
	mu       sync.Mutex
	conn     net.Conn // of TCP, nil while none is held
	since    time.Time
	broken   func(Result)
	released bool
}

func (l *line) watch(broken func(Result)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = broken
}

// age says for how long the connection was held.
func (l *line) age() (age string, held bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.since).Round(time.Second).String(), l.conn != nil
}

// hold takes a connection, and the one of TCP under it. It refuses after
// release.
func (l *line) hold(conn io.Reader, tcp net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return false
	}
	l.conn, l.since = tcp, time.Now()
	go l.listen(conn, tcp)
	return true
}

// release closes the connection. That of TCP, because closing TLS would write
// and might wait.
func (l *line) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.released = true
	if l.conn != nil {
		l.conn.Close()
		l.conn = nil
	}
}

// listen reads until the connection breaks, and tells it. What the target says
// is of no interest.
func (l *line) listen(conn io.Reader, tcp net.Conn) {
	var err error
	for buf := make([]byte, 512); err == nil; {
		_, err = conn.Read(buf)
	}
	l.mu.Lock()
	if l.conn != tcp {
		l.mu.Unlock()
		return // released
	}
	l.conn = nil
	age, broken := time.Since(l.since), l.broken
	l.mu.Unlock()
	tcp.Close()
	if broken != nil {
		broken(breakOf(err, age))
	}
}

// breakOf is the result of a held connection that ended with err.
func breakOf(err error, age time.Duration) Result {
	f := &failure{CauseNetwork, "the target closed it"}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF): // the latter is TLS without its farewell
	case alertFailure(err) != nil:
		f = alertFailure(err)
	default:
		f = netFailure(context.Background(), err, "it was silent for too long")
	}
	res := f.result("")
	res.Start = time.Now()
	res.Detail = fmt.Sprintf("the held connection broke after %s: %s", age.Round(100*time.Millisecond), f.detail)
	return res
}
