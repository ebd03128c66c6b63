package routerconf

import "net/netip"

// ciscoBGP is a router with Cisco IOS or IOS XE.
func ciscoBGP(t *text, r router) {
	four, six := r.carried()
	t.line("! Router %s (Cisco IOS XE): BGP with rhid. It takes the VIPs and gives them back,", r.name)
	t.line("! and nothing else. No graceful restart, or a VIP whose host has died stays.")
	for i, p := range four {
		t.line("ip prefix-list RHID-VIPS seq %d permit %s", 5*(i+1), p)
	}
	for i, p := range six {
		t.line("ipv6 prefix-list RHID-VIPS6 seq %d permit %s", 5*(i+1), p)
	}
	t.line("!\nrouter bgp %d\n no bgp graceful-restart\n no bgp default ipv4-unicast", r.asn)
	for _, s := range r.sessions {
		ciscoNeighbour(t, s)
	}
	for _, f := range []struct {
		name, list string
		vips       int
	}{{"ipv4", "RHID-VIPS", len(four)}, {"ipv6", "RHID-VIPS6", len(six)}} {
		if f.vips == 0 {
			continue
		}
		t.line(" address-family %s", f.name)
		for _, s := range r.sessions {
			if hasFour, hasSix := s.families(); f.name == "ipv4" && !hasFour || f.name == "ipv6" && !hasSix {
				continue
			}
			t.line("  neighbor %s activate", s.address)
			t.line("  neighbor %s advertisement-interval 0", s.address)
			t.line("  neighbor %s prefix-list %s in\n  neighbor %s prefix-list %s out", s.address, f.list, s.address, f.list)
			t.line("  neighbor %s maximum-prefix %d", s.address, prefixLimit(f.vips))
		}
		t.line(" exit-address-family")
	}
	t.line("!")
}

func ciscoNeighbour(t *text, s session) {
	a, r := s.address, s.router
	t.line(" neighbor %s remote-as %d\n neighbor %s description rhid on %s", a, s.asn, a, s.node)
	t.line(" neighbor %s timers %d %d", a, seconds(r.Keepalive), seconds(r.Hold))
	if b := r.BFD; b != nil {
		t.line(" neighbor %s fall-over bfd", a)
		t.line(" ! and at the interface: bfd interval %d min_rx %d multiplier %d", milliseconds(b.Interval), milliseconds(b.Interval), b.Multiplier)
	}
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
}

// huaweiBGP is a router with Huawei VRP.
func huaweiBGP(t *text, r router) {
	four, six := r.carried()
	t.line("# Router %s (Huawei VRP): BGP with rhid. It takes the VIPs and gives them back,", r.name)
	t.line("# and nothing else. No graceful restart, or a VIP whose host has died stays.")
	huaweiLists(t, "ip ip-prefix RHID-VIPS", four)
	huaweiLists(t, "ip ipv6-prefix RHID-VIPS6", six)
	t.line("#\nbgp %d\n undo default ipv4-unicast", r.asn)
	for _, s := range r.sessions {
		huaweiNeighbour(t, s)
	}
	for _, f := range []struct {
		name, filter string
		vips         int
	}{{"ipv4", "ip-prefix RHID-VIPS", len(four)}, {"ipv6", "ipv6-prefix RHID-VIPS6", len(six)}} {
		if f.vips == 0 {
			continue
		}
		t.line(" %s-family unicast", f.name)
		for _, s := range r.sessions {
			if hasFour, hasSix := s.families(); f.name == "ipv4" && !hasFour || f.name == "ipv6" && !hasSix {
				continue
			}
			t.line("  peer %s enable\n  peer %s route-update-interval 0", s.address, s.address)
			t.line("  peer %s %s import\n  peer %s %s export", s.address, f.filter, s.address, f.filter)
			t.line("  peer %s route-limit %d", s.address, prefixLimit(f.vips))
			t.line("  peer %s advertise-community\n  peer %s advertise-large-community", s.address, s.address)
		}
	}
	t.line("#")
}

func huaweiLists(t *text, command string, vips []netip.Prefix) {
	for i, p := range vips {
		t.line("%s index %d permit %s %d", command, 10*(i+1), p.Addr(), p.Bits())
	}
}

func huaweiNeighbour(t *text, s session) {
	a, r := s.address, s.router
	t.line(" peer %s as-number %d\n peer %s description rhid on %s", a, s.asn, a, s.node)
	t.line(" peer %s timer keepalive %d hold %d\n peer %s timer connect-retry 1", a, seconds(r.Keepalive), seconds(r.Hold), a)
	if b := r.BFD; b != nil {
		t.line(" peer %s bfd min-tx-interval %d min-rx-interval %d detect-multiplier %d", a, milliseconds(b.Interval), milliseconds(b.Interval), b.Multiplier)
		t.line(" peer %s bfd enable", a)
	}
	switch {
	case r.TTLSecurity:
		t.line(" peer %s valid-ttl-hops 1", a)
	case r.Multihop > 0:
		t.line(" peer %s ebgp-max-hop %d", a, r.Multihop)
	}
	switch {
	case s.password != "":
		t.line(" peer %s password cipher %s", a, s.password)
	case s.hasPassword():
		t.line(" # peer %s password cipher %s", a, s.passwordIs())
	}
}
