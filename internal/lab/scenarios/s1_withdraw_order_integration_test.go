//go:build integration

package scenarios

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rhid/internal/lab"
)

const (
	s1Runs    = 20
	s1Traffic = 400 * time.Millisecond // of undisturbed traffic before the pool dies
	s1Streams = 2                      // for each VIP
	s1Every   = 20 * time.Millisecond  // between two new connections to each VIP
	s1Limit   = 30 * time.Second       // of each step of a withdraw
	s1Jitter  = 20 * time.Millisecond  // until rhid knows of what it did
)

// TestS1WithdrawOrder kills the pools of services under traffic, 20 times for
// each backend, and looks at the order: first the withdraw leaves, then the
// routers change their tables, and only after that the VIP goes. Until the
// routers send no more traffic, nothing is refused.
func TestS1WithdrawOrder(t *testing.T) {
	// Two services of each backend at a time, and the others the next time, so
	// that these come back to their routers meanwhile.
	turns := [2][]*bankService{
		{
			{name: "bgp-a", via: "bgp", number: 30}, {name: "bgp-b", via: "bgp", number: 31},
			{name: "kernel-a", via: "kernel", number: 40}, {name: "kernel-b", via: "kernel", number: 41},
		},
		{
			{name: "bgp-c", via: "bgp", number: 32}, {name: "bgp-d", via: "bgp", number: 33},
			{name: "kernel-c", via: "kernel", number: 42}, {name: "kernel-d", via: "kernel", number: 43},
		},
	}
	b := startBank(startSite(t, lab.Options{}), slices.Concat(turns[0], turns[1])...)
	s := &s1{bank: b, wire: b.lb.Capture(""), figures: map[string]spread{}}
	good := map[string]int{}
	for i := range s1Runs / 2 {
		for _, r := range s.run(i+1, turns[i%2]) {
			if r.ok {
				good[r.svc.via]++
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.figures)) {
		t.Logf("%-42s %v", name, s.figures[name])
	}
	t.Logf("in order: bgp %d of %d runs, kernel %d of %d runs", good["bgp"], s1Runs, good["kernel"], s1Runs)
	if good["bgp"] != s1Runs || good["kernel"] != s1Runs {
		t.Errorf("not every run was in order")
	}
}

type s1 struct {
	*bank
	wire    *lab.Capture
	figures map[string]spread
}

// s1Run is one withdraw of one service under traffic.
type s1Run struct {
	svc     *bankService
	died    time.Time // the pool
	ok      bool
	streams map[string]*lab.Streams
	probers map[string]*lab.Prober
}

// s1Order is when what happened to one VIP.
type s1Order struct {
	left     map[string]time.Time // the withdraw, towards each router
	fib      map[string]time.Time // the route's end in each router, and at the branch
	first    time.Time            // of left
	released time.Time            // the withdraw was over for rhid
	change   time.Time            // the first change in any router's table
	last     time.Time            // of fib
	gone     time.Time            // the VIP is no longer local
}

// run kills the pools of the services at once, each with traffic to its VIPs.
func (s *s1) run(number int, services []*bankService) []*s1Run {
	s.t.Helper()
	var runs []*s1Run
	for _, svc := range services {
		s.waitAnnounced(svc)
		runs = append(runs, s.traffic(svc))
	}
	time.Sleep(s1Traffic)
	s.wire.Reset()
	for _, r := range runs {
		s.forget(r.svc)
	}
	for _, r := range runs {
		r.died = time.Now()
		r.svc.health.Stop()
	}
	for _, r := range runs {
		r.ok = true
		for _, vip := range r.svc.vips() {
			r.ok = s.judge(number, r, vip, s.order(r.svc, vip)) && r.ok
		}
	}
	s.rest(runs)
	return runs
}

// traffic opens long streams to the service's VIPs and connects anew all the time.
func (s *s1) traffic(svc *bankService) *s1Run {
	s.t.Helper()
	r := &s1Run{svc: svc, streams: map[string]*lab.Streams{}, probers: map[string]*lab.Prober{}}
	for _, vip := range svc.vips() {
		r.streams[vip] = s.client.LongStreams(bankAddr(vip), s1Streams)
		r.probers[vip] = s.client.Probe(bankAddr(vip), s1Every)
	}
	return r
}

// rest ends the traffic, also in the kernels, which would go on trying to end
// the streams in order when the VIP is back, and lets the pools live.
func (s *s1) rest(runs []*s1Run) {
	s.t.Helper()
	var ending sync.WaitGroup
	for _, r := range runs {
		for _, vip := range r.svc.vips() {
			ending.Go(func() { r.streams[vip].Close() })
			ending.Go(func() { r.probers[vip].Stop() })
		}
	}
	ending.Wait()
	s.client.ResetTCP(bankPort)
	s.lb.ResetTCP(bankPort)
	for _, r := range runs {
		r.svc.health.Resume()
	}
}

// order waits for every step of a VIP's withdraw. It takes the last step first:
// by then the others must have been seen.
func (s *s1) order(svc *bankService, vip string) s1Order {
	s.t.Helper()
	o := s1Order{left: map[string]time.Time{}, fib: map[string]time.Time{}}
	host := s.watches["lb1"][vip]
	o.gone = host.Wait("no longer local", s1Limit, isLocalGone).At
	for _, w := range bankWays(svc.via) {
		left := s.wire.Wait("the withdraw of "+vip+" to "+w.router, s1Limit, w.withdraws(vip)).At
		o.left[w.router] = left
		o.first, o.released = earliest(o.first, left), latest(o.released, left)
		s.gone(&o, w.router, vip)
	}
	s.gone(&o, "branch", vip)
	if svc.via == "kernel" { // rhid is done when its own route is out
		o.released = earliest(o.first, host.Wait("no longer announced", s1Limit, isDelete).At)
	}
	return o
}

// gone notes how a node lost a VIP's route.
func (s *s1) gone(o *s1Order, node, vip string) {
	s.t.Helper()
	s.WaitFor(vip+" gone from "+node, s1Limit, func() bool { return len(s.Node(node).Kernel(vip)) == 0 })
	s.watches[node][vip].WaitGone(s1Limit)
	for _, e := range s.watches[node][vip].Events() {
		o.change = earliest(o.change, e.At)
		if isDelete(e) {
			o.fib[node] = latest(o.fib[node], e.At)
		}
	}
	o.last = latest(o.last, o.fib[node])
}

// judge compares the steps of one VIP and what the clients saw.
func (s *s1) judge(number int, r *s1Run, vip string, o s1Order) bool {
	s.t.Helper()
	var wrong []string
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	var line strings.Builder
	since := func(at time.Time) string { return ms(at.Sub(r.died)) }
	for _, w := range bankWays(r.svc.via) {
		left, fib := o.left[w.router], o.fib[w.router]
		if !left.Before(fib) {
			bad("%s lost its route %v before the withdraw left", w.router, left.Sub(fib))
		}
		fmt.Fprintf(&line, "%s: withdraw %s, FIB %s; ", w.router, since(left), since(fib))
		s.note("withdraw leaves → FIB of "+w.router, fib.Sub(left))
		s.note("FIB of "+w.router+" → address gone", o.gone.Sub(fib))
	}
	s.note("pool dies → withdraw leaves, "+r.svc.via, o.first.Sub(r.died))
	s.note("withdraw leaves → FIB of branch, "+r.svc.via, o.fib["branch"].Sub(o.first))
	s.note("withdraw over for rhid → address gone, "+r.svc.via, o.gone.Sub(o.released))
	if o.change.Before(o.first) {
		bad("a router's table changed %v before the first withdraw left", o.first.Sub(o.change))
	}
	if !o.last.Before(o.gone) {
		bad("the VIP went %v before the last router had lost its route", o.last.Sub(o.gone))
	}
	if kept := o.gone.Sub(o.released); kept < bankLinger-s1Jitter {
		bad("the VIP stayed for %v after the withdraw instead of %v", kept, bankLinger)
	}
	wrong = append(wrong, s.refusals(r, vip, o)...)
	wrong = append(wrong, r.clients(vip, o)...)
	s.t.Logf("run %d %s %s: %sFIB of branch %s, address gone %s", number, r.svc.name, vip, line.String(), since(o.fib["branch"]), since(o.gone))
	for _, w := range wrong {
		s.t.Errorf("run %d %s %s: %s", number, r.svc.name, vip, w)
	}
	return len(wrong) == 0
}

func (s *s1) note(name string, d time.Duration) { s.figures[name] = append(s.figures[name], d) }

// refusals are resets of connections to the VIP and ICMP unreachables on the
// host's links to the routers, as long as the VIP was there. A connection that
// had its answer is over: when the client repeats its last ACK, TCP answers
// that with a reset, which nobody notices.
func (s *s1) refusals(r *s1Run, vip string, o s1Order) []string {
	s.t.Helper()
	over := map[netip.AddrPort]bool{}
	for _, a := range r.probers[vip].Attempts() {
		over[a.Local] = a.Error == ""
	}
	var out []string
	for _, e := range s.wire.Events(func(e lab.Event) bool { return e.Iface != "eth5" && e.Iface != "lo" && e.At.Before(o.gone) }) {
		to := netip.MustParseAddrPort(bankAddr(vip))
		reset := e.Kind == lab.TCPReset && (e.Src == to && !over[e.Dst] || e.Dst == to && !over[e.Src])
		if reset || e.Kind == lab.Unreachable {
			out = append(out, fmt.Sprintf("%s %v before the address went, at %s (sent %v, %v to %v)", e.Kind, o.gone.Sub(e.At), e.Iface, e.Sent, e.Src, e.Dst))
		}
	}
	return out
}

// clients are failures that the clients saw: any before the first withdraw left,
// and refusals as long as the VIP was there. What a client lacks between the
// withdraw and the routers' change would be seen as a refusal; it is not compared
// with the time of that change, which this process may be told of later than of
// what came of it.
func (r *s1Run) clients(vip string, o s1Order) []string {
	var out []string
	for _, brk := range r.streams[vip].Breaks() {
		if brk.At.Before(o.first) || brk.At.Before(o.gone) && brk.Kind == lab.ConnReset {
			out = append(out, fmt.Sprintf("a stream broke (%s) %v after the withdraw left", brk.Kind, brk.At.Sub(o.first)))
		}
	}
	ok := 0
	for _, a := range r.probers[vip].Attempts() {
		end := a.Start.Add(a.Took)
		switch {
		case a.Error == "" && end.Before(o.first):
			ok++
		case a.Error == "":
		case end.Before(o.first), end.Before(o.gone) && (a.Error == lab.ConnReset || a.Error == lab.ConnRefused):
			out = append(out, fmt.Sprintf("a new connection failed (%s) %v after the withdraw left", a.Error, end.Sub(o.first)))
		}
	}
	if ok == 0 {
		out = append(out, "no new connection was made before the withdraw")
	}
	return out
}
