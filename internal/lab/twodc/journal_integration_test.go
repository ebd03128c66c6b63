//go:build integration

package twodc

import (
	"fmt"
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
	routers [4]*lab.Node // the cores, then the branches
	watches [4]*lab.FIBWatch
	led     [4]bool   // there was a route at the beginning
	first   [2]string // where the cores' led then
	began   time.Time
}

// reset begins the journal anew with what is now.
func (j *fibJournal) reset() {
	j.began = time.Now()
	j.first = [2]string{}
	for i, w := range j.watches {
		w.Reset()
		routes := j.routers[i].Kernel(j.vip)
		j.led[i] = len(routes) > 0
		if i < len(j.first) && j.led[i] {
			j.first[i] = hostAt(routes[0].Via.String())
		}
	}
}

// turns are the times since reset at which a router, a core or a branch, left the
// way it had: packets of what was under way then may have gone to two hosts.
func (j *fibJournal) turns() []time.Time {
	var all []time.Time
	for i, w := range j.watches {
		led := j.led[i]
		for _, e := range w.Events() {
			if len(e.Hops) == 0 || e.Hops[0].Table != unix.RT_TABLE_MAIN {
				continue
			}
			if led {
				all = append(all, e.At)
			}
			led = e.Kind != lab.FIBDelete
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	return all
}

// moments are the changes since reset, the state at reset first.
func (j *fibJournal) moments() []moment {
	type change struct {
		lab.FIBEvent
		core int
	}
	var all []change
	for i, w := range j.watches[:len(j.first)] {
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

// since are times since the beginning.
func (j *fibJournal) since(times []time.Time) (out []time.Duration) {
	for _, at := range times {
		out = append(out, at.Sub(j.began).Round(time.Millisecond))
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
	read  map[string]int // how many events of each capture are in said
	said  []saying       // since the lab began, in order once listen has returned
	began time.Time
}

// reset begins the journal anew. What a capture tells of later, though it was
// before, still counts as before.
func (j *wireJournal) reset() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.began = time.Now()
}

func (j *wireJournal) ended(host string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.said = append(j.said, saying{at: time.Now(), host: host})
}

// saying is one thing on a host's session: it announces the VIP, or does not, or
// the session ends.
type saying struct {
	at   time.Time
	host string
	conn netip.AddrPort // the router's side of it where the router dialled; zero: all
	on   bool
}

// listen takes in what the captures have seen meanwhile.
func (j *wireJournal) listen() {
	for host, c := range j.captures {
		events := c.Since(j.read[host])
		j.read[host] += len(events)
		for _, e := range events {
			conn := e.Src // the end that is not the well-known port tells sessions apart
			if conn.Port() == bgpPort {
				conn = e.Dst
			}
			switch {
			case e.Kind == lab.BGPNotification:
				j.said = append(j.said, saying{e.At, host, conn, false})
			case e.Kind != lab.BGPUpdate || e.Sent:
			case e.Announces(j.vip):
				j.said = append(j.said, saying{e.At, host, conn, true})
			case e.Withdraws(j.vip):
				j.said = append(j.said, saying{e.At, host, conn, false})
			}
		}
	}
	slices.SortStableFunc(j.said, func(a, b saying) int { return a.at.Compare(b.at) })
}

// moments are the sets of announcers since reset. A connection that loses
// against another of the same pair (RFC 4271 §6.8) ends with a NOTIFICATION, and
// so does one from before a host was cut off; that says nothing of the session
// that is.
func (j *wireJournal) moments() []moment {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.listen()
	state := map[string]bool{}
	conns := map[string]netip.AddrPort{} // of the hosts' last announcements
	var all []moment
	for _, s := range j.said {
		if all == nil && !s.at.Before(j.began) {
			all = []moment{{j.began, announcers(state)}}
		}
		if known, ok := conns[s.host]; !s.on && s.conn.IsValid() && ok && s.conn != known {
			continue
		}
		state[s.host] = s.on
		if s.on {
			conns[s.host] = s.conn
		}
		if now := announcers(state); len(all) > 0 && now != all[len(all)-1].holders {
			all = append(all, moment{s.at, now})
		}
	}
	if all == nil {
		all = []moment{{j.began, announcers(state)}}
	}
	return all
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
	routers := [4]*lab.Node{d.Node("core-a"), d.Node("core-b"), d.Node("branch-a"), d.Node("branch-b")}
	for _, s := range dcServices() {
		j := &fibJournal{vip: s.vip, routers: routers}
		for i, r := range routers {
			j.watches[i] = r.WatchFIB(s.vip)
		}
		j.reset()
		d.fib[s.name] = j
		d.wire[s.name] = &wireJournal{vip: s.vip, captures: captures, read: map[string]int{}, began: time.Now()}
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
	for name, j := range d.wire {
		j.reset()
		d.fib[name].reset()
	}
}
