package routerconf

import (
	"fmt"
	"net/netip"
	"strings"

	"rhid/internal/config"
)

// birdBGP is a router that runs BIRD 2.
func birdBGP(t *text, r router) {
	four, six := r.carried()
	t.line("# Router %s (BIRD 2): BGP with rhid. It takes the VIPs and gives them back, and", r.name)
	t.line("# nothing else. `graceful restart off`, or a VIP whose host has died may stay.")
	birdFilter(t, "rhid_vips4", four)
	birdFilter(t, "rhid_vips6", six)
	if b := r.fastest(); b != nil {
		birdBFD(t, b)
	}
	for i, s := range r.sessions {
		birdSession(t, r, s, i+1, len(four), len(six))
	}
	t.line("")
}

func birdFilter(t *text, name string, vips []netip.Prefix) {
	if len(vips) > 0 {
		t.line("filter %s { if net ~ [ %s ] then accept; reject; }", name, list(vips))
	}
}

func list(ps []netip.Prefix) string {
	var out []string
	for _, p := range ps {
		out = append(out, p.String())
	}
	return strings.Join(out, ", ")
}

// birdBFD is the protocol that sessions with `bfd on` use.
func birdBFD(t *text, b *config.BFD) {
	timers := fmt.Sprintf("min rx interval %d ms; min tx interval %d ms; multiplier %d;",
		milliseconds(b.Interval), milliseconds(b.Interval), b.Multiplier)
	t.line("protocol bfd rhid_bfd {\n  interface \"*\" { %s };\n  multihop { %s };\n}", timers, timers)
	if b.Auth != "" {
		t.line("# and in both: authentication %s; password \"…\" { id %d; }; with the key in %s on the hosts",
			strings.ReplaceAll(b.Auth, "-", " "), b.KeyID, b.KeyFile)
	}
}

func birdSession(t *text, r router, s session, number, four, six int) {
	o := s.router
	t.line("protocol bgp rhid%d { # %s", number, s.node)
	t.line("  local as %d;", r.asn)
	t.line("  neighbor %s as %d;", s.address, s.asn)
	t.line("  hold time %d;", seconds(o.Hold))
	t.line("  keepalive time %d;", seconds(o.Keepalive))
	t.line("  connect delay time 1;\n  connect retry time 1;\n  error wait time 1, 2;")
	t.line("  graceful restart off;")
	if o.BFD != nil {
		t.line("  bfd on;")
	}
	switch {
	case o.TTLSecurity:
		t.line("  ttl security on;")
	case o.Multihop > 0:
		t.line("  multihop %d;", o.Multihop)
	}
	switch {
	case s.password != "":
		t.line("  password %q;", s.password)
	case s.hasPassword():
		t.line("  # password: %s", s.passwordIs())
	}
	hasFour, hasSix := s.families()
	if hasFour && four > 0 {
		extended := ""
		if s.extended() {
			extended = " extended next hop on;"
		}
		t.line("  ipv4 { import limit %d; import filter rhid_vips4; export filter rhid_vips4;%s };", prefixLimit(four), extended)
	}
	if hasSix && six > 0 {
		t.line("  ipv6 { import limit %d; import filter rhid_vips6; export filter rhid_vips6; };", prefixLimit(six))
	}
	t.line("}")
}

// birdKernel is BIRD beside rhid: the kernel's metric is the cost.
func birdKernel(t *text, h host) {
	t.line("# On host %s: BIRD 2 beside rhid. It carries rhid's kernel routes into OSPF, with", h.node)
	t.line("# the kernel metric as the cost, and writes nothing into the kernel. `preference`")
	t.line("# matters: another host's LSA of the same VIP would beat the kernel's route, and")
	t.line("# BIRD exports only the best.")
	t.line("router id %s;", h.routerID)
	t.line("protocol device { scan time 10; }")
	for _, f := range h.families() {
		t.line("protocol kernel rhid_k%s {", f.short)
		t.line("  learn;\n  scan time 1;")
		if h.table != mainTable {
			t.line("  kernel table %d;", h.table)
		}
		t.line("  %s {", f.name)
		t.line("    import filter {")
		t.line("      if krt_source != %d then reject;", h.protocol)
		t.line("      if net !~ [ %s ] then reject;", list(f.vips))
		t.line("      preference = 200;\n      accept;\n    };\n    export none;\n  };\n}")
	}
	t.line("filter rhid_to_ospf {")
	t.line("  if source = RTS_INHERIT && krt_source = %d then {", h.protocol)
	t.line("    ospf_metric1 = krt_metric; # E1: the nearest of equal hosts; ospf_metric2 is E2: only rank counts")
	t.line("    ospf_tag = 65151;\n    accept;\n  }\n  reject;\n}")
	for _, f := range h.families() {
		birdOSPF(t, f, "rhid_o"+f.short, "export filter rhid_to_ospf", h.options.HostInterface, h.options.Area)
	}
}

func birdOSPF(t *text, f family, name, export, iface, area string) {
	t.line("protocol ospf %s %s {", map[string]string{"ipv4": "v2", "ipv6": "v3"}[f.name], name)
	t.line("  %s { import all; %s; };", f.name, export)
	t.line("  area %s { interface %q { type ptp; hello 1; dead 4; retransmit 2; }; };\n}", area, iface)
}

// birdOSPFRouter is the router at the other end of the host's link.
func birdOSPFRouter(t *text, h host) {
	t.line("# The router (BIRD 2) on the link to %s: OSPF, with the same timers. Merge with what is there.", h.node)
	for _, f := range h.families() {
		birdOSPF(t, f, "rhid_o"+f.short, "export none", h.options.RouterInterface, h.options.Area)
	}
	t.line("# tick 1, the default and the least, is how long BIRD may take to work out routes.")
}
