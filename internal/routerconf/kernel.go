package routerconf

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"rhid/internal/config"
)

const mainTable = 254

// host is a node whose VIPs go out as kernel routes.
type host struct {
	options   Options
	node      string
	routerID  netip.Addr
	protocol  int
	table     int
	tiers     []int    // nil without tiers
	devices   []string // of IPv6 routes, one for each of tiers; nil without
	four, six []netip.Prefix
}

// family is one address family of a host.
type family struct {
	name, short string
	vips        []netip.Prefix
}

func (h host) families() []family {
	var out []family
	if len(h.four) > 0 {
		out = append(out, family{"ipv4", "4", h.four})
	}
	if len(h.six) > 0 {
		out = append(out, family{"ipv6", "6", h.six})
	}
	return out
}

func writeKernel(cfg *config.Config, o Options) (string, error) {
	var t text
	for _, n := range cfg.Nodes {
		if o.Node != "" && n.Name != o.Node {
			continue
		}
		h := newHost(cfg, &n, o)
		if len(h.families()) == 0 {
			continue
		}
		if h.table != mainTable && o.For == FRR {
			return "", fmt.Errorf("kernel.table is %d: FRR redistributes from the main table only", h.table)
		}
		sides := map[string][2]func(*text, host){FRR: {frrKernel, frrOSPFRouter}, BIRD: {birdKernel, birdOSPFRouter}}[o.For]
		if o.Side != SideRouter {
			sides[0](&t, h)
		}
		if o.Side != SideHost {
			sides[1](&t, h)
		}
	}
	if t.Len() == 0 {
		return "", errors.New("no service of such a node is announced via kernel")
	}
	return t.String(), nil
}

func newHost(cfg *config.Config, n *config.Node, o Options) host {
	h := host{options: o, node: n.Name, routerID: n.RouterID, protocol: cfg.Kernel.Protocol, table: cfg.Kernel.Table}
	if cfg.Kernel.NextHop == "tier" {
		h.tiers, h.devices = cfg.Kernel.Tiers, cfg.Kernel.TierDevices
	}
	var vips []netip.Prefix
	for i := range cfg.Services {
		if s := &cfg.Services[i]; s.HasVia(config.ViaKernel) && slices.Contains(s.Order, n.Name) {
			vips = append(vips, s.VIPs...)
		}
	}
	h.four, h.six = split(vips)
	return h
}

// frrKernel is FRR beside rhid.
func frrKernel(t *text, h host) {
	t.line("! On host %s: FRR beside rhid. It carries rhid's kernel routes into OSPF.", h.node)
	for i, p := range h.four {
		t.line("ip prefix-list RHID-VIPS seq %d permit %s", 5*(i+1), p)
	}
	for _, tier := range slices.Compact(slices.Clone(h.tiers)) {
		t.line("ip prefix-list RHID-TIER-%d seq 5 permit 169.254.100.%d/32", tier, tier)
	}
	for i, p := range h.six {
		t.line("ipv6 prefix-list RHID-VIPS6 seq %d permit %s", 5*(i+1), p)
	}
	t.line("!")
	if len(h.four) > 0 {
		frrCost(t, h)
	}
	if len(h.six) > 0 {
		frrCost6(t, h)
	}
	t.line("! Nothing else leaks: a route-map ends with deny.\n!")
	frrInterface(t, h, h.options.HostInterface)
	if len(h.four) > 0 {
		t.line("router ospf\n ospf router-id %s", h.routerID)
		t.line(" timers throttle spf 0 50 1000\n timers throttle lsa all 0\n timers lsa min-arrival 0")
		t.line(" redistribute kernel metric-type 1 route-map RHID-OSPF\n!")
	}
	if len(h.six) > 0 {
		t.line("router ospf6\n ospf6 router-id %s", h.routerID)
		t.line(" timers throttle spf 0 50 1000\n timers lsa min-arrival 0")
		t.line(" redistribute kernel metric-type 1 route-map RHID-OSPF6\n!")
	}
}

// frrCost is the cost of IPv4 routes.
func frrCost(t *text, h host) {
	for i, tier := range slices.Compact(slices.Clone(h.tiers)) {
		t.line("route-map RHID-OSPF permit %d", 10*(i+1))
		t.line(" match ip address prefix-list RHID-VIPS\n match ip next-hop prefix-list RHID-TIER-%d\n set metric %d", tier, tier)
	}
	if h.tiers == nil {
		t.line("! From FRR 9.0 on `+1` adds to the kernel's metric. Before, all ranks would have")
		t.line("! the same cost: set kernel.next_hop to tier.")
		t.line("route-map RHID-OSPF permit 10\n match ip address prefix-list RHID-VIPS\n set metric +1")
	}
}

// frrCost6 is the cost of IPv6 routes. The kernel takes no next hop over lo there:
// each tier has a device of its own, or all ranks the same cost.
func frrCost6(t *text, h host) {
	for i, device := range h.devices {
		t.line("route-map RHID-OSPF6 permit %d", 10*(i+1))
		t.line(" match ipv6 address prefix-list RHID-VIPS6\n match interface %s\n set metric %d", device, h.tiers[i])
	}
	if h.devices != nil {
		return
	}
	cost := "+1"
	if h.tiers != nil {
		cost = strconv.Itoa(h.tiers[0])
		t.line("! Before FRR 9.0 all ranks have the same cost in IPv6, unless kernel.tier_devices")
		t.line("! gives each a device. From 9.0 on, `set metric +1` adds to the kernel's metric,")
		t.line("! here and, without tiers, in IPv4.")
	}
	t.line("route-map RHID-OSPF6 permit 10\n match ipv6 address prefix-list RHID-VIPS6\n set metric %s", cost)
}

func frrInterface(t *text, h host, name string) {
	t.line("interface %s", name)
	for _, f := range h.families() {
		word := map[string]string{"ipv4": "ip ospf", "ipv6": "ipv6 ospf6"}[f.name]
		t.line(" %s area %s\n %s network point-to-point", word, h.options.Area, word)
		t.line(" %s hello-interval 1\n %s dead-interval 4\n %s retransmit-interval 1", word, word, word)
	}
	t.line("!")
}

// frrOSPFRouter is the router at the other end of the host's link.
func frrOSPFRouter(t *text, h host) {
	t.line("! The router (FRR) on the link to %s: OSPF with the same timers. Merge with what is there.", h.node)
	frrInterface(t, h, h.options.RouterInterface)
	if len(h.four) > 0 {
		t.line("router ospf\n timers throttle spf 0 50 1000\n timers throttle lsa all 0\n timers lsa min-arrival 0\n!")
	}
	if len(h.six) > 0 {
		t.line("router ospf6\n timers throttle spf 0 50 1000\n timers lsa min-arrival 0\n!")
	}
}
