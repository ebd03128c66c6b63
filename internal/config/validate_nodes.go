package config

import (
	"net/netip"

	"rhid/internal/config/strict"
)

func (v *validator) sites() {
	seen := map[string]strict.Path{}
	for i := range v.cfg.Sites {
		s := &v.cfg.Sites[i]
		p := strict.Path{"sites", i}
		v.name(p.With("name"), s.Name)
		unique(v, seen, p.With("name"), s.Name, "there is a site %q already", s.Name)
		v.routers(p.With("routers"), s.Routers, newNeighbours())
		v.attributeTable(p.With("attributes"), s.Attributes)
		v.allowList(p.With("allow"), s.Allow)
		if n := len(s.Routers); s.MinNeighbours > max(1, n) {
			v.fail(p.With("min_neighbours"), "%d is more than the %d routers of the site", s.MinNeighbours, n)
		}
		v.links(p.With("links"), s.Links, map[string]strict.Path{})
	}
}

func newNeighbours() *neighbours {
	return &neighbours{addrs: map[netip.Addr]strict.Path{}, links: map[netip.Addr]*Router{}, names: map[string]strict.Path{}}
}

func (v *validator) nodes() {
	if len(v.cfg.Nodes) == 0 {
		v.fail(strict.Path{"nodes"}, "at least one node is needed")
		return
	}
	names, ids := map[string]strict.Path{}, map[uint32]strict.Path{}
	addrs := map[netip.Addr]strict.Path{}
	for i := range v.cfg.Nodes {
		n := &v.cfg.Nodes[i]
		p := strict.Path{"nodes", i}
		v.name(p.With("name"), n.Name)
		unique(v, names, p.With("name"), n.Name, "there is a node %q already", n.Name)
		unique(v, ids, p.With("id"), n.ID, "%d is the id of another node", n.ID)
		if n.Address.IsValid() {
			unique(v, addrs, p.With("address"), n.Address.Unmap(), "%s is the address of another node", n.Address)
		}
		v.neighbourAddress(p.With("address"), n.Address)
		if v.doc.Has(p.With("asn")) {
			v.asn(p.With("asn"), n.ASN)
		}
		v.node(p, n)
	}
	v.routerIDs()
}

func (v *validator) node(p strict.Path, n *Node) {
	seen, links := newNeighbours(), map[string]strict.Path{}
	if n.Site != "" {
		site, ok := v.cfg.Site(n.Site)
		if !ok {
			v.noSuch(p.With("site"), "site", n.Site, siteNames(v.cfg))
		} else {
			v.inherit(seen, links, site)
		}
	}
	v.routers(p.With("routers"), n.Routers, seen)
	v.allowList(p.With("allow"), n.Allow)
	v.links(p.With("links"), n.Links, links)
	v.sessions(p, n)
}

// inherit notes the routers and links that a node has from its site.
func (v *validator) inherit(seen *neighbours, links map[string]strict.Path, site *Site) {
	for i := range v.cfg.Sites {
		if v.cfg.Sites[i].Name != site.Name {
			continue
		}
		for j := range site.Routers {
			r := &site.Routers[j]
			at := strict.Path{"sites", i, "routers", j}
			if r.Address.IsValid() {
				seen.addrs[r.Address] = at.With("address")
			}
			seen.names[r.Name] = at.With("name")
			if r.Interface != "" {
				seen.names["interface "+r.Interface] = at.With("interface")
			}
		}
		for j := range site.Links {
			links[site.Links[j].Name] = strict.Path{"sites", i, "links", j, "name"}
		}
	}
}

// sessions validates what depends on both ends of a node's BGP sessions.
func (v *validator) sessions(p strict.Path, n *Node) {
	for _, r := range v.placedRouters(p, n) {
		if r.Multihop != 0 && n.IBGP(r.Router) {
			v.fail(r.path.With("multihop"), "is for eBGP; node %q and this router are both in AS %d", n.Name, n.ASN)
		}
		if r.Address == n.Address && r.Port == v.cfg.BGP.Port {
			v.fail(r.path.With("address"), "%s is node %q itself", r.Address, n.Name)
		}
		v.rowsFit(n, r)
	}
}

// placedRouter is a router and where it stands in the file.
type placedRouter struct {
	*Router
	path strict.Path
}

// placedRouters lists the routers of the node whose path is p.
func (v *validator) placedRouters(p strict.Path, n *Node) []placedRouter {
	var out []placedRouter
	for i := range v.cfg.Sites {
		if v.cfg.Sites[i].Name != n.Site {
			continue
		}
		for j := range v.cfg.Sites[i].Routers {
			out = append(out, placedRouter{&v.cfg.Sites[i].Routers[j], strict.Path{"sites", i, "routers", j}})
		}
		break
	}
	for j := range n.Routers {
		out = append(out, placedRouter{&n.Routers[j], p.With("routers", j)})
	}
	return out
}

// routerIDs validates the BGP identifiers: each node that speaks BGP needs one
// of its own.
func (v *validator) routerIDs() {
	seen := map[netip.Addr]string{}
	for i := range v.cfg.Nodes {
		n := &v.cfg.Nodes[i]
		p := strict.Path{"nodes", i, "router_id"}
		own := v.doc.Has(p)
		if own {
			v.routerID(p, n.RouterID)
		}
		inherited := v.doc.Failed(strict.Path{"bgp", "router_id"}) || v.doc.Failed(strict.Path{"nodes", i, "address"})
		if len(v.cfg.RoutersOf(n.Name)) == 0 || !own && inherited {
			continue
		}
		switch other, dup := seen[n.RouterID]; {
		case !n.RouterID.IsValid():
			v.fail(p, "is required: the node has BGP neighbours and its address %s is not IPv4", n.Address)
		case dup:
			v.fail(p, "%s is the router id of node %q, too", n.RouterID, other)
		default:
			seen[n.RouterID] = n.Name
		}
	}
}
