//go:build integration

package scenarios

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"rhid/internal/control"
	"rhid/internal/lab"
)

const (
	mixedServices = 100
	mixedVictim   = "10.255.0.250/32"
	mixedPort     = 9300 // TCP; HTTP, UDP, DNS and TLS follow

	mixedLimit = 2*500*time.Millisecond + 400*time.Millisecond + 250*time.Millisecond // interval × fall + timeout + FRR's own time
)

// mixedTypes are the checks of one service. Each service has its own, so that
// 1,000 run.
func mixedTypes(i int) []string {
	at := func(port int) string { return fmt.Sprintf("10.9.1.1:%d", port) }
	of := fmt.Sprintf("10.9.2.%d", i)
	local := [...]string{
		"interface, device: lo", "route, prefix: 10.9.1.0/24", "load, cpu: 100, memory: 100", "exec, command: [\"true\"], interval: 5s",
	}[i%4]
	return []string{
		fmt.Sprintf("tcp, address: \"%s:%d\"", of, mixedPort),
		fmt.Sprintf("tcp, address: \"%s:%d\", rate: {over: 1m, last: 50}, latency: {p95: 2s}, jitter: 100ms", of, mixedPort),
		fmt.Sprintf("http, address: \"%s:%d\", window: {size: 5, fail: 3}", of, mixedPort+1),
		fmt.Sprintf("udp, address: %q, send: ping, expect: ping", at(mixedPort+2)),
		fmt.Sprintf("dns, address: %q, query: svc-%d.bank.example", at(mixedPort+3), i),
		fmt.Sprintf("icmp, address: %s", of),
		fmt.Sprintf("https, address: \"%s:%d\", skip_verify: true, interval: 4s", of, mixedPort+4),
		fmt.Sprintf("tls, address: \"%s:%d\", skip_verify: true, interval: 4s", of, mixedPort+4),
		fmt.Sprintf("held, address: \"%s:%d\"", of, mixedPort),
		local,
	}
}

// mixedConfig are services with ten checks each, a service that is to die, and,
// when asked for, 60 checks that hang, of five types.
func mixedConfig(count int, hung bool) string {
	var checks, services strings.Builder
	for i := 1; i <= count; i++ {
		var names []string
		for k, text := range mixedTypes(i) {
			name := fmt.Sprintf("c%d-%d", i, k)
			names = append(names, name)
			interval := ", interval: 3s"
			if strings.Contains(text, "interval:") {
				interval = ""
			}
			fmt.Fprintf(&checks, "  %s: {type: %s%s, timeout: 2500ms}\n", name, text, interval)
		}
		fmt.Fprintf(&services, "  - {name: svc-%d, vips: [10.255.0.%d/32], check: {all: [%s]}}\n", i, i, strings.Join(names, ", "))
	}
	fmt.Fprintf(&checks, "  victim: {type: tcp, interval: 500ms, timeout: 400ms, fall: 2, rise: 2, address: \"10.9.1.1:%d\"}\n", mixedPort+9)
	fmt.Fprintf(&services, "  - {name: victim, vips: [%s], check: victim}\n", mixedVictim)
	if hung {
		for k, typ := range []string{
			"tcp, address: \"10.9.3.%d:9400\"", "http, address: \"10.9.3.%d:9400\"", "udp, send: x, address: \"10.9.3.%d:9400\"",
			"dns, query: x, address: \"10.9.3.%d:9400\"", "exec, shell: true, command: [\"trap '' TERM; sleep 61%02d\"]",
		} {
			var names []string
			for i := 1; i <= 12; i++ {
				names = append(names, fmt.Sprintf("h%d-%d", k, i))
				fmt.Fprintf(&checks, "  h%d-%d: {type: %s, interval: 1s, timeout: 900ms}\n", k, i, fmt.Sprintf(typ, i))
			}
			fmt.Fprintf(&services, "  - {name: hung-%d, vips: [10.255.0.%d/32], check: {all: [%s]}}\n", k, 200+k, strings.Join(names, ", "))
		}
	}
	head, _, _ := strings.Cut(healthConfig, "checks:\n")
	return head + "checks:\n" + checks.String() + "services:\n" + services.String()
}

// serveMixed starts a server of each kind on srv1.
func (h *healthLab) serveMixed() {
	h.t.Helper()
	h.srv1.Serve(fmt.Sprintf(":%d", mixedPort))
	h.srv1.ServeHTTP(fmt.Sprintf(":%d", mixedPort+1))
	packets := make([]net.PacketConn, 2)
	var err error
	h.srv1.Go(func() {
		for i := range packets {
			if err == nil {
				packets[i], err = net.ListenPacket("udp", fmt.Sprintf("10.9.1.1:%d", mixedPort+2+i))
			}
		}
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = packets[0].Close() }) // the other is closed by its server
	go echoPackets(packets[0])
	names := &dns.Server{PacketConn: packets[1], Handler: dns.HandlerFunc(answerName)}
	go names.ActivateAndServe()                  //nolint:errcheck // it ends with the test
	h.t.Cleanup(func() { _ = names.Shutdown() }) // nobody asks any more
	lis, err := h.srv1.Listen(fmt.Sprintf(":%d", mixedPort+4))
	if err != nil {
		h.t.Fatal(err)
	}
	tls := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	_ = tls.Listener.Close() // in place of which comes the node's
	tls.Listener = lis
	tls.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // a probe that gives up is no news
	tls.StartTLS()
	h.t.Cleanup(tls.Close)
}

func echoPackets(c net.PacketConn) {
	buf := make([]byte, 1500)
	for {
		n, from, err := c.ReadFrom(buf)
		if err != nil {
			return
		}
		if _, err := c.WriteTo(buf[:n], from); err != nil {
			return
		}
	}
}

func answerName(w dns.ResponseWriter, q *dns.Msg) {
	a := new(dns.Msg)
	a.SetReply(q)
	a.Answer = append(a.Answer, &dns.A{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: net.IPv4(10, 9, 1, 1)})
	_ = w.WriteMsg(a) // who asked has gone
}

// TestS4Mixed: a thousand checks of mixed types use the same after ten minutes
// as at the beginning, and checks that hang, of five types, delay no other. In
// CI it takes half a minute; RHID_FULL=1 takes the ten minutes.
func TestS4Mixed(t *testing.T) {
	h := startHealth(t)
	h.lb.Must("ip", "route", "add", "10.9.2.0/24", "via", "10.9.1.1")
	h.lb.Must("ip", "route", "add", "10.9.3.0/24", "via", "10.9.1.2")
	h.srv1.Must("ip", "route", "add", "local", "10.9.2.0/24", "dev", "lo")
	h.srv2.Must("nft", "add table ip hole; add chain ip hole in { type filter hook prerouting priority -300; }; add rule ip hole in ip daddr 10.9.3.0/24 drop")
	h.serveMixed()
	victim := h.srv1.Serve(fmt.Sprintf("10.9.1.1:%d", mixedPort+9))
	watch := h.torFRR.WatchFIB(mixedVictim)
	p := h.run(mixedConfig(0, false))
	h.WaitFor("the victim at the router", siteUp, func() bool { return len(h.torFRR.Kernel(mixedVictim)) == 1 })
	time.Sleep(time.Second)
	alone := entries(p.Pid(), "fd")
	h.reload(mixedConfig(mixedServices, false))
	h.announcedAll()
	time.Sleep(3 * time.Second) // everything that is made once is made

	length, deaths := 12*time.Second, 4
	if os.Getenv("RHID_FULL") != "" {
		length, deaths = 10*time.Minute, 10
	}
	use := h.watchUse(p, length)
	quiet := h.deaths(victim, watch, deaths)
	use.report()
	h.reload(mixedConfig(mixedServices, true))
	time.Sleep(2 * time.Second) // until all of them hang
	var hung []time.Duration
	lab.Steady(t, isoStill, func() (down []string) {
		h.announcedAll()
		hung = h.deaths(victim, watch, deaths)
		for _, v := range h.status().Services {
			if mixedDown(v) {
				down = append(down, fmt.Sprintf("%s was touched: %s, %s", v.Name, v.Verdict, v.Reason.Evidence))
			}
		}
		return down
	})
	t.Logf("death to the route's end at the router, median: %s without and %s with 60 checks that hang", ms(median(quiet)), ms(median(hung)))

	h.reload(mixedConfig(0, false))
	took := h.WaitFor("nothing being left of the checks", 2*siteUp, func() bool { return entries(p.Pid(), "fd") <= alone+2 })
	t.Logf("%s after they were taken out, %d descriptors are open; there were %d before", took.Round(time.Millisecond), entries(p.Pid(), "fd"), alone)
}

// announcedAll waits until all services are announced, but for those that hang. A
// busy machine may lose probes while all begin at once, and a window of five takes
// 15 s to forget that.
func (h *healthLab) announcedAll() {
	h.t.Helper()
	h.WaitFor("all services announced", 3*siteUp, func() bool {
		all := h.status().Services
		return len(all) > mixedServices && !slices.ContainsFunc(all, mixedDown)
	})
}

// mixedDown says whether one of the hundred services is not announced.
func mixedDown(v control.Service) bool {
	return strings.HasPrefix(v.Name, "svc-") && v.Verdict.String() != "announce"
}

// reload has the daemon take over another configuration.
func (h *healthLab) reload(config string) {
	h.t.Helper()
	since := h.lastEvent()
	h.configure(config)
	h.lb.SignalAll("rhid", 1) // SIGHUP
	h.waitEvent(since, "daemon", "reloaded", siteUp)
}

// deaths has the victim die and return, and measures each death. Where the machine
// stood still meanwhile, one that took too long does not count.
func (h *healthLab) deaths(victim *lab.Server, watch *lab.FIBWatch, n int) []time.Duration {
	h.t.Helper()
	var out []time.Duration
	for range n {
		lab.Steady(h.t, isoStill, func() (misses []string) {
			watch.Reset()
			died := time.Now()
			victim.Stop()
			took := watch.Wait("the victim's withdraw", siteUp, isDelete).At.Sub(died)
			victim.Resume()
			watch.Wait("the victim's return", siteUp, func(e lab.FIBEvent) bool { return e.Kind != lab.FIBDelete })
			time.Sleep(170 * time.Millisecond) // no strobe effect
			if took > mixedLimit {
				return []string{fmt.Sprintf("a death was seen after %v, limit interval × fall + timeout + FRR's own time = %v", took, mixedLimit)}
			}
			out = append(out, took)
			return nil
		})
	}
	return out
}

// usage is what the daemon uses over time.
type usage struct {
	h      *healthLab
	length time.Duration
	done   chan struct{}

	at                  []time.Time
	rss, files, threads []int
	cpu                 []time.Duration
	err                 error
}

// watchUse watches for so long what the daemon uses.
func (h *healthLab) watchUse(p *lab.Proc, length time.Duration) *usage {
	u := &usage{h: h, length: length, done: make(chan struct{})}
	go func() {
		defer close(u.done)
		tick := time.NewTicker(max(300*time.Millisecond, length/600))
		defer tick.Stop()
		for end := time.Now().Add(length); u.err == nil && time.Now().Before(end); <-tick.C {
			u.take(p.Pid())
		}
	}()
	return u
}

func (u *usage) take(pid int) {
	rss, err := residentKiB(pid)
	cpu, cerr := cpuOf(pid)
	u.err = errors.Join(err, cerr)
	u.at, u.cpu, u.rss = append(u.at, time.Now()), append(u.cpu, cpu), append(u.rss, rss)
	u.files, u.threads = append(u.files, entries(pid, "fd")), append(u.threads, entries(pid, "task"))
}

// report waits for the end, and fails the test when the daemon uses more in the
// last third of the time than in the first. Of memory and descriptors the least
// counts, which has what leaks and the fewest probes under way.
func (u *usage) report() {
	t := u.h.t
	t.Helper()
	<-u.done
	third := len(u.at) / 3
	if u.err != nil || third == 0 {
		t.Fatalf("what rhid uses: %v, %d times", u.err, len(u.at))
	}
	share := func(from, to int) float64 {
		return 100 * float64(u.cpu[to]-u.cpu[from]) / float64(u.at[to].Sub(u.at[from]))
	}
	ends := func(all []int) (first, last int) { return slices.Min(all[:third]), slices.Min(all[len(all)-third:]) }
	cpu, cpuEnd := share(0, third), share(len(u.at)-1-third, len(u.at)-1)
	t.Logf("1,000 checks of 12 types over %s: CPU %.1f %% of a core in the first third, %.1f %% in the last", u.length, cpu, cpuEnd)
	rss, rssEnd := ends(u.rss)
	files, filesEnd := ends(u.files)
	threads, threadsEnd := ends(u.threads)
	t.Logf("resident memory at least %.1f MiB, then %.1f MiB; descriptors %d, then %d (at most %d); threads %d, then %d",
		float64(rss)/1024, float64(rssEnd)/1024, files, filesEnd, slices.Max(u.files), threads, threadsEnd)
	if cpuEnd > 1.5*cpu+5 {
		t.Errorf("CPU grows from %.1f %% to %.1f %%", cpu, cpuEnd)
	}
	if filesEnd > files+files/5+5 {
		t.Errorf("open descriptors grow from %d to %d", files, filesEnd)
	}
	if rssEnd > rss+rss/5 {
		t.Errorf("memory grows from %d to %d KiB", rss, rssEnd)
	}
	// How many probes are under way depends on how busy the machine is, and so
	// do descriptors; what of them leaks shows when the checks are gone.
}

// residentKiB is the memory that a process has.
func residentKiB(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			return strconv.Atoi(strings.Fields(rest)[0])
		}
	}
	return 0, errors.New("no VmRSS")
}

// cpuOf is the time that a process has used, without its children.
func cpuOf(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	f := strings.Fields(rest)
	var ticks time.Duration
	for _, i := range []int{11, 12} { // utime, stime: proc(5)
		n, err := strconv.Atoi(f[i])
		if err != nil {
			return 0, err
		}
		ticks += time.Duration(n)
	}
	return ticks * 10 * time.Millisecond, nil // USER_HZ is 100
}
