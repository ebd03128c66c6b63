package checks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
	"unicode"
)

// failure is why a probe failed, before it becomes a Result. Probers pass it
// around as a pointer, nil meaning success; it is not an error, so that no
// typed nil can hide in one.
type failure struct {
	cause  Cause
	detail string
}

func failf(c Cause, format string, args ...any) *failure {
	return &failure{cause: c, detail: fmt.Sprintf(format, args...)}
}

// result joins a sentence for success and a failure, if any, to a Result.
func (f *failure) result(good string) Result {
	if f == nil {
		return Result{OK: true, Detail: good}
	}
	return Result{Cause: f.cause, Detail: f.detail}
}

// timed is a probe that leaves the clock to its caller.
type timed func(ctx context.Context) Result

// Probe implements Prober.
func (t timed) Probe(ctx context.Context) Result {
	start := time.Now()
	r := t(ctx)
	r.Start, r.Took = start, time.Since(start)
	return r
}

// errnoFailures are the errors of the kernel that mean the same wherever in a
// probe they come up.
func errnoFailure(e syscall.Errno) *failure {
	switch e {
	case syscall.ECONNREFUSED:
		return &failure{CauseRefused, "connection refused"}
	case syscall.ECONNRESET, syscall.EPIPE:
		return &failure{CauseNetwork, "connection reset by the target"}
	case syscall.ENETUNREACH:
		return &failure{CauseNetwork, "network unreachable: this host has no route to the target"}
	case syscall.EHOSTUNREACH:
		return &failure{CauseNetwork, "host unreachable: nothing answers for the target's address"}
	case syscall.ENETDOWN:
		return &failure{CauseNetwork, "the interface towards the target is down"}
	case syscall.ETIMEDOUT:
		return &failure{CauseTimeout, "the kernel gave up waiting for the target"}
	case syscall.EMFILE:
		return &failure{CauseInternal, "this process has no file descriptor left (EMFILE)"}
	case syscall.ENFILE:
		return &failure{CauseInternal, "this host has no file descriptor left (ENFILE)"}
	case syscall.ENOBUFS, syscall.ENOMEM:
		return &failure{CauseInternal, "this host has no memory left for the connection"}
	case syscall.EADDRNOTAVAIL:
		return &failure{CauseInternal, "the source address is not on this host, or it has no free port left"}
	case syscall.EADDRINUSE:
		return &failure{CauseInternal, "this host has no free port left for the connection"}
	case syscall.EACCES, syscall.EPERM:
		return &failure{CauseInternal, "this host does not let the packet out: firewall or prohibiting route"}
	case syscall.EINVAL:
		return &failure{CauseInternal, "this host cannot reach the target from the source address"}
	default:
		return nil
	}
}

// netFailure turns an error of the network into a failure. late is the whole
// sentence for the case that time ran out.
func netFailure(ctx context.Context, err error, late string) *failure {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		if f := errnoFailure(errno); f != nil {
			return f
		}
	}
	if errors.Is(context.Cause(ctx), context.Canceled) {
		return &failure{CauseInternal, "the probe was stopped"}
	}
	var ne net.Error
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &ne) && ne.Timeout() || ctx.Err() != nil {
		return &failure{CauseTimeout, late}
	}
	return failf(CauseNetwork, "%v", bareError(err))
}

// bareError drops the addresses that package net puts before the reason; who
// prints the result names the target already.
func bareError(err error) error {
	var oe *net.OpError
	for errors.As(err, &oe) && oe.Err != nil {
		err = oe.Err
	}
	return err
}

// quoted shows bytes of an answer in a sentence: at most limit of them, in Go
// syntax, so that nothing in them can spoil a log line or a terminal.
func quoted(b []byte, limit int) string {
	if len(b) > limit {
		return fmt.Sprintf("%q…", b[:limit])
	}
	return fmt.Sprintf("%q", b)
}

// oneLine makes text of a foreign program fit for a sentence: its first line
// that is not empty, without control characters, at most limit bytes long.
func oneLine(b []byte, limit int) string {
	for line := range strings.Lines(strings.ToValidUTF8(string(b), "?")) {
		line = strings.Map(func(r rune) rune {
			if unicode.IsControl(r) {
				return ' '
			}
			return r
		}, line)
		if line = strings.TrimSpace(line); line != "" {
			return cut(line, limit)
		}
	}
	return ""
}

// cut shortens s to limit bytes without splitting a character.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	const mark = "…"
	s = s[:limit-len(mark)]
	return strings.ToValidUTF8(s, "") + mark
}
