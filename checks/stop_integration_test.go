//go:build integration

package checks

import (
	"bufio"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A process that was stopped for two seconds, with a quarter of its probes under
// way, must not take its targets for failed; and it must still see a failure
// that is one.
func TestStoppedProcessBlamesNobody(t *testing.T) {
	var mute atomic.Bool
	target := serve(t, "127.0.0.1:0", func(c net.Conn) {
		wait := time.NewTimer(500 * time.Millisecond) // so that many are under way
		defer wait.Stop()
		<-wait.C
		if !mute.Load() {
			_, _ = io.WriteString(c, "x") // the probe may be gone
		}
		_, _ = io.Copy(io.Discard, c) // until it closes
	})
	proc, out := startHelper(t, "runner", target.String())
	lines := make(chan string, 1000)
	go readLines(out, lines)
	for range 40 {
		if line := nextLine(t, lines, 30*time.Second); !strings.Contains(line, " up ") {
			t.Fatalf("at the start: %s", line)
		}
	}
	for round := range 3 {
		if err := proc.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if err := proc.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		select {
		case line := <-lines:
			t.Fatalf("after stop %d: %s", round+1, line)
		case <-time.After(2500 * time.Millisecond):
		}
	}
	mute.Store(true)
	for range 40 {
		if line := nextLine(t, lines, 30*time.Second); !strings.Contains(line, " down ") {
			t.Fatalf("with a mute target: %s", line)
		}
	}
}

func readLines(s *bufio.Scanner, to chan<- string) {
	for s.Scan() {
		to <- s.Text()
	}
}

func nextLine(t *testing.T, lines <-chan string, within time.Duration) string {
	t.Helper()
	select {
	case line := <-lines:
		return line
	case <-time.After(within):
		t.Fatal("the helper said nothing")
		return ""
	}
}
