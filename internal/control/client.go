package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"rhid/services"
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
	return s, c.do(ctx, http.MethodGet, "/v1/status", nil, &s)
}

// Explain asks for one service; errors.Is ErrNotFound when there is no such one.
func (c *Client) Explain(ctx context.Context, service string) (Explanation, error) {
	var e Explanation
	return e, c.do(ctx, http.MethodGet, "/v1/services/"+url.PathEscape(service), nil, &e)
}

// Events returns events after since, waiting up to wait for the first.
func (c *Client) Events(ctx context.Context, since uint64, wait time.Duration) ([]Event, error) {
	var evs []Event
	q := url.Values{"since": {strconv.FormatUint(since, 10)}, "wait": {wait.String()}}
	return evs, c.do(ctx, http.MethodGet, "/v1/events?"+q.Encode(), nil, &evs)
}

// Reload makes the daemon read its configuration again. An error says why it
// kept the old one.
func (c *Client) Reload(ctx context.Context) error {
	return c.do(ctx, http.MethodPost, "/v1/reload", nil, &struct{}{})
}

// Intend asks for something, or takes it back.
func (c *Client) Intend(ctx context.Context, i Intent) error {
	return c.send(ctx, "/v1/intents", i)
}

// Report tells how results of services were.
func (c *Client) Report(ctx context.Context, rs []Report) error {
	return c.send(ctx, "/v1/reports", rs)
}

// RotateKey makes a new gossip key the only one, on every node.
func (c *Client) RotateKey(ctx context.Context, key []byte) error {
	return c.send(ctx, "/v1/keys", struct{ Key []byte }{key})
}

// Foresee asks what failures would do.
func (c *Client) Foresee(ctx context.Context, failures []string) (services.Outlook, error) {
	var o services.Outlook
	return o, c.do(ctx, http.MethodGet, "/v1/foresee?"+url.Values{"fail": failures}.Encode(), nil, &o)
}

func (c *Client) send(ctx context.Context, path string, body any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("asking the daemon: %w", err)
	}
	return c.do(ctx, http.MethodPost, path, bytes.NewReader(b), &struct{}{})
}

func (c *Client) do(ctx context.Context, method, path string, body io.Reader, into any) (err error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://rhid"+path, body)
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
	return &answerError{p.Error, kindOf(resp.StatusCode)}
}

// answerError is what the daemon answered, in its words, and the error of this
// package that it is, if any.
type answerError struct {
	text string
	kind error
}

func (e *answerError) Error() string { return e.text }
func (e *answerError) Unwrap() error { return e.kind }

// kindOf is the error that a status of HTTP stands for.
func kindOf(status int) error {
	switch status {
	case http.StatusNotFound:
		return ErrNotFound
	case http.StatusBadGateway:
		return ErrAway
	default:
		return nil
	}
}
