package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// backend is a business server whose health can be switched.
type backend struct {
	addr string
	sick atomic.Bool
	srv  *http.Server
}

// newBackend serves on a free port of 127.0.0.1.
func newBackend(ctx context.Context) (*backend, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting a business server: %w", err)
	}
	b := &backend{addr: l.Addr().String()}
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
