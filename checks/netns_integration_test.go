//go:build integration

package checks

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// inNamespace runs f in a network namespace of its own, on a thread that ends
// with it: sockets that f makes belong there.
func inNamespace(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread is not fit for anything else
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Errorf("make a network namespace: %v", err)
			return
		}
		f(t)
	}()
	<-done
}

// ipCommand runs a command in the namespace of the calling thread.
func ipCommand(t *testing.T, line string) {
	t.Helper()
	args := strings.Fields(line)
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Errorf("%s: %v: %s", line, err, out)
	}
}

func setSysctl(t *testing.T, name, value string) {
	t.Helper()
	path := "/proc/sys/" + strings.ReplaceAll(name, ".", "/")
	if err := os.WriteFile(path, []byte(value), 0); err != nil {
		t.Error(err)
	}
}

func TestUnreachable(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		noRoute := outcome{false, CauseNetwork, "network unreachable: this host has no route to the target"}
		tcp, icmp := &TCPOptions{}, &ICMPOptions{}
		far := Target{Host: "10.1.1.1", Port: 80, Limit: probeLimit}
		wantOutcome(t, probeOnce(t, tcp, far), noRoute)
		wantOutcome(t, probeOnce(t, &HTTPOptions{}, far), noRoute)
		wantOutcome(t, probeOnce(t, icmp, far), noRoute)
		ipCommand(t, "ip link set lo up")
		ipCommand(t, "ip route add unreachable 10.1.1.1/32")
		ipCommand(t, "ip route add prohibit 10.1.1.2/32")
		unreachable := outcome{false, CauseNetwork, "host unreachable: nothing answers for the target's address"}
		wantOutcome(t, probeOnce(t, tcp, far), unreachable)
		wantOutcome(t, probeOnce(t, icmp, far), unreachable)
		far.Host = "10.1.1.2"
		wantOutcome(t, probeOnce(t, tcp, far), outcome{false, CauseInternal, "this host does not let the packet out: firewall or prohibiting route"})
	})
}

// A neighbour that does not answer ARP is reported by the kernel, to a probe
// that waits long enough.
func TestDeadNeighbour(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		ipCommand(t, "ip link set lo up") // the kernel tells itself over it
		ipCommand(t, "ip link add name near type veth peer name distant")
		ipCommand(t, "ip link set dev near up")
		ipCommand(t, "ip link set dev distant up")
		ipCommand(t, "ip address add 10.1.1.1/24 dev near")
		dead := outcome{false, CauseNetwork, "host unreachable: nothing answers for the target's address"}
		for _, o := range []Options{&TCPOptions{}, &ICMPOptions{}} {
			res := probeOnce(t, o, Target{Host: "10.1.1.2", Port: 80, Limit: probeLimit})
			wantOutcome(t, res, dead)
		}
	})
}

// Both kinds of socket, and a host that answers no echo request.
func TestICMPSockets(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		ipCommand(t, "ip link set lo up")
		for _, group := range []string{"1 0", "0 2147483647"} { // raw, datagram
			setSysctl(t, "net.ipv4.ping_group_range", group)
			for _, host := range []string{"127.0.0.1", "::1"} {
				o := &ICMPOptions{Count: 3, Spacing: time.Millisecond}
				to := Target{Host: host, Limit: probeLimit}
				if res := probeOnce(t, o, to); !res.OK {
					t.Errorf("group range %s, %s: %+v", group, host, res)
				}
			}
			setSysctl(t, "net.ipv4.icmp_echo_ignore_all", "1")
			begin := time.Now()
			res := probeOnce(t, &ICMPOptions{Count: 3, Spacing: 50 * time.Millisecond}, Target{Host: "127.0.0.1", Limit: shortLimit})
			wantOutcome(t, res, outcome{false, CauseTimeout, "no answer within 300ms (0 of 3 echo requests answered)"})
			if d := time.Since(begin); d < shortLimit {
				t.Errorf("gave up after %s", d)
			}
			setSysctl(t, "net.ipv4.icmp_echo_ignore_all", "0")
		}
	})
}
