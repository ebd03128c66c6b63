package checks

import (
	"context"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// probeLimit is the timeout of probes in tests that are to end by themselves;
// it only bounds a test that fails.
const probeLimit = 10 * time.Second

// shortLimit is the timeout of probes that are to run into it.
const shortLimit = 300 * time.Millisecond

// partLimit is the timeout of probes that are to run into it once they have
// heard something, which a busy machine must not keep from them.
const partLimit = time.Second

// serve accepts connections on a loopback address and gives each to f in a
// goroutine of its own, until the test ends.
func serve(t *testing.T, addr string, f func(net.Conn)) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				f(c)
			}()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return addrPort(t, l.Addr())
}

func addrPort(t *testing.T, a net.Addr) netip.AddrPort {
	t.Helper()
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		t.Fatal(err)
	}
	return ap
}

// closedPort is a port of a loopback address where nobody listens: it is bound
// until the test ends, so that nobody else begins to.
func closedPort(t *testing.T) netip.AddrPort {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	return boundTo(t, fd)
}

func boundTo(t *testing.T, fd int) netip.AddrPort {
	t.Helper()
	sa, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	in4, ok := sa.(*unix.SockaddrInet4)
	if !ok {
		t.Fatalf("bound to %T", sa)
	}
	return netip.AddrPortFrom(netip.AddrFrom4(in4.Addr), uint16(in4.Port))
}

// blackHole is a port that does not answer a SYN: its queue of connections is
// full, and nobody accepts any.
func blackHole(t *testing.T) netip.AddrPort {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	to := boundTo(t, fd)
	c, err := net.DialTimeout("tcp", to.String(), probeLimit) // there is room for one
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	eventually(t, "the queue of the listener is full", func() bool {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		return err == nil && info.Unacked > 0 // of a listener: how many wait to be accepted
	})
	return to
}

// targetOf is a Target with the time limit that probeOnce gives it.
func targetOf(ap netip.AddrPort, limit time.Duration) Target {
	return Target{Host: ap.Addr().String(), Port: ap.Port(), Limit: limit}
}

// probeOnce makes one probe. One that is to run into its limit says little of
// its target where this process stood still for a good part of it, as on a busy
// machine: a Runner makes such a failure void, too. It is made again.
func probeOnce(t *testing.T, o Options, to Target) Result {
	t.Helper()
	p, err := o.Prober(to)
	if err != nil {
		t.Fatal(err)
	}
	var res Result
	for range 10 {
		still := stoodStill(func() { res = probeWithin(t, p, to.Limit) })
		if to.Limit >= probeLimit || still < shortLimit/4 {
			break
		}
		t.Logf("this process stood still for %s; once more than: %s", still.Round(time.Millisecond), res.Detail)
	}
	return res
}

// probeWithin makes one probe that is stopped after its limit.
func probeWithin(t *testing.T, p Prober, limit time.Duration) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	res := p.Probe(ctx)
	if res.Start.IsZero() || res.Took <= 0 || res.Took > limit+probeLimit/2 {
		t.Errorf("probe began at %s and took %s, with a limit of %s", res.Start, res.Took, limit)
	}
	return res
}

// stoodStill calls f and returns the longest time meanwhile in which another
// goroutine was not run although it was due.
func stoodStill(f func()) time.Duration {
	last, longest := time.Now(), time.Duration(0)
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for more := true; more; {
			select {
			case <-tick.C:
			case <-over:
				more = false
			}
			now := time.Now()
			last, longest = now, max(longest, now.Sub(last))
		}
	}()
	f()
	close(over)
	<-done
	return longest
}

// outcome is what a test expects of a Result.
type outcome struct {
	OK     bool
	Cause  Cause
	Detail string
}

func wantOutcome(t *testing.T, res Result, want outcome) {
	t.Helper()
	if d := cmp.Diff(want, outcome{res.OK, res.Cause, res.Detail}); d != "" {
		t.Errorf("result (-want +got):\n%s", d)
	}
}

// openFiles counts the descriptors of the test process.
func openFiles(t *testing.T) int {
	t.Helper()
	es, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(es)
}

// eventually waits until a condition holds that others bring about.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.Now().Add(time.Minute) // it costs nothing where it does
	for !holds() {
		if time.Now().After(end) {
			t.Fatalf("did not come about: %s", what)
		}
		<-tick.C
	}
}
