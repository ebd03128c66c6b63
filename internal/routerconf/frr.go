package routerconf

import "net/netip"

// frrBGP is a router that runs FRR. Graceful restart is off because the default,
// to help, keeps a VIP whose host has died; coalesce-time is 0 because FRR 8.4 can
// lose a withdrawal while it gathers updates for a new neighbour.
func frrBGP(t *text, r router) {
	four, six := r.carried()
	t.line("! Router %s (FRR): BGP with rhid. It takes the VIPs and gives them back, and", r.name)
	t.line("! nothing else. Lines for its other neighbours belong beside these.")
	frrLists(t, four, six)
	t.line("!\nrouter bgp %d", r.asn)
	t.line(" bgp graceful-restart-disable")
	t.line(" coalesce-time 0")
	t.line(" no bgp default ipv4-unicast")
	if !sameASN(r.sessions) {
		t.line(" bgp always-compare-med")
	}
	for _, s := range r.sessions {
		frrNeighbour(t, s)
	}
	frrFamily(t, r, "ipv4", len(four))
	frrFamily(t, r, "ipv6", len(six))
	t.line("!")
}

func sameASN(ss []session) bool {
	for _, s := range ss {
		if s.asn != ss[0].asn {
			return false
		}
	}
	return true
}

func frrLists(t *text, four, six []netip.Prefix) {
	t.line("!")
	for i, p := range four {
		t.line("ip prefix-list RHID-VIPS seq %d permit %s", 5*(i+1), p)
	}
	for i, p := range six {
		t.line("ipv6 prefix-list RHID-VIPS6 seq %d permit %s", 5*(i+1), p)
	}
	t.line("!")
	if len(four) > 0 {
		t.line("route-map RHID-VIPS permit 10\n match ip address prefix-list RHID-VIPS")
	}
	if len(six) > 0 {
		t.line("route-map RHID-VIPS permit 20\n match ipv6 address prefix-list RHID-VIPS6")
	}
}

func frrNeighbour(t *text, s session) {
	a, r := s.address, s.router
	t.line(" neighbor %s remote-as %d", a, s.asn)
	t.line(" neighbor %s description rhid on %s", a, s.node)
	t.line(" neighbor %s timers %d %d", a, seconds(r.Keepalive), seconds(r.Hold))
	t.line(" neighbor %s timers connect 1", a)
	t.line(" neighbor %s advertisement-interval 0", a)
	switch {
	case r.TTLSecurity:
		t.line(" neighbor %s ttl-security hops 1", a)
	case r.Multihop > 0:
		t.line(" neighbor %s ebgp-multihop %d", a, r.Multihop)
	}
	switch {
	case s.password != "":
		t.line(" neighbor %s password %s", a, s.password)
	case s.hasPassword():
		t.line(" ! neighbor %s password %s", a, s.passwordIs())
	}
	if b := r.BFD; b != nil { // bfdd must run: bfdd=yes in /etc/frr/daemons
		t.line(" neighbor %s bfd %d %d %d", a, b.Multiplier, milliseconds(b.Interval), milliseconds(b.Interval))
	}
	if s.extended() {
		t.line(" neighbor %s capability extended-nexthop", a)
	}
}

func frrFamily(t *text, r router, family string, vips int) {
	if vips == 0 {
		return
	}
	t.line(" address-family %s unicast", family)
	for _, s := range r.sessions {
		if four, six := s.families(); family == "ipv4" && !four || family == "ipv6" && !six {
			continue
		}
		t.line("  neighbor %s activate", s.address)
		t.line("  neighbor %s route-map RHID-VIPS in", s.address)
		t.line("  neighbor %s route-map RHID-VIPS out", s.address)
		t.line("  neighbor %s maximum-prefix %d", s.address, prefixLimit(vips))
	}
	t.line(" exit-address-family")
}
