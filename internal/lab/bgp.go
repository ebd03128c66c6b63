package lab

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// BGPPath is one path of a prefix in a router's BGP table. The zero value, with
// Present false, is no path.
type BGPPath struct {
	Present          bool
	Best             bool // the router uses it
	From             netip.Addr
	NextHop          netip.Addr // the global one, where there are two
	Origin           string     // igp, egp or incomplete
	MED              uint32     // 0 also where there is none
	LocalPref        uint32     // 0 also where the router does not show its default
	ASPath           []uint32
	Communities      []string // "65000:100"; well-known ones as numbers too, "65535:0"
	LargeCommunities []string // "65010:1:0"
}

// BGP returns the path that the router in the node uses for exactly the prefix,
// from FRR's bgpd or from BIRD, whichever runs there. What cannot be asked
// fails the test.
func (n *Node) BGP(prefix string) BGPPath {
	n.lab.tb.Helper()
	for _, p := range n.BGPPaths(prefix) {
		if p.Best {
			return p
		}
	}
	return BGPPath{}
}

// BGPPaths returns all paths of exactly the prefix, those not used as well.
func (n *Node) BGPPaths(prefix string) []BGPPath {
	n.lab.tb.Helper()
	if len(n.Pids("bgpd")) > 0 {
		return n.FRRBGP(prefix)
	}
	return n.BirdBGP(prefix)
}

// FRRBGP is BGPPaths of FRR's bgpd.
func (n *Node) FRRBGP(prefix string) []BGPPath {
	n.lab.tb.Helper()
	paths, err := parseFRRPaths(n.Must("vtysh", "-c", "show bgp "+frrFamily(prefix)+" unicast "+prefix+" json"))
	if err != nil {
		n.lab.tb.Fatalf("%s: bgpd's paths of %s: %v", n.Name, prefix, err)
	}
	return paths
}

// FRRView is FRRBGP of another instance of bgpd, a view or VRF.
func (n *Node) FRRView(view, prefix string) []BGPPath {
	n.lab.tb.Helper()
	paths, err := parseFRRPaths(n.Must("vtysh", "-c", "show bgp view "+view+" "+frrFamily(prefix)+" unicast "+prefix+" json"))
	if err != nil {
		n.lab.tb.Fatalf("%s: bgpd's paths of %s in %s: %v", n.Name, prefix, view, err)
	}
	return paths
}

// BirdBGP is BGPPaths of BIRD, which does not say from whom a path came: From
// is the next hop.
func (n *Node) BirdBGP(prefix string) []BGPPath {
	n.lab.tb.Helper()
	var paths []BGPPath
	for _, r := range n.birdRoutes(prefix) {
		if !strings.HasPrefix(r.attrs["Type"], "BGP") {
			continue
		}
		p, err := r.bgp()
		if err != nil {
			n.lab.tb.Fatalf("%s: BIRD's paths of %s: %v", n.Name, prefix, err)
		}
		paths = append(paths, p)
	}
	return paths
}

func frrFamily(prefix string) string {
	if strings.Contains(prefix, ":") {
		return "ipv6"
	}
	return "ipv4"
}

// frrPath is a path as `show bgp … json` has it.
type frrPath struct {
	ASPath struct {
		Segments []struct {
			List []uint32 `json:"list"`
		} `json:"segments"`
	} `json:"aspath"`
	Origin    string `json:"origin"`
	Metric    uint32 `json:"metric"`
	LocalPref uint32 `json:"locPrf"`
	Bestpath  struct {
		Overall bool `json:"overall"`
	} `json:"bestpath"`
	Multipath bool `json:"multipath"`
	Community struct {
		List []string `json:"list"`
	} `json:"community"`
	Large struct {
		List []string `json:"list"`
	} `json:"largeCommunity"`
	NextHops []struct {
		IP    netip.Addr `json:"ip"`
		Scope string     `json:"scope"`
	} `json:"nexthops"`
	Peer struct {
		ID string `json:"peerId"`
	} `json:"peer"`
}

func parseFRRPaths(text string) ([]BGPPath, error) {
	var reply struct {
		Paths []frrPath `json:"paths"`
	}
	if err := json.Unmarshal([]byte(text), &reply); err != nil {
		return nil, fmt.Errorf("%w in %q", err, text)
	}
	var paths []BGPPath
	for _, f := range reply.Paths {
		p := BGPPath{Present: true, Best: f.Bestpath.Overall, Origin: strings.ToLower(f.Origin), MED: f.Metric, LocalPref: f.LocalPref, LargeCommunities: f.Large.List}
		for _, s := range f.ASPath.Segments {
			p.ASPath = append(p.ASPath, s.List...)
		}
		for _, c := range f.Community.List {
			p.Communities = append(p.Communities, communityNumber(c))
		}
		for _, h := range f.NextHops {
			if h.Scope != "link-local" {
				p.NextHop = h.IP
			}
		}
		if from, err := netip.ParseAddr(f.Peer.ID); err == nil { // "(unspec)" is the router itself
			p.From = from
		}
		paths = append(paths, p)
	}
	return paths, nil
}

// communityNumber undoes FRR's names of the well-known communities (RFC 1997,
// 3765, 7999, 8326, 9494).
func communityNumber(c string) string {
	switch c {
	case "gracefulShutdown":
		return "65535:0"
	case "acceptOwn":
		return "65535:1"
	case "llgrStale":
		return "65535:6"
	case "noLlgr":
		return "65535:7"
	case "blackhole":
		return "65535:666"
	case "noExport":
		return "65535:65281"
	case "noAdvertise":
		return "65535:65282"
	case "localAs":
		return "65535:65283"
	case "noPeer":
		return "65535:65284"
	default:
		return c
	}
}

// BGPUp says whether the router in the node has an established session with the
// neighbour at an address, by FRR or BIRD.
func (n *Node) BGPUp(neighbour string) bool {
	n.lab.tb.Helper()
	if len(n.Pids("bgpd")) == 0 {
		return birdEstablished(n.Must("birdc", "show protocols all"), neighbour)
	}
	var reply map[string]struct {
		State string `json:"bgpState"`
	}
	text := n.Must("vtysh", "-c", "show bgp neighbors "+neighbour+" json")
	if err := json.Unmarshal([]byte(text), &reply); err != nil {
		n.lab.tb.Fatalf("%s: neighbour %s: %v in %q", n.Name, neighbour, err, text)
	}
	return reply[neighbour].State == "Established"
}

// birdEstablished reads `show protocols all`, where each protocol begins at the
// margin.
func birdEstablished(text, neighbour string) bool {
	var state string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, " ") {
			state = ""
		}
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch key {
		case "BGP state":
			state = strings.TrimSpace(value)
		case "Neighbor address":
			if strings.TrimSpace(value) == neighbour {
				return state == "Established"
			}
		}
	}
	return false
}

// OSPFCost returns the cost of exactly the prefix by OSPF in the router in the
// node, FRR or BIRD: the whole path's where it is internal or of external type
// 1. ok is false where there is no OSPF route.
func (n *Node) OSPFCost(prefix string) (cost int, ok bool) {
	n.lab.tb.Helper()
	if len(n.Pids("ospfd")) == 0 {
		for _, r := range n.birdRoutes(prefix) {
			if strings.HasPrefix(r.attrs["Type"], "OSPF") {
				return r.number("OSPF.metric1"), true
			}
		}
		return 0, false
	}
	family := "ip"
	if frrFamily(prefix) == "ipv6" {
		family = "ipv6"
	}
	text := n.Must("vtysh", "-c", "show "+family+" route "+prefix+" json")
	cost, ok, err := parseFRRCost(text)
	if err != nil {
		n.lab.tb.Fatalf("%s: zebra's routes of %s: %v in %q", n.Name, prefix, err, text)
	}
	return cost, ok
}

func parseFRRCost(text string) (cost int, ok bool, err error) {
	var reply map[string][]struct {
		Protocol string `json:"protocol"`
		Metric   int    `json:"metric"`
	}
	if err := json.Unmarshal([]byte(text), &reply); err != nil {
		return 0, false, err
	}
	for _, routes := range reply {
		for _, r := range routes {
			if slices.Contains([]string{"ospf", "ospf6"}, r.Protocol) {
				return r.Metric, true, nil
			}
		}
	}
	return 0, false, nil
}
