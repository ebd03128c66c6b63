//go:build integration

package daemon

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rhid/internal/control"
)

const passiveConfig = `
control: {socket: %s/s}
kernel: {lease: false}
vip: {bind: never}
stop: {drain_time: 100ms, timeout: 5s}
nodes: [{name: lb, address: 10.1.0.11}]
checks:
  echo: {type: tcp, address: "127.0.0.1:9001", interval: 200ms, timeout: 150ms}
  diag: {type: tcp-diag, address: "127.0.0.1:9002", interval: 100ms, rate: {over: 5s, min: 90%%}}
  packets: {type: capture, device: lo, address: "127.0.0.1:9002", interval: 100ms, rate: {over: 5s, min: 90%%}}
services:
  - {name: by-diag, vips: [10.255.0.1/32], via: [kernel], failback: {delay: 0s}, check: {all: [echo, diag]}}
  - {name: by-capture, vips: [10.255.0.2/32], via: [kernel], failback: {delay: 0s}, check: {all: [echo, packets]}}
`

// A daemon that watches the connections of other programs: without traffic it
// abstains and announces, connections that are reset take the services down,
// also over a reload, and when the evidence is too old they come back.
func TestWatchedConnections(t *testing.T) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread is not fit for anything else
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Errorf("make a network namespace: %v", err)
			return
		}
		if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
			t.Errorf("ip: %v: %s", err, out)
			return
		}
		watchedConnections(t)
	}()
	<-done
}

func watchedConnections(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "rhid.yaml"), fmt.Appendf(nil, passiveConfig, dir), 0o600); err != nil {
		t.Error(err)
	}
	listen(t, "127.0.0.1:9001")
	sick, err := net.Listen("tcp", "127.0.0.1:9002")
	if err != nil {
		t.Error(err)
		return
	}
	defer sick.Close() //nolint:errcheck // a test server
	go func() {
		for {
			c, err := sick.Accept()
			if err != nil {
				return
			}
			_ = c.(*net.TCPConn).SetLinger(0)
			c.Close() //nolint:errcheck,gosec // it is reset
		}
	}()
	d := spawn(t, filepath.Join(dir, "rhid.yaml"), "lb")
	client := control.NewClient(filepath.Join(dir, "s"))
	both := func(verdict string) (evidence []string) {
		var st control.Status
		for end := time.Now().Add(limit); time.Now().Before(end); <-time.After(20 * time.Millisecond) {
			if st, err = client.Status(t.Context()); err != nil {
				continue
			}
			evidence = nil
			for _, s := range st.Services {
				if s.Verdict.String() == verdict {
					evidence = append(evidence, s.Name+": "+s.Reason.Evidence)
				}
			}
			if len(evidence) == 2 {
				return evidence
			}
		}
		t.Errorf("not both services have verdict %s: %+v, %v", verdict, st.Services, err)
		return evidence
	}
	both("announce")
	watching(t, client, "by-diag", "by-capture")
	ask := func() {
		for range 15 {
			if c, err := net.Dial("tcp", "127.0.0.1:9002"); err == nil {
				_, _ = c.Write([]byte("well?"))
				_, _ = c.Read(make([]byte, 10))
				c.Close() //nolint:errcheck,gosec // it was reset
			}
		}
	}
	ask()
	d.signal(syscall.SIGHUP) // what is watched and counted stays
	ask()
	began := time.Now()
	// The verdict may come while the last are still counted, but 15 are too few for one.
	counted := regexp.MustCompile(`0 of the last (2[0-9]|30) results within 5s succeeded \(0 %\)`)
	for _, e := range both("withdraw") {
		t.Log(e)
		if !counted.MatchString(e) || !strings.Contains(e, "were reset before an answer") {
			t.Errorf("it does not tell why: %s", e)
		}
	}
	both("announce")
	t.Logf("back %s after the last connection", time.Since(began).Round(100*time.Millisecond))
	d.signal(syscall.SIGTERM)
	d.ended()
}

// watching waits until all checks of the services have made a probe.
func watching(t *testing.T, client *control.Client, services ...string) {
	t.Helper()
	for _, name := range services {
		for end := time.Now().Add(limit); ; <-time.After(20 * time.Millisecond) {
			e, err := client.Explain(t.Context(), name)
			idle := len(e.Checks) == 0
			for _, c := range e.Checks {
				idle = idle || c.Runs == 0
			}
			if err == nil && !idle {
				break
			}
			if time.Now().After(end) {
				t.Errorf("not all checks of %s run: %+v, %v", name, e.Checks, err)
				return
			}
		}
	}
}
