package bgp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrMultipathTCP is returned by Start and Configure when a listener needs a
// password or TTL security and Go would open it as multipath TCP, on which
// Linux offers neither. GoBGP only logs that, and the session never comes up
// (osrg/gobgp PR 3021 came after v3).
var ErrMultipathTCP = errors.New("bgp: listeners would be multipath TCP, where MD5 and TTL security do not work; run with GODEBUG=multipathtcp=0")

// checkListener returns ErrMultipathTCP when st needs plain TCP listeners and
// this process would not open such.
func checkListener(st Settings) error {
	needed := false
	for _, n := range st.Neighbours {
		needed = needed || n.Password != "" || n.TTLSecurity
	}
	if !st.listens() || !needed {
		return nil
	}
	multipath, err := listensMultipath()
	if err != nil {
		return fmt.Errorf("asking for the protocol of a listening socket: %w", err)
	}
	if multipath {
		return ErrMultipathTCP
	}
	return nil
}

// listensMultipath opens a listener the way GoBGP does and asks the kernel for
// its protocol. That holds for every way to set GODEBUG, and for kernels
// without multipath TCP, where Go falls back to TCP.
func listensMultipath() (bool, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp4", "127.0.0.1:0")
	if err != nil {
		return false, err
	}
	defer func() { _ = l.Close() }()
	sc, ok := l.(syscall.Conn)
	if !ok {
		return false, fmt.Errorf("listener %T has no descriptor", l)
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return false, err
	}
	var proto int
	var sockErr error
	err = rc.Control(func(fd uintptr) {
		proto, sockErr = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PROTOCOL)
	})
	if err = errors.Join(err, sockErr); err != nil {
		return false, err
	}
	return proto == unix.IPPROTO_MPTCP, nil
}
