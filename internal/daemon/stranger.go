package daemon

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"rhid/announce/bgp"
	"rhid/internal/control"
)

// strangerEvery is how often the routers' other routes are looked at. It moves
// nothing, so it need not be quick.
const strangerEvery = time.Second

// strangerKey names a route of somebody else.
type strangerKey struct {
	prefix netip.Prefix
	router string // its address
}

// strangers are the routes in the routers that are none of the cluster's and
// have addresses in common with a VIP: a hijack, a twin that is configured apart,
// or a summary that draws traffic elsewhere when the VIP is withdrawn.
type strangers struct {
	alarms map[strangerKey]control.Alarm
	passes map[string]bool // routers that have sent back a community of the cluster
	due    time.Time
}

func newStrangers() *strangers {
	return &strangers{alarms: map[strangerKey]control.Alarm{}, passes: map[string]bool{}}
}

// watchStrangers reports such routes that are new, and those that are gone.
func (l *loop) watchStrangers(now time.Time) {
	if l.d.speaker == nil || now.Before(l.strangers.due) {
		return
	}
	l.strangers.due = now.Add(strangerEvery)
	found := l.strangers.find(l.m, l.d.speaker.Sightings(), l.d.speaker.Overlaps())
	for key, a := range found {
		if old, known := l.strangers.alarms[key]; known && old.Detail == a.Detail {
			a.Since = old.Since
		} else {
			a.Since = now
			l.journal.add(control.Event{Time: now, Kind: "route", Subject: key.prefix.String(), What: "stranger", Code: a.Code, Detail: a.Detail})
		}
		found[key] = a
	}
	for key, a := range l.strangers.alarms {
		if _, still := found[key]; !still {
			l.journal.add(control.Event{Time: now, Kind: "route", Subject: key.prefix.String(), What: "stranger gone", Code: a.Code, Detail: "no longer seen at " + l.m.routerName(key.router)})
		}
	}
	l.strangers.alarms = found
}

// find goes through what the routers sent.
func (x *strangers) find(m *model, vips, others map[netip.Prefix][]bgp.Sighting) map[strangerKey]control.Alarm {
	for _, list := range vips {
		for _, st := range list {
			if st.Here && m.ours(st) {
				x.passes[st.Neighbour] = true
			}
		}
	}
	out := map[strangerKey]control.Alarm{}
	for p, list := range vips {
		for _, st := range list {
			if st.Here && !m.ours(st) && !x.stripped(m, st) {
				out[strangerKey{p, st.Neighbour}] = control.Alarm{Code: "vip-stranger", What: p.String(), Detail: fmt.Sprintf(
					"router %s has this VIP %s without a community of the cluster: a hijack, or a twin that is configured apart", m.routerName(st.Neighbour), from(st))}
			}
		}
	}
	for p, list := range others {
		for _, st := range list {
			if m.ours(st) {
				continue
			}
			a := control.Alarm{Code: "vip-covered", What: p.String(), Detail: fmt.Sprintf(
				"router %s has %s %s, which contains %s: where the VIP is withdrawn, traffic follows it", m.routerName(st.Neighbour), p, from(st), m.vipsIn(p))}
			if inside := m.vipAround(p); inside.IsValid() {
				a = control.Alarm{Code: "vip-split", What: p.String(), Detail: fmt.Sprintf(
					"router %s has %s %s, a part of the VIP %s: it draws that part's traffic from every node", m.routerName(st.Neighbour), p, from(st), inside)}
			}
			out[strangerKey{p, st.Neighbour}] = a
		}
	}
	return out
}

// list returns the alarms, sorted.
func (x *strangers) list() []control.Alarm {
	return slices.SortedFunc(maps.Values(x.alarms), func(a, b control.Alarm) int {
		return cmp.Or(cmp.Compare(a.Code, b.Code), cmp.Compare(a.What, b.What), cmp.Compare(a.Detail, b.Detail))
	})
}

// ours says whether a route carries the community of a node of the cluster.
func (m *model) ours(st bgp.Sighting) bool {
	for _, c := range st.LargeCommunities {
		for i := range m.cfg.Nodes {
			if n := &m.cfg.Nodes[i]; c.Global == n.ASN && c.Local1 == n.ID {
				return true
			}
		}
	}
	return false
}

// stripped says whether a route may well be the cluster's own, and the network
// took its community off: it comes from the cluster's AS, and this router has
// never shown that it passes such communities on.
func (x *strangers) stripped(m *model, st bgp.Sighting) bool {
	if x.passes[st.Neighbour] {
		return false
	}
	from := m.asn // an empty path begins in the own AS
	if n := len(st.ASPath); n > 0 {
		from = st.ASPath[n-1]
	}
	for i := range m.cfg.Nodes {
		if m.cfg.Nodes[i].ASN == from {
			return true
		}
	}
	return false
}

// from says where a route comes from.
func from(st bgp.Sighting) string {
	if len(st.ASPath) == 0 {
		return "from its own AS"
	}
	words := make([]string, len(st.ASPath))
	for i, as := range st.ASPath {
		words[i] = fmt.Sprint(as)
	}
	return fmt.Sprintf("from AS %s (path %s)", words[len(words)-1], strings.Join(words, " "))
}

// vipsIn names the VIPs that a prefix contains, three at most.
func (m *model) vipsIn(p netip.Prefix) string {
	var words []string
	for _, v := range m.vips(viaBGP) {
		if p.Bits() < v.Bits() && p.Contains(v.Addr()) {
			words = append(words, v.String())
		}
	}
	if n := len(words); n > 3 {
		return fmt.Sprintf("%s and %d more", strings.Join(words[:3], ", "), n-3)
	}
	return strings.Join(words, ", ")
}

// vipAround returns the VIP that a prefix is a part of.
func (m *model) vipAround(p netip.Prefix) netip.Prefix {
	for _, v := range m.vips(viaBGP) {
		if v.Bits() < p.Bits() && v.Contains(p.Addr()) {
			return v
		}
	}
	return netip.Prefix{}
}

// routerName is a router's name by its address, with the address where that
// is another.
func (m *model) routerName(address string) string {
	for _, r := range m.routers {
		if r.place == address && r.conf.Name != address {
			return r.conf.Name + " (" + address + ")"
		}
	}
	return address
}
