package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"rhid/announce/bgp/ra"
	"rhid/internal/control"
)

// heard is a router that was found at an interface.
type heard struct {
	iface   string
	address netip.Addr
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
	found := maps.Clone(l.m.found)
	if found == nil {
		found = map[string]netip.Addr{}
	}
	found[h.iface] = h.address
	ev := control.Event{Time: now, Kind: "neighbour", Subject: h.iface, What: "found", Detail: "router advertisement from " + h.address.String()}
	m, err := newModel(l.m.cfg, l.d.opts.Node, found)
	if err == nil {
		wide := merged(l.widest(), m)
		if err = l.d.configure(wide); err == nil {
			l.adopt(m, l.loaded)
			l.wide = wide
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

// unheard are the routers that nothing was heard of.
func (l *loop) unheard(now time.Time) ([]control.Neighbour, []control.Alarm) {
	var out []control.Neighbour
	var alarms []control.Alarm
	for _, r := range l.m.unheard {
		why := "no router advertisement was heard on " + r.Interface
		out = append(out, control.Neighbour{Name: r.Name, ASN: r.ASN, State: "idle", Since: l.loaded, Why: why, Families: []string{}, MaxReceived: r.MaxPrefixes})
		if now.Sub(l.loaded) >= alarmAfter {
			alarms = append(alarms, control.Alarm{Code: "neighbour-down", What: r.Name, Since: l.loaded, Detail: why})
		}
	}
	return out, alarms
}
