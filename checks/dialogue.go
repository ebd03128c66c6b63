package checks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
)

// dialogue is what a target says in one step of a conversation, bounded.
type dialogue struct {
	conn  net.Conn
	what  string // "PostgreSQL answer", for sentences
	limit string // time, for sentences
	buf   []byte
	n     int
}

// newDialogue reads at most size bytes at once.
func (a *aim) newDialogue(conn net.Conn, what string, size int) *dialogue {
	return &dialogue{conn: conn, what: what, limit: a.limitText(), buf: make([]byte, size)}
}

// next waits until parse finds a whole message at the beginning of what has
// come, of which it says how long it is, and takes that off. What parse returns
// of the bytes must be its own.
func (r *dialogue) next(ctx context.Context, parse func(got []byte) (used int, f *failure)) *failure {
	var err error
	for {
		if r.n > 0 {
			used, f := parse(r.buf[:r.n])
			if f != nil {
				return f
			}
			if used > 0 {
				r.n = copy(r.buf, r.buf[used:r.n])
				return nil
			}
		}
		switch {
		case err != nil:
			return r.cutShort(ctx, err)
		case r.n == len(r.buf):
			return failf(CauseAnswer, "the target sends more than %d bytes that are no %s", r.n, r.what)
		}
		var m int
		m, err = r.conn.Read(r.buf[r.n:])
		r.n += m
	}
}

// cutShort explains why no whole message came.
func (r *dialogue) cutShort(ctx context.Context, err error) *failure {
	if f := alertFailure(err); f != nil {
		return f
	}
	closed := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	f := netFailure(ctx, err, fmt.Sprintf("connected, but no %s within %s", r.what, r.limit))
	switch {
	case closed && r.n > 0:
		return failf(CauseAnswer, "the target closed the connection after %d bytes of a %s", r.n, r.what)
	case closed:
		return failf(CauseAnswer, "the target closed the connection without a %s", r.what)
	case f.cause == CauseTimeout && r.n > 0:
		return failf(CauseAnswer, "only %d bytes of a %s within %s", r.n, r.what, r.limit)
	}
	return f
}
