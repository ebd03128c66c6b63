package daemon

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"rhid/internal/config"
	"rhid/internal/control"
)

const (
	// endpointRetry is how long the daemon waits before it tries again to open
	// the endpoint for reports: that it cannot is no reason to announce nothing.
	endpointRetry = 5 * time.Second
	// certificateEnds is how long before its end a certificate is an alarm.
	certificateEnds = 14 * 24 * time.Hour
)

// endpoint is where applications report over HTTP.
type endpoint struct {
	conf   *config.Report
	listen string // address and port
	log    *slog.Logger
	retry  time.Duration
	access atomic.Pointer[access] // nil before it was read

	mu    sync.Mutex
	wrong string // why it is not open, or not as configured
	since time.Time
}

// access is what is in the endpoint's files.
type access struct {
	token string
	cert  *tls.Certificate // nil without TLS
}

// newEndpoint returns the endpoint of a configuration, nil where it has none.
func newEndpoint(m *model, log *slog.Logger) *endpoint {
	r := m.cfg.Control.Report
	if r == nil {
		return nil
	}
	return &endpoint{conf: r, listen: m.ownTarget(r.Listen), log: log, retry: endpointRetry}
}

// serve keeps the endpoint open until ctx ends.
func (e *endpoint) serve(ctx context.Context, src control.Source) error {
	for ctx.Err() == nil {
		if err := e.serveOnce(ctx, src); err != nil {
			e.note(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(e.retry):
		}
	}
	return nil
}

func (e *endpoint) serveOnce(ctx context.Context, src control.Source) error {
	if err := e.read(); err != nil {
		return err
	}
	l, err := net.Listen("tcp", e.listen)
	if err != nil {
		return fmt.Errorf("control.report: %w", err)
	}
	e.note(nil)
	var conf *tls.Config
	if e.conf.TLS != nil {
		conf = &tls.Config{
			MinVersion:     tls.VersionTLS12,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return e.access.Load().cert, nil },
		}
	}
	return control.ServeReports(ctx, l, conf, func() string { return e.access.Load().token }, src, e.log)
}

// read takes the token and the certificate from their files. After an error
// those that were read before stay in force.
func (e *endpoint) read() error {
	var a access
	var err error
	if a.token, err = e.conf.Token(os.ReadFile); err != nil {
		return fmt.Errorf("control.report: %w", err)
	}
	if e.conf.TLS != nil {
		if a.cert, err = e.conf.TLS.Certificate(os.ReadFile); err != nil {
			return fmt.Errorf("control.report.tls: %w", err)
		}
	}
	e.access.Store(&a)
	return nil
}

// reload reads the files anew, for the next request and the next connection.
func (e *endpoint) reload() {
	if e != nil {
		e.note(e.read())
	}
}

// note remembers what is wrong, and logs what is new.
func (e *endpoint) note(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case err == nil:
		e.wrong = ""
	case err.Error() != e.wrong:
		e.wrong, e.since = err.Error(), time.Now()
		e.log.Error("endpoint for reports is not as configured", "listen", e.listen, "error", err, "retry", e.retry)
	}
}

// alarms are what people should look at.
func (e *endpoint) alarms(now time.Time) []control.Alarm {
	if e == nil {
		return nil
	}
	var out []control.Alarm
	add := func(since time.Time, detail string) {
		out = append(out, control.Alarm{Code: "reports", What: e.listen, Since: since, Detail: detail})
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.wrong != "" {
		add(e.since, e.wrong)
	}
	if a := e.access.Load(); a != nil && a.cert != nil {
		switch end := a.cert.Leaf.NotAfter; {
		case !now.Before(end):
			add(end, "the certificate in "+e.conf.TLS.CertFile+" has ended "+end.UTC().Format(time.RFC3339))
		case end.Sub(now) < certificateEnds:
			add(end.Add(-certificateEnds), "the certificate in "+e.conf.TLS.CertFile+" ends "+end.UTC().Format(time.RFC3339))
		}
	}
	return out
}
