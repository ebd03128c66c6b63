//go:build integration

package checks

import (
	"io"
	"net"
	"net/netip"
	"testing"
	"time"
)

// silent accepts connections and says nothing.
func silent(t *testing.T) netip.AddrPort {
	return serve(t, "127.0.0.1:0", func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
}

// halfClosed accepts connections and ends its own side at once.
func halfClosed(t *testing.T) netip.AddrPort {
	return serve(t, "127.0.0.1:0", func(c net.Conn) {
		if tc, ok := c.(*net.TCPConn); ok {
			_ = tc.CloseWrite()
		}
		_, _ = io.Copy(io.Discard, c)
	})
}

// babbler says something as soon as it is connected to.
func babbler(t *testing.T, text string) netip.AddrPort {
	return serve(t, "127.0.0.1:0", holds(text))
}

// relay stands before a real server in the namespace of the tests. It passes on
// what the server says a while later, and only so many bytes of it. Then it ends
// its side, and reads on: to close at once might be to reset.
func relay(t *testing.T, to netip.AddrPort, delay time.Duration, most int64) netip.AddrPort {
	return serve(t, "127.0.0.1:0", func(c net.Conn) {
		s, err := net.Dial("tcp", to.String())
		if err != nil {
			return
		}
		asked := make(chan struct{})
		go func() {
			defer close(asked)
			_, _ = io.Copy(s, c)
			_, _ = io.Copy(io.Discard, c) // where the server has ended before
			s.Close()                     // so that the copy below ends
		}()
		timer := time.NewTimer(delay)
		defer timer.Stop()
		<-timer.C
		_, _ = io.CopyN(c, s, most)
		_ = c.(*net.TCPConn).CloseWrite()
		<-asked
	})
}
