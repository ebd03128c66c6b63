package lab

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// birdRoute is one route of BIRD's `show route … all`.
type birdRoute struct {
	best  bool
	attrs map[string]string // "BGP.med" and the like
}

// birdRoutes asks the BIRD in the node for exactly the prefix.
func (n *Node) birdRoutes(prefix string) []birdRoute {
	n.lab.tb.Helper()
	out, err := n.Run("birdc", "show route "+prefix+" all")
	if err != nil && !strings.Contains(out, "Network not found") {
		n.lab.tb.Fatalf("%v", err)
	}
	return parseBirdRoutes(out)
}

// birdHead is the first line of a route: the network (left out for the second
// route of one), the kind, and in brackets the protocol and the time; then a
// star for the one in use.
var birdHead = regexp.MustCompile(`^(\S+)?\s+(unicast|blackhole|unreachable|prohibit) \[[^]]*\]( \*)?`)

func parseBirdRoutes(text string) []birdRoute {
	var routes []birdRoute
	for line := range strings.Lines(text) {
		if m := birdHead.FindStringSubmatch(line); m != nil {
			routes = append(routes, birdRoute{best: m[3] != "", attrs: map[string]string{}})
			continue
		}
		if len(routes) == 0 {
			continue // the greeting and the table's name
		}
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			routes[len(routes)-1].attrs[key] = value
		}
	}
	return routes
}

// number returns an attribute that is a number; 0 where there is none.
func (r birdRoute) number(key string) int {
	v, err := strconv.ParseUint(r.attrs[key], 10, 32)
	if err != nil {
		return 0
	}
	return int(v)
}

// bgp reads the attributes of a BGP route.
func (r birdRoute) bgp() (BGPPath, error) {
	p := BGPPath{
		Present: true, Best: r.best, Origin: strings.ToLower(r.attrs["BGP.origin"]),
		MED: uint32(r.number("BGP.med")), LocalPref: uint32(r.number("BGP.local_pref")),
	}
	for _, f := range strings.Fields(r.attrs["BGP.as_path"]) {
		as, err := strconv.ParseUint(f, 10, 32)
		if err != nil {
			return BGPPath{}, fmt.Errorf("AS path %q: %w", r.attrs["BGP.as_path"], err)
		}
		p.ASPath = append(p.ASPath, uint32(as))
	}
	if hops := strings.Fields(r.attrs["BGP.next_hop"]); len(hops) > 0 {
		hop, err := netip.ParseAddr(hops[0])
		if err != nil {
			return BGPPath{}, fmt.Errorf("next hop: %w", err)
		}
		p.NextHop, p.From = hop, hop
	}
	p.Communities = birdTuples(r.attrs["BGP.community"])
	p.LargeCommunities = birdTuples(r.attrs["BGP.large_community"])
	return p, nil
}

// birdTuples turns "(65000,100) (65010, 1, 0)" into "65000:100", "65010:1:0".
func birdTuples(s string) []string {
	var tuples []string
	for t := range strings.SplitSeq(s, ")") {
		t = strings.TrimLeft(strings.TrimSpace(t), "(")
		if t != "" {
			tuples = append(tuples, strings.NewReplacer(" ", "", ",", ":").Replace(t))
		}
	}
	return tuples
}
