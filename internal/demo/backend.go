package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// backend is a business server whose health can be switched.
type backend struct {
	sick atomic.Bool
	srv  *http.Server
}

// newBackend serves on a port of a host's address.
func newBackend(ctx context.Context, addr string, port int) (*backend, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(addr, strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("starting a business server: %w", err)
	}
	b := &backend{}
	b.srv = &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if b.sick.Load() {
			http.Error(w, "the core system does not answer", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})}
	go b.srv.Serve(l) //nolint:errcheck // it ends with Close, and tells nothing else
	return b, nil
}

func (b *backend) close() error {
	if err := b.srv.Close(); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("closing a business server: %w", err)
	}
	return nil
}

// ports are free on every loopback address.
type ports struct {
	bgp, gossip int
	service     map[string]int
}

// freePorts finds ports that nobody uses on any address, all at once, so that
// they differ. They are below those that the kernel gives to connections: one of
// them could take a port before a host listens on it, or listens again.
func freePorts(ctx context.Context) (ports, error) {
	p := ports{service: map[string]int{}}
	var lc net.ListenConfig
	var open []net.Listener
	next := func() (port int, err error) {
		for range 100 {
			port = 20000 + rand.IntN(10000)
			l, bad := lc.Listen(ctx, "tcp", net.JoinHostPort("0.0.0.0", strconv.Itoa(port)))
			if err = bad; err == nil {
				open = append(open, l)
				return port, nil
			}
		}
		return 0, fmt.Errorf("finding a free port: %w", err)
	}
	var errs []error
	take := func(to *int) {
		n, err := next()
		*to = n
		errs = append(errs, err)
	}
	take(&p.bgp)
	take(&p.gossip)
	for _, b := range businesses() {
		var n int
		take(&n)
		p.service[b.name] = n
	}
	for _, l := range open {
		errs = append(errs, l.Close())
	}
	return p, errors.Join(errs...)
}
