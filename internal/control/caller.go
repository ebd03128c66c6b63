package control

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os/user"
	"strconv"

	"golang.org/x/sys/unix"
)

// callerKey finds in a request's context who is at the other end.
type callerKey struct{}

// withCaller notes the user at the other end of the socket (SO_PEERCRED), for
// the audit log.
func withCaller(ctx context.Context, c net.Conn) context.Context {
	uc, ok := c.(*net.UnixConn)
	if !ok {
		return ctx
	}
	raw, err := uc.SyscallConn()
	if err != nil {
		return ctx
	}
	var cred *unix.Ucred
	var bad error
	err = raw.Control(func(fd uintptr) {
		cred, bad = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) //nolint:gosec // a descriptor fits
	})
	if err != nil || bad != nil {
		return ctx
	}
	return context.WithValue(ctx, callerKey{}, cred.Uid)
}

// caller names the user who asks, with the number: names may change.
func caller(r *http.Request) string {
	uid, ok := r.Context().Value(callerKey{}).(uint32)
	if !ok {
		return "unknown"
	}
	id := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(id); err == nil {
		return fmt.Sprintf("%s (uid %s)", u.Username, id)
	}
	return "uid " + id
}
