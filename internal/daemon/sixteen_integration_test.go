//go:build integration

package daemon

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rhid/internal/control"
)

// TestSixteenDaemons: sixteen whole daemons on loopback. How soon does each know
// of a change on one of them, how much do they send while nothing happens, how
// large is each, and how soon is a dead holder's service with the next?
func TestSixteenDaemons(t *testing.T) {
	srv := listen(t, "")
	var names, text []string
	for _, site := range []string{"a", "b"} {
		for i := range 8 {
			names = append(names, fmt.Sprintf("%s%d", site, i+1))
		}
	}
	for i := range 4 {
		order := slices.Concat(names[i:], names[:i])
		text = append(text, fmt.Sprintf(`- {name: s%d, vips: [10.255.0.%d/32], order: [%s], failback: {delay: 1s}, check: echo, servers: {addresses: [%q]}}`,
			i, i+10, strings.Join(order, ", "), srv.Addr()))
	}
	f := newFleet(t, strings.Join(text, "\n  "), names...)
	f.start(names...)
	f.holders("a1", "a2", "a3", "a4")
	f.stays(3*time.Second, "a1", "a2", "a3", "a4")

	var took []time.Duration
	for i := range 30 {
		took = append(took, f.spread(names[i%len(names)], i)...)
	}
	slices.Sort(took)
	t.Logf("an intent set on one of 16 daemons is in the status of each other after p50 %v, p99 %v, at most %v (%d)",
		took[len(took)/2].Round(100*time.Microsecond), took[len(took)*99/100].Round(100*time.Microsecond), took[len(took)-1].Round(100*time.Microsecond), len(took))

	f.stays(2*time.Second, "a1", "a2", "a3", "a4")
	const idle = 5 * time.Second
	sent := f.gossiped(idle)
	largest := 0
	for _, n := range names {
		largest = max(largest, resident(t, f.nodes[n].cmd.Process.Pid))
	}
	t.Logf("idle: each daemon sends %.1f kB/s of gossip; the largest has %.1f MiB", float64(sent)/idle.Seconds()/float64(len(names))/1000, float64(largest)/1024)

	began := time.Now()
	f.nodes["a1"].kill()
	f.holders("a2", "a2", "a3", "a4")
	t.Logf("the holder of one service dies: the next announces it after %v", time.Since(began).Round(time.Millisecond))
	if sent == 0 {
		t.Error("no gossip was seen")
	}
	if worst := took[len(took)-1]; worst > 5*time.Second {
		t.Errorf("a change needed %v", worst)
	}
}

// spread sets an intent on one daemon, and returns how long each other took to
// show it.
func (f *fleet) spread(from string, round int) []time.Duration {
	f.t.Helper()
	why := fmt.Sprintf("round %d", round)
	began := time.Now()
	if err := f.nodes[from].client.Intend(f.t.Context(), control.Intent{Kind: "freeze", Subject: "cluster", Why: why}); err != nil {
		f.t.Fatal(err)
	}
	results := make(chan time.Duration)
	for _, n := range f.names {
		go func() {
			for time.Since(began) < limit {
				st, err := f.nodes[n].client.Status(f.t.Context())
				if err == nil && st.Cluster != nil && slices.ContainsFunc(st.Cluster.Intents, func(i control.Intent) bool { return i.Why == why }) {
					break
				}
				<-time.After(time.Millisecond)
			}
			results <- time.Since(began)
		}()
	}
	var took []time.Duration
	for range f.names {
		took = append(took, <-results)
	}
	if worst := slices.Max(took); worst >= limit {
		f.t.Fatalf("an intent set on %s is not everywhere after %v", from, worst)
	}
	return took
}

// gossiped counts the bytes of IPv4 packets from or to the gossip port that were
// sent on lo, as they arrive there.
func (f *fleet) gossiped(d time.Duration) int64 {
	f.t.Helper()
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(htons(unix.ETH_P_IP)))
	if err != nil {
		f.t.Fatal(err)
	}
	defer unix.Close(fd) //nolint:errcheck // a test's socket
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000}); err != nil {
		f.t.Fatal(err)
	}
	var total int64
	b := make([]byte, 65536)
	for end := time.Now().Add(d); time.Now().Before(end); {
		n, from, err := unix.Recvfrom(fd, b, 0)
		if err != nil || n < 20 {
			continue
		}
		at, ok := from.(*unix.SockaddrLinklayer)
		head := int(b[0]&0xf) * 4
		if !ok || at.Pkttype != unix.PACKET_HOST || n < head+4 {
			continue
		}
		for _, port := range []uint16{binary.BigEndian.Uint16(b[head:]), binary.BigEndian.Uint16(b[head+2:])} {
			if int(port) == f.gossip {
				total += int64(n)
				break
			}
		}
	}
	return total
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

// resident returns the memory of a process, in KiB.
func resident(t *testing.T, pid int) (kib int) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			if _, err := fmt.Sscan(rest, &kib); err != nil {
				t.Fatal(err)
			}
		}
	}
	return kib
}
