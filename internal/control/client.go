package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// ErrUnreachable is wrapped when no daemon answers on the socket.
var ErrUnreachable = errors.New("the daemon does not answer")

// Client talks to the daemon behind a unix socket.
type Client struct {
	socket string
	http   *http.Client
}

// NewClient returns a Client for the socket at path. It connects only when asked.
func NewClient(path string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}
	return &Client{socket: path, http: &http.Client{Transport: &http.Transport{DialContext: dial}}}
}

// Status asks for everything the daemon knows.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var s Status
	return s, c.do(ctx, http.MethodGet, "/v1/status", &s)
}

// Explain asks for one service; errors.Is ErrNotFound when there is no such one.
func (c *Client) Explain(ctx context.Context, service string) (Explanation, error) {
	var e Explanation
	return e, c.do(ctx, http.MethodGet, "/v1/services/"+url.PathEscape(service), &e)
}

// Events returns events after since, waiting up to wait for the first.
func (c *Client) Events(ctx context.Context, since uint64, wait time.Duration) ([]Event, error) {
	var evs []Event
	q := url.Values{"since": {strconv.FormatUint(since, 10)}, "wait": {wait.String()}}
	return evs, c.do(ctx, http.MethodGet, "/v1/events?"+q.Encode(), &evs)
}

// Reload makes the daemon read its configuration again. An error says why it
// kept the old one.
func (c *Client) Reload(ctx context.Context) error {
	return c.do(ctx, http.MethodPost, "/v1/reload", &struct{}{})
}

func (c *Client) do(ctx context.Context, method, path string, into any) (err error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://rhid"+path, nil)
	if err != nil {
		return fmt.Errorf("asking the daemon: %w", err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("%w on %s: %w", ErrUnreachable, c.socket, err)
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode == http.StatusOK {
		if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
			return fmt.Errorf("reading the daemon's answer: %w", err)
		}
		return nil
	}
	var p Problem
	if err := json.NewDecoder(resp.Body).Decode(&p); err != nil {
		return fmt.Errorf("reading the daemon's answer (HTTP %d): %w", resp.StatusCode, err)
	}
	if resp.StatusCode == http.StatusNotFound {
		return fmt.Errorf("%w: %s", ErrNotFound, p.Error)
	}
	return errors.New(p.Error)
}
