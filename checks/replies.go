package checks

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	repliesLimit = 64 << 10               // bytes of all replies of one probe
	farewellWait = 200 * time.Millisecond // for the reply to QUIT, which decides nothing
)

// replies is a conversation of commands and replies with three digits, as
// SMTP and FTP have it (RFC 5321 4.2, RFC 959 4.2).
type replies struct {
	*aim
	protocol string // for sentences
	conn     net.Conn
	limit    *io.LimitedReader
	in       *bufio.Reader
}

func newReplies(a *aim, protocol string, conn net.Conn) *replies {
	d := &replies{aim: a, protocol: protocol}
	d.over(conn)
	return d
}

// over goes on over another connection: that of TLS.
func (d *replies) over(conn net.Conn) {
	d.conn = conn
	d.limit = &io.LimitedReader{R: conn, N: repliesLimit}
	d.in = bufio.NewReader(d.limit)
}

// secured makes TLS of the connection, after the reply that agreed to it. What
// came with that reply was said without TLS, by whoever it was.
func (d *replies) secured(ctx context.Context, cfg *tls.Config) *failure {
	if d.in.Buffered() > 0 {
		return &failure{CauseTLS, "the target said something more before TLS began"}
	}
	tc, f := d.secure(ctx, d.conn, cfg)
	if f != nil {
		return f
	}
	d.over(tc)
	return nil
}

// command sends a line and reads the reply. Sentences name its first word
// only: the rest may be a password.
func (d *replies) command(ctx context.Context, line string, want ...int) (int, string, *failure) {
	verb, _, _ := strings.Cut(line, " ")
	if _, err := io.WriteString(d.conn, line+"\r\n"); err != nil {
		return 0, "", d.broken(ctx, err, "to "+verb)
	}
	return d.reply(ctx, "to "+verb, want...)
}

// reply reads a reply, and refuses one whose code is not wanted. about says
// what it is the reply to.
func (d *replies) reply(ctx context.Context, about string, want ...int) (int, string, *failure) {
	code, text, err := readReply(d.in)
	if err != nil {
		return 0, "", d.broken(ctx, err, about)
	}
	if slices.Contains(want, code) {
		return code, text, nil
	}
	return code, text, failf(CauseAnswer, "answered %d %s %s, wanted %d", code, quoted([]byte(oneLine([]byte(text), quoteLimit)), quoteLimit), about, want[0])
}

// broken explains why there was no reply.
func (d *replies) broken(ctx context.Context, err error, about string) *failure {
	var malformed malformedReply
	switch {
	case d.limit.N <= 0:
		return failf(CauseAnswer, "the replies are longer than %d bytes", repliesLimit)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return failf(CauseAnswer, "the target closed the connection without a whole reply %s", about)
	case errors.As(err, &malformed):
		return failf(CauseAnswer, "the reply %s is not %s: %s", about, d.protocol, quoted([]byte(malformed), quoteLimit))
	}
	if f := alertFailure(err); f != nil {
		return f
	}
	f := netFailure(ctx, err, fmt.Sprintf("connected, but no reply %s within %s", about, d.limitText()))
	if why, ok := strings.CutPrefix(f.detail, "tls: "); ok && f.cause == CauseNetwork {
		return failf(CauseTLS, "TLS broke instead of a reply %s: %s", about, cut(why, 120))
	}
	return f
}

// quit takes leave, so that the server has nothing to complain of in its log.
// Whether it answers decides nothing.
func (d *replies) quit(ctx context.Context) {
	if d.conn.SetDeadline(time.Now().Add(farewellWait)) == nil {
		_, _, _ = d.command(ctx, "QUIT", 221)
	}
}

// malformedReply is a line where a reply should begin.
type malformedReply string

// Error implements error.
func (m malformedReply) Error() string { return "no reply: " + strconv.Quote(string(m)) }

// readReply reads one reply of one or more lines, and joins their texts with
// line ends. The caller bounds what in can give.
func readReply(in *bufio.Reader) (code int, text string, err error) {
	var lines []string
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			if errors.Is(err, io.EOF) && line+strings.Join(lines, "") != "" {
				err = io.ErrUnexpectedEOF
			}
			return 0, "", err
		}
		line = strings.TrimRight(line, "\r\n")
		n, rest, more, ok := splitReply(line)
		switch {
		case code == 0 && !ok:
			return 0, "", malformedReply(line)
		case code == 0:
			code = n
		case !ok || n != code: // a line in the middle, which FTP lets look like anything
			rest, more = line, true
		}
		lines = append(lines, rest)
		if !more {
			return code, strings.Join(lines, "\n"), nil
		}
	}
}

// splitReply takes a line with a code apart; more says that others follow.
func splitReply(line string) (code int, rest string, more, ok bool) {
	if len(line) < 3 || len(line) > 3 && line[3] != ' ' && line[3] != '-' {
		return 0, "", false, false
	}
	code, err := strconv.Atoi(line[:3])
	if err != nil || code < 100 || code > 599 {
		return 0, "", false, false
	}
	if len(line) == 3 {
		return code, "", false, true
	}
	return code, line[4:], line[3] == '-', true
}

// unsayable says why text cannot be part of a command.
func unsayable(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}
