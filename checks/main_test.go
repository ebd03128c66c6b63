package checks

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// helperEnv makes the test binary do something else than test: be the other
// side of a test that needs another process.
const helperEnv = "RHID_CHECKS_HELPER"

func TestMain(m *testing.M) {
	switch os.Getenv(helperEnv) {
	case "accept":
		os.Exit(acceptHelper())
	case "runner":
		os.Exit(runnerHelper())
	}
	os.Exit(m.Run())
}

// startHelper starts the test binary as a helper until the test ends. It
// returns the process and its output; a helper ends when its input does.
func startHelper(tb testing.TB, what string, args ...string) (*os.Process, *bufio.Scanner) {
	tb.Helper()
	exe, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), helperEnv+"="+what)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			tb.Errorf("helper %s: %v", what, err)
		}
	})
	return cmd.Process, bufio.NewScanner(out)
}

// acceptHelper opens ports, prints their addresses on one line, and accepts
// connections, each of which it closes a while later, when the other side has
// done so: who closes first keeps the port pair busy.
func acceptHelper() int {
	var addrs []string
	for range benchTargets {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		addrs = append(addrs, l.Addr().String())
		go acceptFrom(l)
	}
	fmt.Println(strings.Join(addrs, " "))
	return untilInputEnds()
}

func acceptFrom(l net.Listener) {
	var open [4]net.Conn
	for i := 0; ; i++ {
		c, err := l.Accept()
		if err != nil {
			return
		}
		if old := open[i%len(open)]; old != nil {
			old.Close()
		}
		open[i%len(open)] = c
	}
}

func untilInputEnds() int {
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// runnerHelper runs 40 checks of the target in its first argument that fall at
// the first failure, prints a line for each change of state, and ends with the
// number of probes of each check.
func runnerHelper() int {
	host, port, err := net.SplitHostPort(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	to := Target{Host: host, Limit: 1500 * time.Millisecond}
	if _, err := fmt.Sscan(port, &to.Port); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var specs []Spec
	for i := range 40 {
		p, err := (&TCPOptions{Expect: "x"}).Prober(to)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		s := specOf(fmt.Sprint("check-", i), p)
		s.Timing = Timing{Interval: 1800 * time.Millisecond, Timeout: to.Limit, Rise: 1, Fall: 1}
		specs = append(specs, s)
	}
	r := NewRunner(slog.New(slog.DiscardHandler), RunnerOptions{})
	if err := r.Update(specs); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		untilInputEnds()
		cancel()
	}()
	go func() {
		for ev := range r.Events() {
			fmt.Println(ev.ID, ev.State, ev.Result.Detail)
		}
	}()
	if err := r.Run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// bubble is synctest.Test on one processor. With -race and more of them, Go 1.26
// lets all use one context of the race detector for a bubble's timers, and now
// and then ends with a SIGSEGV in it (golang/go#78156). The detector goes by the
// order of events, not by chance, so one processor finds as much.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, f)
}
