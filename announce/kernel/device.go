package kernel

import (
	"fmt"

	"rhid/announce"
)

// The devices of the tiers are for FRR before 9.0, whose ospf6d tells IPv6 routes
// apart by nothing but their prefix and their device. No packet is sent there:
// while the VIP is local, its local route comes first.

// device is an interface by its name; the index is 0 when it is not there.
type device struct {
	name  string
	index int
	up    bool // and has a carrier, without which FRR would not take its routes
}

// tierDevices looks at the devices of the tiers, nil where there are none.
func (w *World) tierDevices(c *conf) ([]device, error) {
	if c.NextHop != NextHopTier {
		return nil, nil
	}
	var out []device
	for _, name := range c.Devices {
		d, err := w.stack.device(name)
		if err != nil {
			return nil, fmt.Errorf("tiers: %w", err)
		}
		out = append(out, d)
	}
	return out, nil
}

// wanted returns the route that r asks for, or why its device cannot take it.
func (w *World) wanted(c *conf, r announce.Route) (route, error) {
	devices, err := w.tierDevices(c)
	if err != nil {
		return route{}, err
	}
	if c.onDevices(r.Prefix) {
		switch d := devices[c.place(r.Attrs.Rank)]; {
		case d.index == 0:
			return route{}, fmt.Errorf("there is no tier device %s", d.name)
		case !d.up:
			return route{}, fmt.Errorf("tier device %s is down or has no carrier", d.name)
		}
	}
	return c.announcement(r, devices), nil
}
