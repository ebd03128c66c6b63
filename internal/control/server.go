package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"os/user"
	"strconv"
	"time"
)

// ErrRefused is wrapped by a Source that was asked for something that makes no
// sense.
var ErrRefused = errors.New("refused")

// ErrNotFound is wrapped by a Source that does not know what was asked for.
var ErrNotFound = errors.New("not found")

// ErrAway is wrapped by a Source that cannot tell because another node, which
// would know, does not answer.
var ErrAway = errors.New("out of reach")

// maxWait bounds how long an events request waits for an event.
const maxWait = 30 * time.Second

// Listen opens the socket with mode 0660 and, unless empty, the given group.
// A socket that nobody answers on any more is replaced; a live one is an error.
func Listen(path, group string) (net.Listener, error) {
	if err := clearStale(path); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("opening the control socket: %w", err)
	}
	if err := protect(path, group); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func clearStale(path string) error {
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		return errors.Join(fmt.Errorf("control socket %s: another rhid answers on it", path), c.Close())
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the stale control socket: %w", err)
	}
	return nil
}

func protect(path, group string) error {
	if err := os.Chmod(path, 0o660); err != nil { //nolint:gosec // the group may talk to the daemon
		return fmt.Errorf("setting the mode of the control socket: %w", err)
	}
	if group == "" {
		return nil
	}
	g, err := user.LookupGroup(group)
	if err != nil {
		return fmt.Errorf("control.group: %w", err)
	}
	gid, err := strconv.Atoi(g.Gid)
	if err != nil {
		return fmt.Errorf("control.group: id of %s: %w", group, err)
	}
	if err := os.Chown(path, -1, gid); err != nil {
		return fmt.Errorf("giving the control socket to group %s: %w", group, err)
	}
	return nil
}

// Serve answers on l until ctx ends, then closes it.
func Serve(ctx context.Context, l net.Listener, src Source, log *slog.Logger) error {
	srv := &http.Server{
		Handler:           Handler(src, log),
		ReadHeaderTimeout: 5 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext:       withCaller,
	}
	return serveUntil(ctx, srv, l)
}

// serveUntil serves until ctx ends, and then lets requests under way end.
func serveUntil(ctx context.Context, srv *http.Server, l net.Listener) error {
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	select {
	case err := <-done:
		return fmt.Errorf("serving %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	sctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := srv.Shutdown(sctx); err != nil {
		return errors.Join(srv.Close())
	}
	return nil
}

// Handler returns the HTTP interface over src.
func Handler(src Source, log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	get := func(pattern string, f func(*http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			v, err := f(r)
			reply(w, v, err, log)
		})
	}
	get("GET /v1/status", func(r *http.Request) (any, error) { return src.Status(r.Context()) })
	get("GET /v1/services/{name}", func(r *http.Request) (any, error) {
		return src.Explain(r.Context(), r.PathValue("name"))
	})
	get("GET /v1/events", func(r *http.Request) (any, error) { return events(r, src) })
	get("POST /v1/reload", func(r *http.Request) (any, error) {
		return struct{}{}, src.Reload(r.Context())
	})
	get("POST /v1/intents", func(r *http.Request) (any, error) {
		var i Intent
		if err := decode(r, &i); err != nil {
			return nil, err
		}
		i.Who = caller(r)
		return struct{}{}, src.Intend(r.Context(), i)
	})
	get("POST /v1/reports", func(r *http.Request) (any, error) { return struct{}{}, takeReports(r, src) })
	checkRoutes(get, src)
	get("GET /v1/foresee", func(r *http.Request) (any, error) {
		return src.Foresee(r.Context(), r.URL.Query()["fail"])
	})
	get("POST /v1/keys", func(r *http.Request) (any, error) {
		var k struct{ Key []byte }
		if err := decode(r, &k); err != nil {
			return nil, err
		}
		return struct{}{}, src.RotateKey(r.Context(), k.Key)
	})
	// For whoever looks into a busy daemon: go tool pprof over the socket.
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	return mux
}

// maxBody is more than any request of ours needs.
const maxBody = 64 << 10

func decode(r *http.Request, into any) error {
	dec := json.NewDecoder(io.LimitReader(r.Body, maxBody))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return &badRequest{"the body is not what is expected: " + err.Error()}
	}
	return nil
}

// events serves ?since=N&wait=DURATION.
func events(r *http.Request, src Source) (any, error) {
	q := r.URL.Query()
	var since uint64
	if s := q.Get("since"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return nil, &badRequest{fmt.Sprintf("since: %q is not a number", s)}
		}
		since = n
	}
	var wait time.Duration
	if s := q.Get("wait"); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil {
			return nil, &badRequest{fmt.Sprintf("wait: %q is not a duration", s)}
		}
		wait = min(d, maxWait)
	}
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	evs, err := src.Events(ctx, since)
	if evs == nil {
		evs = []Event{}
	}
	return evs, err
}

type badRequest struct{ msg string }

func (e *badRequest) Error() string { return e.msg }

func reply(w http.ResponseWriter, v any, err error, log *slog.Logger) {
	code := http.StatusOK
	var bad *badRequest
	switch {
	case err == nil:
	case errors.Is(err, ErrNotFound):
		code = http.StatusNotFound
	case errors.As(err, &bad), errors.Is(err, ErrRefused):
		code = http.StatusBadRequest
	case errors.Is(err, ErrAway):
		code = http.StatusBadGateway
	default:
		code = http.StatusInternalServerError
	}
	if err != nil {
		v = Problem{Error: err.Error()}
	}
	answer(w, code, v, log)
}

func answer(w http.ResponseWriter, code int, v any, log *slog.Logger) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		log.Debug("control answer not delivered", "error", err)
	}
}
