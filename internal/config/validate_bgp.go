package config

import (
	"net/netip"
	"regexp"

	"rhid/internal/config/strict"
)

// speaker validates the bgp section.
func (v *validator) speaker() {
	b := &v.cfg.BGP
	p := strict.Path{"bgp"}
	v.asn(p.With("asn"), b.ASN)
	v.routerID(p.With("router_id"), b.RouterID)
	if b.Port == 0 {
		v.fail(p.With("port"), "0 is not a port; -1 only dials")
	}
	v.timers(p, &Router{Hold: b.Hold, Keepalive: b.Keepalive, ConnectRetry: b.ConnectRetry})
	seen := map[netip.Addr]strict.Path{}
	for i, a := range b.ListenAddresses {
		at := p.With("listen_addresses", i)
		unique(v, seen, at, a, "%s is there twice", a)
		if a.Is4In6() || a.IsMulticast() {
			v.fail(at, "%s is not an address to listen on", a)
		}
	}
}

// asn refuses numbers that no neighbour may have; 0 means not given.
func (v *validator) asn(p strict.Path, asn uint32) {
	switch asn {
	case 23456:
		v.fail(p, "23456 is AS_TRANS, which no network has (RFC 6793)")
	case 65535, 4294967295:
		v.fail(p, "%d is reserved (RFC 7300)", asn)
	}
}

func (v *validator) routerID(p strict.Path, id netip.Addr) {
	if id.IsValid() && (!id.Is4() || id.IsUnspecified()) {
		v.fail(p, "%s must be written as an IPv4 address, and not 0.0.0.0", id)
	}
}

// timers validates the timers that the speaker or a router has in the file;
// inherited ones are reported where they stand.
func (v *validator) timers(p strict.Path, r *Router) {
	hold, keepalive := p.With("hold"), p.With("keepalive")
	v.wholeSeconds(hold, r.Hold)
	v.wholeSeconds(keepalive, r.Keepalive)
	v.wholeSeconds(p.With("connect_retry"), r.ConnectRetry)
	own := v.doc.Has(hold) || v.doc.Has(keepalive)
	if own && !v.doc.Failed(hold) && r.Keepalive*2 >= r.Hold {
		v.fail(p.With("keepalive"), "%s must be shorter than half of hold %s, so that one lost keepalive does no harm", r.Keepalive, r.Hold)
	}
}

// routers validates a list of neighbours. seen has the addresses and names of
// the neighbours that the same node has already.
func (v *validator) routers(p strict.Path, routers []Router, seen *neighbours) {
	for i := range routers {
		r := &routers[i]
		at := p.With(i)
		if r.Address.IsValid() {
			unique(v, seen.addrs, at.With("address"), r.Address, "%s is a router already", r.Address)
			v.onOneLink(at.With("address"), r, seen)
		}
		if r.Interface != "" {
			unique(v, seen.names, at.With("interface"), "interface "+r.Interface, "there is a router at %s already", r.Interface)
		}
		if v.doc.Has(at.With("name")) {
			unique(v, seen.names, at.With("name"), r.Name, "%q is a router already", r.Name)
			if r.Name != r.Address.String() && r.Name != r.Interface {
				v.name(at.With("name"), r.Name)
			}
		}
		v.router(at, r)
	}
}

// onOneLink refuses two routers with the same link-local address on different
// links, which GoBGP's export policy takes for one.
func (v *validator) onOneLink(p strict.Path, r *Router, seen *neighbours) {
	bare := r.Address.WithZone("")
	switch first := seen.links[bare]; {
	case r.Address.Zone() == "":
	case first == nil:
		seen.links[bare] = r
	case first.Address != r.Address:
		v.fail(p, "router %s has the same link-local address (%s), and rhid cannot tell the two apart; give one of them another", first.Name, first.Address)
	}
}

// neighbours are the routers seen so far that one node has.
type neighbours struct {
	addrs map[netip.Addr]strict.Path
	links map[netip.Addr]*Router // by link-local address without the interface
	names map[string]strict.Path
}

func (v *validator) router(p strict.Path, r *Router) {
	v.asn(p.With("asn"), r.ASN)
	v.neighbourAddress(p.With("address"), r.Address)
	v.unnumbered(p, r)
	v.timers(p, r)
	if r.TTLSecurity && r.Multihop != 0 {
		v.fail(p.With("ttl_security"), "cannot stand together with multihop: it accepts direct neighbours only (RFC 5082)")
	}
	if r.Passive && v.cfg.BGP.Port == -1 {
		v.fail(p.With("passive"), "nobody would connect: bgp.port is -1")
	}
	if r.Families != nil && len(r.Families) == 0 {
		v.fail(p.With("families"), "must not be empty")
	}
	seen := map[string]strict.Path{}
	for i, f := range r.Families {
		unique(v, seen, p.With("families", i), f, "%s is there twice", f)
	}
	v.source(p.With("source"), r)
	v.nextHops(p, r)
	v.password(p, r)
	v.attributeTable(p.With("attributes"), r.Attributes)
	v.told(p.With("services"), r)
	v.bfd(p.With("bfd"), r)
}

// interfaceName is what Linux takes (IFNAMSIZ without the final 0).
var interfaceName = regexp.MustCompile(`^[^/:\s]{1,15}$`)

// unnumbered validates a router that is known by its interface.
func (v *validator) unnumbered(p strict.Path, r *Router) {
	if r.Interface == "" {
		if !r.Address.IsValid() && !v.doc.Has(p.With("address")) {
			v.fail(p, "has neither an address nor an interface")
		}
		return
	}
	if !interfaceName.MatchString(r.Interface) {
		v.fail(p.With("interface"), "%q is not the name of an interface", r.Interface)
	}
	for key, has := range map[string]bool{
		"address": r.Address.IsValid(), "source": r.Source.IsValid(), "multihop": r.Multihop != 0,
		"password_file": r.PasswordFile != "", "password_credential": r.PasswordCred != "",
	} {
		if has {
			v.fail(p.With(key), "cannot stand together with interface: the session is between link-local addresses")
		}
	}
}

func (v *validator) neighbourAddress(p strict.Path, a netip.Addr) {
	switch {
	case !a.IsValid():
	case a.Is4In6():
		v.fail(p, "%s must be written as the IPv4 address %s", a, a.Unmap())
	case a.IsUnspecified() || a.IsMulticast():
		v.fail(p, "%s is not the address of a host", a)
	case a.Is6() && a.IsLinkLocalUnicast() && a.Zone() == "":
		v.fail(p, "%s needs its interface; write %s%%eth0", a, a)
	}
}

func (v *validator) source(p strict.Path, r *Router) {
	switch {
	case !r.Source.IsValid() || !r.Address.IsValid():
	case r.Source.Is4In6() || r.Source.IsUnspecified() || r.Source.IsMulticast():
		v.fail(p, "%s is not the address of a host", r.Source)
	case r.Source.Is4() != r.Address.Is4():
		v.fail(p, "%s is not of the same address family as the router %s", r.Source, r.Address)
	}
}

func (v *validator) nextHops(p strict.Path, r *Router) {
	for key, a := range map[string]netip.Addr{"next_hop": r.NextHop, "next_hop6": r.NextHop6} {
		switch {
		case !a.IsValid():
		case a.Is4In6() || a.IsUnspecified() || a.IsMulticast() || a.IsLoopback():
			v.fail(p.With(key), "%s is not the address of a host on the link", a)
		case key == "next_hop6" && a.Is4():
			v.fail(p.With(key), "%s must be an IPv6 address", a)
		}
	}
}
