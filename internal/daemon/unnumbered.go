package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"rhid/announce/bgp/ra"
	"rhid/internal/config"
	"rhid/internal/control"
)

// heard is a router that was found at an interface.
type heard struct {
	iface   string
	address netip.Addr
}

// unheard is a router known by an interface that is no neighbour, and why.
type unheard struct {
	config.Router

	why string
}

// meeting returns the address of the router at an interface, or why it cannot be
// a neighbour. Of two with the same link-local address the first that was found
// is one: GoBGP's export policy knows the address without the interface, so it
// would tell both the same, with the next hop of one of them.
func (m *model) meeting(iface string) (netip.Addr, string) {
	at := m.foundAt(iface)
	if at < 0 {
		return netip.Addr{}, "no router advertisement was heard on " + iface
	}
	address := m.found[at].address
	for _, r := range m.cfg.RoutersOf(m.self.Name) {
		other := r.Address
		if r.Interface != "" {
			o := m.foundAt(r.Interface)
			if o < 0 || o >= at {
				continue // it is the same one, or the second of two
			}
			other = m.found[o].address
		}
		if other.WithZone("") == address.WithZone("") {
			return netip.Addr{}, fmt.Sprintf("the router at %s has the same link-local address as router %s (%s), and rhid cannot tell the two apart; give one of them another", address, r.Name, other)
		}
	}
	return address, ""
}

// foundAt is the place of the router at an interface among those found, -1 for
// none.
func (m *model) foundAt(iface string) int {
	return slices.IndexFunc(m.found, func(h heard) bool { return h.iface == iface })
}

// interfaces are those at which unnumbered routers are.
func (m *model) interfaces() []string {
	var out []string
	for _, r := range m.cfg.RoutersOf(m.self.Name) {
		if r.Interface != "" {
			out = append(out, r.Interface)
		}
	}
	slices.Sort(out)
	return out
}

// findRouters looks for the routers at interfaces until ctx ends.
func (d *Daemon) findRouters(ctx context.Context, interfaces []string) error {
	var wg sync.WaitGroup
	for _, name := range interfaces {
		wg.Go(func() {
			ra.Watch(ctx, name, d.log, func(a netip.Addr) {
				select {
				case d.loop.heard <- heard{name, a}:
				case <-ctx.Done():
				}
			})
		})
	}
	wg.Wait()
	return nil
}

// meet makes a router that was found a neighbour, in the place of one that was
// at its interface before.
func (l *loop) meet(h heard, now time.Time) {
	found := slices.DeleteFunc(slices.Clone(l.m.found), func(o heard) bool { return o.iface == h.iface })
	found = append(found, h)
	ev := control.Event{Time: now, Kind: "neighbour", Subject: h.iface, What: "found", Detail: "router advertisement from " + h.address.String()}
	m, err := newModel(l.m.cfg, l.d.opts.Node, found)
	if err == nil {
		wide := merged(l.widest(), m)
		if err = l.d.configure(wide); err == nil {
			l.adopt(m, l.loaded)
			l.wide = wide
			if _, why := m.meeting(h.iface); why != "" {
				ev.What, ev.Code, ev.Detail = "found and refused", "config", fmt.Sprintf("%s: %s", ev.Detail, why)
			}
		} else {
			err = errors.Join(err, l.d.configure(l.widest()))
		}
	}
	if err != nil {
		ev.What, ev.Code, ev.Detail = "found and refused", "config", fmt.Sprintf("%s: %v", ev.Detail, err)
	}
	l.journal.add(ev)
	l.decide(now)
}

// unheard are the routers that nothing was heard of, or that are refused.
func (l *loop) unheard(now time.Time) ([]control.Neighbour, []control.Alarm) {
	var out []control.Neighbour
	var alarms []control.Alarm
	for _, r := range l.m.unheard {
		out = append(out, control.Neighbour{Name: r.Name, ASN: r.ASN, State: "idle", Since: l.loaded, Why: r.why, Families: []string{}, MaxReceived: r.MaxPrefixes})
		if now.Sub(l.loaded) >= alarmAfter {
			alarms = append(alarms, control.Alarm{Code: "neighbour-down", What: r.Name, Since: l.loaded, Detail: r.why})
		}
	}
	return out, alarms
}
