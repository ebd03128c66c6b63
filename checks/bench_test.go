package checks

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// benchTargets is how many ports share the load: with all connections going to
// one, the kernel's search for a free local port would be what is measured.
const benchTargets = 100

// acceptAll returns targets that accept connections, in another process.
func acceptAll(b *testing.B) []Target {
	b.Helper()
	_, out := startHelper(b, "accept")
	if !out.Scan() {
		b.Fatal("the accepting process said nothing")
	}
	var targets []Target
	for _, s := range strings.Fields(out.Text()) {
		targets = append(targets, targetOf(netip.MustParseAddrPort(s), time.Second))
	}
	return targets
}

func BenchmarkTCPProbe(b *testing.B) {
	var probers []Prober
	for _, to := range acceptAll(b) {
		p, err := (&TCPOptions{}).Prober(to)
		if err != nil {
			b.Fatal(err)
		}
		probers = append(probers, p)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		if res := probers[i%len(probers)].Probe(ctx); !res.OK {
			b.Fatalf("%+v", res)
		}
		cancel()
	}
}

// BenchmarkRunner1000 runs 1,000 tcp checks a second for five seconds and
// reports the share of one core that the process took, and the memory it got
// from the system.
func BenchmarkRunner1000(b *testing.B) {
	const length = 5 * time.Second
	targets := acceptAll(b)
	r := NewRunner(slog.New(slog.DiscardHandler), RunnerOptions{})
	var specs []Spec
	for i := range 1000 {
		p, err := (&TCPOptions{}).Prober(targets[i%len(targets)])
		if err != nil {
			b.Fatal(err)
		}
		specs = append(specs, specOf(fmt.Sprintf("tcp@10.0.%d.%d:80", i/250, i%250), p))
	}
	if err := r.Update(specs); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), length)
	defer cancel()
	begin, used := time.Now(), cpuTime(b)
	if err := r.Run(ctx); err != nil {
		b.Fatal(err)
	}
	share := float64(cpuTime(b)-used) / float64(time.Since(begin))
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(100*share, "%core")
	b.ReportMetric(float64(m.Sys)/(1<<20), "MiB")
	var runs, fails uint64
	for _, st := range r.Status() {
		runs, fails = runs+st.Runs, fails+st.Fails
		for _, res := range r.Recent(st.ID) {
			if !res.OK {
				b.Logf("%s: %s after %s", st.ID, res.Detail, res.Took)
			}
		}
	}
	if want := uint64(900 * length / time.Second); runs < want || fails > 0 {
		b.Fatalf("%d probes in %s, %d failed", runs, length, fails)
	}
}

// cpuTime is what the process has used so far, of all cores.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
