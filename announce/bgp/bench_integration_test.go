//go:build integration

package bgp

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	insideEnv  = "RHID_BGP_INSIDE"  // set in the copy of the test that runs in its own namespaces
	speakerEnv = "RHID_BGP_SPEAKER" // set in a child that is a speaker to be killed

	password = "s3cret-bank"
	vip4     = "10.200.0.1/32"
	vip6     = "2001:db8:200::1/128"
)

// TestMain lets a child be a speaker.
func TestMain(m *testing.M) {
	if os.Getenv(speakerEnv) != "" {
		if err := speakerMain(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// inside runs the rest of a test in a copy of this process with a network
// namespace of its own, which vanishes with it. It returns true in the copy.
func inside(t *testing.T) bool {
	t.Helper()
	if os.Getenv(insideEnv) != "" {
		run(t, "ip", "link", "set", "lo", "up")
		return true
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v", "-test.count=1")
	cmd.Env = append(os.Environ(), insideEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	t.Log(string(out))
	if err != nil {
		t.Fatalf("in its own namespace (needs root): %v", err)
	}
	return false
}

func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// host is a second network namespace, with a router's daemons in it.
type host struct {
	t   testing.TB
	pid int
	dir string
}

// newHost makes the namespace and a link to it: lb0 here, r0 there, and the
// loopback addresses 10.99.0.1 and 10.99.0.254 for a multihop session.
func newHost(t testing.TB) *host {
	t.Helper()
	holder := exec.Command("sleep", "infinity")
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = holder.Process.Kill(); _ = holder.Wait() })
	dir, err := os.MkdirTemp("", "rhid-bgp-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil { // the daemons give up root
		t.Fatal(err)
	}
	h := &host{t: t, pid: holder.Process.Pid, dir: dir}
	run(t, "ip", "link", "add", "lb0", "type", "veth", "peer", "name", "r0", "netns", fmt.Sprint(h.pid))
	for _, c := range []string{
		"addr add 192.0.2.1/24 dev lb0", "addr add 2001:db8:1::1/64 dev lb0 nodad", "addr add 10.99.0.1/32 dev lo",
		"addr add fe80::1/64 dev lb0 nodad",
		"link set lb0 up", "route add 10.99.0.254/32 via 192.0.2.254",
	} {
		run(t, "ip", strings.Fields(c)...)
	}
	for _, c := range []string{
		"link set lo up", "addr add 192.0.2.254/24 dev r0", "addr add 2001:db8:1::254/64 dev r0 nodad", "addr add 10.99.0.254/32 dev lo",
		"addr add fe80::254/64 dev r0 nodad",
		"link set r0 up", "route add 10.99.0.1/32 via 192.0.2.1",
	} {
		h.run("ip", strings.Fields(c)...)
	}
	return h
}

// enter is a command line that runs another one in the namespace.
func (h *host) enter(name string, args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{fmt.Sprintf("--net=/proc/%d/ns/net", h.pid), name}, args...)...)
}

func (h *host) run(name string, args ...string) string {
	h.t.Helper()
	out, err := h.enter(name, args...).CombinedOutput()
	if err != nil {
		h.t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// daemon starts a daemon in the foreground and has it killed at the end.
func (h *host) daemon(name string, args ...string) *exec.Cmd {
	h.t.Helper()
	cmd := h.enter(name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGCONT)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if h.t.Failed() {
			h.t.Logf("%s: %s", filepath.Base(name), out.String())
		}
	})
	return cmd
}

// listening waits until something in the namespace listens for BGP, and returns
// when that was seen.
func (h *host) listening(b *bench) time.Time {
	h.t.Helper()
	b.until("the router to listen", func() (bool, string) {
		sockets, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/tcp", h.pid))
		return err == nil && strings.Contains(string(sockets), ":00B3 00000000:0000 0A"), fmt.Sprint(err, string(sockets))
	})
	return time.Now()
}

func (h *host) file(name, text string) string {
	h.t.Helper()
	path := filepath.Join(h.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		h.t.Fatal(err)
	}
	return path
}

// routerNeighbours are the three sessions to the router: IPv4 with MD5 and
// GTSM, IPv6 with MD5 (and RFC 8950), and multihop between loopbacks.
func routerNeighbours() []Neighbour {
	base := Neighbour{ASN: routeASN, Hold: 3 * time.Second, Keepalive: time.Second, IPv4: true, IPv6: true}
	direct, six, far := base, base, base
	direct.Address, direct.Password, direct.TTLSecurity = netip.MustParseAddr("192.0.2.254"), password, true
	direct.NextHop6 = netip.MustParseAddr("2001:db8:1::1")
	six.Address, six.Password = netip.MustParseAddr("2001:db8:1::254"), password
	far.Address, far.Source, far.Multihop, far.IPv6 = netip.MustParseAddr("10.99.0.254"), netip.MustParseAddr("10.99.0.1"), 3, false
	return []Neighbour{direct, six, far}
}

func routerSettings() Settings {
	return Settings{
		ASN: ourASN, RouterID: netip.MustParseAddr("192.0.2.1"), Port: 179, Neighbours: routerNeighbours(),
		Allowed: []netip.Prefix{netip.MustParsePrefix(vip4), netip.MustParsePrefix(vip6)},
	}
}
