//go:build integration

package twodc

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"rhid/internal/lab"
)

const bgpPort = 179

// moment is who holds a service from a time on: "a1", "a1+b1", or "-".
type moment struct {
	at      time.Time
	holders string
}

// fibJournal is who the core routers lead to for one VIP, from their kernels: at
// most one host of each data centre, the one whose route is in use.
type fibJournal struct {
	vip     string
	cores   [2]*lab.Node
	watches [2]*lab.FIBWatch
	first   [2]string // at the beginning
	began   time.Time
}

// reset begins the journal anew with what is now.
func (j *fibJournal) reset() {
	j.began = time.Now()
	for i, w := range j.watches {
		w.Reset()
		j.first[i] = ""
		for _, r := range j.cores[i].Kernel(j.vip) {
			j.first[i] = hostAt(r.Via.String())
		}
	}
}

// moments are the changes since reset, the state at reset first.
func (j *fibJournal) moments() []moment {
	type change struct {
		lab.FIBEvent
		core int
	}
	var all []change
	for i, w := range j.watches {
		for _, e := range w.Events() {
			if len(e.Hops) > 0 && e.Hops[0].Table == unix.RT_TABLE_MAIN {
				all = append(all, change{e, i})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b change) int { return a.At.Compare(b.At) })
	state := j.first
	out := []moment{{j.began, join(state[:])}}
	for _, c := range all {
		state[c.core] = ""
		if c.Kind != lab.FIBDelete {
			state[c.core] = hostAt(c.Hops[0].Via.String())
		}
		if now := join(state[:]); now != out[len(out)-1].holders {
			out = append(out, moment{c.At, now})
		}
	}
	return out
}

func join(hosts []string) string {
	hosts = slices.DeleteFunc(slices.Clone(hosts), func(s string) bool { return s == "" })
	if len(hosts) == 0 {
		return "-"
	}
	slices.Sort(hosts)
	return strings.Join(hosts, "+")
}

// sequence is the holders in order, in words.
func sequence(all []moment) string {
	var out []string
	for _, m := range all {
		out = append(out, m.holders)
	}
	return strings.Join(out, " ")
}

func (j *fibJournal) String() string { return timed(j.began, j.moments()) }

func timed(began time.Time, all []moment) string {
	var out []string
	for _, m := range all {
		out = append(out, fmt.Sprintf("%s@%.3fs", m.holders, m.at.Sub(began).Seconds()))
	}
	return strings.Join(out, " ")
}

func (j *fibJournal) now() string {
	all := j.moments()
	return all[len(all)-1].holders
}

// wireJournal is who announces one VIP to its core router, from the BGP messages
// that reach the cores, and the ends of sessions.
type wireJournal struct {
	vip      string
	captures map[string]*lab.Capture // by host, shared with the other services

	mu    sync.Mutex
	first map[string]bool           // at the beginning
	conns map[string]netip.AddrPort // of the hosts' last announcements until then
	ends  []moment                  // sessions that a kill ended
	began time.Time
}

// reset begins the journal anew at a time, of which the captures must have
// caught up.
func (j *wireJournal) reset(at time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	_, j.first, j.conns = j.fold(at)
	j.ends = slices.DeleteFunc(j.ends, func(m moment) bool { return m.at.Before(at) })
	j.began = at
}

func (j *wireJournal) ended(host string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ends = append(j.ends, moment{time.Now(), host})
}

// saying is one thing on a host's session: it announces the VIP, or does not, or
// the session ends.
type saying struct {
	at   time.Time
	host string
	conn netip.AddrPort // the router's side of it where the router dialled; zero: all
	on   bool
}

func (j *wireJournal) sayings() []saying {
	var all []saying
	for host, c := range j.captures {
		c.Events(func(e lab.Event) bool {
			conn := e.Src // the end that is not the well-known port tells sessions apart
			if conn.Port() == bgpPort {
				conn = e.Dst
			}
			switch {
			case e.At.Before(j.began):
			case e.Kind == lab.BGPNotification:
				all = append(all, saying{e.At, host, conn, false})
			case e.Kind != lab.BGPUpdate || e.Sent:
			case e.Announces(j.vip):
				all = append(all, saying{e.At, host, conn, true})
			case e.Withdraws(j.vip):
				all = append(all, saying{e.At, host, conn, false})
			}
			return false
		})
	}
	for _, e := range j.ends {
		all = append(all, saying{at: e.at, host: e.holders})
	}
	slices.SortStableFunc(all, func(a, b saying) int { return a.at.Compare(b.at) })
	return all
}

// moments are the sets of announcers since reset.
func (j *wireJournal) moments() []moment {
	j.mu.Lock()
	defer j.mu.Unlock()
	all, _, _ := j.fold(time.Now())
	return all
}

// fold goes through what was said until a time. A connection that loses against
// another of the same pair (RFC 4271 §6.8) ends with a NOTIFICATION, and so does
// one from before a host was cut off; that says nothing of the session that is.
func (j *wireJournal) fold(until time.Time) (all []moment, state map[string]bool, conns map[string]netip.AddrPort) {
	state, conns = map[string]bool{}, map[string]netip.AddrPort{}
	maps.Copy(state, j.first)
	maps.Copy(conns, j.conns)
	all = []moment{{j.began, announcers(state)}}
	for _, s := range j.sayings() {
		if s.at.After(until) {
			break
		}
		known, ok := conns[s.host]
		if !s.on && s.conn.IsValid() && ok && s.conn != known {
			continue
		}
		state[s.host] = s.on
		if s.on {
			conns[s.host] = s.conn
		}
		if now := announcers(state); now != all[len(all)-1].holders {
			all = append(all, moment{s.at, now})
		}
	}
	return all, state, conns
}

func (j *wireJournal) String() string {
	all := j.moments()
	return timed(all[0].at, all)
}

func announcers(state map[string]bool) string {
	var on []string
	for h, is := range state {
		if is {
			on = append(on, h)
		}
	}
	return join(on)
}

// watchRouters begins the journals, which last as long as the lab.
func (d *dc) watchRouters() {
	d.t.Helper()
	captures := map[string]*lab.Capture{}
	for _, h := range dcHosts() {
		captures[h.name] = d.Node(h.core).Capture(h.iface)
	}
	d.fib, d.wire = map[string]*fibJournal{}, map[string]*wireJournal{}
	cores := [2]*lab.Node{d.Node("core-a"), d.Node("core-b")}
	for _, s := range dcServices() {
		j := &fibJournal{vip: s.vip, cores: cores}
		for i, c := range cores {
			j.watches[i] = c.WatchFIB(s.vip)
		}
		j.reset()
		d.fib[s.name] = j
		d.wire[s.name] = &wireJournal{vip: s.vip, captures: captures, began: time.Now()}
	}
}

// ended notes that a host's session ended with its daemon.
func (d *dc) ended(host string) {
	for _, j := range d.wire {
		j.ended(host)
	}
}

// forget begins all journals anew. Nothing may be moving.
func (d *dc) forget() {
	const lag = 50 * time.Millisecond // of the captures
	at := time.Now()
	time.Sleep(lag)
	for name, j := range d.wire {
		j.reset(at)
		d.fib[name].reset()
	}
}

// waitHolder waits until the routers lead to exactly these hosts, "a1" or
// "a1+b1".
func (d *dc) waitHolder(service, want string) {
	d.t.Helper()
	d.waitHolderFor(service, want, dcUp)
}

func (d *dc) waitHolderFor(service, want string, limit time.Duration) time.Duration {
	d.t.Helper()
	return d.WaitFor(service+" at the routers from "+want+" (FIB "+d.fib[service].String()+")", limit, func() bool { return d.fib[service].now() == want })
}

// calm waits until no journal has changed for a while.
func (d *dc) calm(quiet time.Duration) {
	d.t.Helper()
	count := func() int {
		n := 0
		for name := range d.fib {
			n += len(d.fib[name].moments()) + len(d.wire[name].moments())
		}
		return n
	}
	last, since := count(), time.Now()
	d.WaitFor(fmt.Sprintf("nothing moves for %v", quiet), dcUp, func() bool {
		if n := count(); n != last {
			last, since = n, time.Now()
		}
		return time.Since(since) >= quiet
	})
}
