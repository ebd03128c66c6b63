package lab

import (
	"fmt"
	"strings"

	"github.com/vishvananda/netlink"
)

// link makes one veth pair straight between two nodes, up at both ends.
func (l *Lab) link(spec LinkSpec) error {
	ends, err := spec.ends()
	if err != nil {
		return err
	}
	a, b := l.nodes[ends[0].node], l.nodes[ends[1].node]
	attrs := netlink.NewLinkAttrs()
	attrs.Name = ends[0].iface
	attrs.MTU = spec.mtu()
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: ends[1].iface, PeerMTU: uint32(spec.mtu()), PeerNamespace: netlink.NsFd(b.nsfd)}
	if err := a.nl.LinkAdd(veth); err != nil {
		return fmt.Errorf("link %s – %s: %w", ends[0], ends[1], err)
	}
	if err := a.setUp(ends[0].iface, true); err != nil {
		return err
	}
	if err := b.setUp(ends[1].iface, true); err != nil {
		return err
	}
	l.peers[ends[0]], l.peers[ends[1]] = ends[1], ends[0]
	return nil
}

// setUp sets an interface of the node up or down.
func (n *Node) setUp(iface string, up bool) error {
	link, err := n.nl.LinkByName(iface)
	if err == nil && up {
		err = n.nl.LinkSetUp(link)
	} else if err == nil {
		err = n.nl.LinkSetDown(link)
	}
	if err != nil {
		return fmt.Errorf("%s: setting %s up=%v: %w", n.Name, iface, up, err)
	}
	return nil
}

// end finds the end of a link, "node:interface".
func (l *Lab) end(at string) (*Node, endpoint) {
	l.tb.Helper()
	node, iface, _ := strings.Cut(at, ":")
	e := endpoint{node, iface}
	if _, ok := l.peers[e]; !ok {
		l.tb.Fatalf("no link ends at %q", at)
	}
	return l.nodes[node], e
}

// Cut parts the link whose end is at "node:interface": that end goes down, the
// other loses its carrier. Both keep their addresses, as when a cable is pulled.
func (l *Lab) Cut(at string) {
	l.tb.Helper()
	n, e := l.end(at)
	// else Linux drops the IPv6 addresses of an interface that is set down
	if err := n.sysctl("net.ipv6.conf."+e.iface+".keep_addr_on_down", "1"); err != nil {
		l.tb.Fatalf("%v", err)
	}
	if err := n.setUp(e.iface, false); err != nil {
		l.tb.Fatalf("%v", err)
	}
}

// Heal ends Cut.
func (l *Lab) Heal(at string) {
	l.tb.Helper()
	n, e := l.end(at)
	if err := n.setUp(e.iface, true); err != nil {
		l.tb.Fatalf("%v", err)
	}
}

// Blackhole makes the link that ends at "node:interface" lose every packet in
// both directions, ARP too, without a sign to anybody: each end drops what
// comes in. A Capture still sees what arrives.
func (l *Lab) Blackhole(at string) {
	l.tb.Helper()
	_, e := l.end(at)
	for _, e := range []endpoint{e, l.peers[e]} {
		rules := fmt.Sprintf(`table netdev %[1]s {
			chain in { type filter hook ingress device "%[2]s" priority -500; policy drop; }
		}`, holeTable(e), e.iface)
		if err := l.nodes[e.node].nft(rules); err != nil {
			l.tb.Fatalf("%v", err)
		}
	}
}

// Unblackhole ends Blackhole.
func (l *Lab) Unblackhole(at string) {
	l.tb.Helper()
	_, e := l.end(at)
	for _, e := range []endpoint{e, l.peers[e]} {
		if err := l.nodes[e.node].nft("delete table netdev " + holeTable(e)); err != nil {
			l.tb.Fatalf("%v", err)
		}
	}
}

func holeTable(e endpoint) string {
	return "lab_hole_" + strings.NewReplacer("-", "_", ".", "_", "/", "_").Replace(e.iface)
}

// nft loads rules in the node.
func (n *Node) nft(rules string) error {
	_, err := n.Run("nft", rules)
	return err
}

// RefuseTCP has the node answer every TCP packet to or from a port with a
// reset, and lose the sessions it has there at once: as when the program on the
// port is gone for good. Sessions with MD5 signatures (RFC 2385) get a signed
// reset; later attempts of theirs get unsigned ones, which the other side must
// not believe, so to them the port is a black hole.
func (n *Node) RefuseTCP(port int) {
	n.lab.tb.Helper()
	rules := fmt.Sprintf(`table inet lab_refuse_%[1]d {
		chain in {
			type filter hook input priority -500;
			tcp dport %[1]d reject with tcp reset
			tcp sport %[1]d reject with tcp reset
		}
	}`, port)
	// first the rule, else the session could be back before it
	if err := n.nft(rules); err != nil {
		n.lab.tb.Fatalf("%v", err)
	}
	n.ResetTCP(port)
}

// AcceptTCP ends RefuseTCP or DropTCP.
func (n *Node) AcceptTCP(port int) {
	n.lab.tb.Helper()
	for _, what := range []string{"refuse", "drop"} {
		name := fmt.Sprintf("lab_%s_%d", what, port)
		if err := n.nft(fmt.Sprintf("table inet %[1]s {}; delete table inet %[1]s", name)); err != nil {
			n.lab.tb.Fatalf("%v", err)
		}
	}
}

// DropTCP has the node drop every TCP packet that arrives to or from a port,
// silently: connections hang, new ones get no answer.
func (n *Node) DropTCP(port int) {
	n.lab.tb.Helper()
	rules := fmt.Sprintf(`table inet lab_drop_%[1]d {
		chain in { type filter hook input priority -500; tcp dport %[1]d drop; tcp sport %[1]d drop; }
	}`, port)
	if err := n.nft(rules); err != nil {
		n.lab.tb.Fatalf("%v", err)
	}
}

// ResetTCP resets the TCP sessions that the node has to or from a port now.
// New ones are possible at once.
func (n *Node) ResetTCP(port int) {
	n.lab.tb.Helper()
	n.Must("ss", "-K", "-t", "state", "connected", fmt.Sprintf("( sport = %[1]d or dport = %[1]d )", port))
}
