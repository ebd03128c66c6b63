package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const router = "{address: 10.1.0.1, asn: 65000"

// wrongBGP are wrong guards, attributes and sessions, and all that must be
// said of them.
var wrongBGP = []struct {
	name  string
	edits []edit
	want  []string
}{
	{
		name:  "default routes",
		edits: []edit{{"10.255.0.10/32", `0.0.0.0/0, "::/0"`}},
		want: []string{
			`rhid.yaml:13:12: services[0] "atm": vips[0]: 0.0.0.0/0 is the default route, which rhid never announces`,
			`rhid.yaml:13:23: services[0] "atm": vips[1]: ::/0 is the default route, which rhid never announces`,
		},
	},
	{
		name:  "short prefixes",
		edits: []edit{{"10.255.0.10/32", `10.255.0.0/23, "fd00:255::/47"`}, {"10.255.0.11/32]", "10.250.0.0/23]\n    short_prefixes: true"}},
		want: []string{
			`rhid.yaml:13:12: services[0] "atm": vips[0]: 10.255.0.0/23 is shorter than /24; set short_prefixes if that is meant`,
			`rhid.yaml:13:27: services[0] "atm": vips[1]: fd00:255::/47 is shorter than /48; set short_prefixes if that is meant`,
		},
	},
	{
		name:  "host bits and overlaps",
		edits: []edit{{"10.255.0.10/32", "10.255.0.10/28, 10.255.0.0/28"}},
		want: []string{
			`rhid.yaml:13:12: services[0] "atm": vips[0]: 10.255.0.10/28 is not a network; write 10.255.0.0/28, or 10.255.0.10/32`,
			`rhid.yaml:18:12: services[1] "pos": vips[0]: 10.255.0.11/32 overlaps with the VIP 10.255.0.0/28 of service "atm" in line 13`,
		},
	},
	{
		name:  "a block around a node, and as an address",
		edits: []edit{{"10.255.0.10/32", "10.1.0.0/28, 10.254.0.0/28"}, {"    check: web\n", "    check: web\n    vip: {mode: address}\n"}},
		want: []string{
			`rhid.yaml:13:12: services[0] "atm": vips[0]: 10.1.0.0/28 is not a single address, and mode address makes each VIP an address on lo; use anyip`,
			`rhid.yaml:13:25: services[0] "atm": vips[1]: 10.254.0.0/28 is not a single address, and mode address makes each VIP an address on lo; use anyip`,
		},
	},
	{
		name:  "a block around a router",
		edits: []edit{{"10.255.0.10/32", "10.1.0.0/28"}},
		want: []string{
			`rhid.yaml:13:12: services[0] "atm": vips[0]: 10.1.0.0/28 cannot be a VIP: it contains 10.1.0.1, the address of router "10.1.0.1"`,
		},
	},
	{
		name:  "BFD timers",
		edits: []edit{{router, router + ", bfd: {interval: 5ms, multiplier: 0}"}, {"asn: 65010}", "asn: 65010, hold: 3s}"}},
		want: []string{
			`rhid.yaml:5:57: sites[0] "beijing": routers[0].bfd.interval: must be at least 10ms, not 5ms`,
			`rhid.yaml:5:74: sites[0] "beijing": routers[0].bfd.multiplier: must be at least 1, not 0`,
		},
	},
	{
		name:  "BFD without an address",
		edits: []edit{{"{address: 10.1.0.1, asn: 65000", "{interface: eth0, asn: 65000, bfd: {interval: 100ms}"}},
		want: []string{
			`rhid.yaml:5:44: sites[0] "beijing": routers[0].bfd: needs the router's address`,
		},
	},
	{
		name:  "BFD slower than BGP",
		edits: []edit{{router, router + ", bfd: {interval: 1s}"}, {"asn: 65010}", "asn: 65010, hold: 3s}"}},
		want: []string{
			`rhid.yaml:5:46: sites[0] "beijing": routers[0].bfd: interval 1s × multiplier 3 is not shorter than the hold time 3s, so it would notice nothing earlier`,
		},
	},
	{
		name:  "BFD over one hop and several",
		edits: []edit{{router, router + ", multihop: 3, bfd: {multihop: never}"}},
		want: []string{
			`rhid.yaml:5:70: sites[0] "beijing": routers[0].bfd.multihop: the router is not on the link (multihop: 3), where a session over one hop cannot reach it`,
		},
	},
	{
		name:  "BFD authentication without a key",
		edits: []edit{{router, router + ", bfd: {auth: keyed-sha1}"}},
		want: []string{
			`rhid.yaml:5:53: sites[0] "beijing": routers[0].bfd.auth: needs a key: set key_file`,
		},
	},
	{
		name:  "BFD key without authentication",
		edits: []edit{{router, router + ", bfd: {key_file: /etc/rhid/good}"}},
		want: []string{
			`rhid.yaml:5:57: sites[0] "beijing": routers[0].bfd.key_file: is of no use without auth`,
		},
	},
	{
		name:  "BFD authentication of an unknown kind",
		edits: []edit{{router, router + ", bfd: {auth: md5, key_file: /etc/rhid/good}"}},
		want: []string{
			`rhid.yaml:5:53: sites[0] "beijing": routers[0].bfd.auth: "md5" is not one of keyed-sha1, meticulous-keyed-sha1`,
		},
	},
	{
		name:  "BFD key too long",
		edits: []edit{{router, router + ", bfd: {auth: keyed-sha1, key_file: /etc/rhid/long-bfd}"}},
		want: []string{
			`rhid.yaml:5:75: sites[0] "beijing": routers[0].bfd.key_file: the key in /etc/rhid/long-bfd has 21 bytes; SHA-1 authentication takes 20`,
		},
	},
	{
		name:  "BFD key file relative",
		edits: []edit{{router, router + ", bfd: {auth: keyed-sha1, key_file: key}"}},
		want: []string{
			`rhid.yaml:5:75: sites[0] "beijing": routers[0].bfd.key_file: "key" must be an absolute path`,
		},
	},
	{
		name:  "BFD check of a router without BFD",
		edits: []edit{{"type: http,", "type: bfd, router: 10.1.0.1,"}},
		want: []string{
			`rhid.yaml:10:28: checks.web.router: there is no router "10.1.0.1" with a bfd section`,
			`rhid.yaml:16:12: services[0] "atm": check: does not look at the servers: it has an address of its own, or needs no target; take the address out, or leave servers out`,
		},
	},
	{
		name:  "outside of the cluster's list",
		edits: []edit{{"", "allow: [10.254.0.0/24, 10.255.0.10/31]\n"}, {"10.255.0.11/32", "10.255.0.12/32"}},
		want: []string{
			`rhid.yaml:18:12: services[1] "pos": vips[0]: 10.255.0.12/32 is not in what the cluster may announce (allow: 10.254.0.0/24, 10.255.0.10/31)`,
		},
	},
	{
		name:  "outside of a site's and a node's list",
		edits: []edit{{"    routers:\n", "    allow: [10.255.0.0/24]\n    routers:\n"}, {"10.255.0.10/32", "10.254.0.10/32"}, {"10.1.0.12}", "10.1.0.12, allow: [10.255.0.10/32]}"}},
		want: []string{
			`rhid.yaml:14:12: services[0] "atm": vips[0]: 10.254.0.10/32 is not in what site "beijing" may announce (allow: 10.255.0.0/24)`,
			`rhid.yaml:19:12: services[1] "pos": vips[0]: 10.255.0.11/32 is not in what node "lb-2" may announce (allow: 10.255.0.10/32)`,
		},
	},
	{
		name:  "lists that are none",
		edits: []edit{{"", "allow: [10.255.0.1/24, 0.0.0.0/0, 10.255.0.0/24, 10.255.0.0/24]\n"}},
		want: []string{
			`rhid.yaml:23:9: allow[0]: 10.255.0.1/24 is not a network; write 10.255.0.0/24`,
			`rhid.yaml:23:24: allow[1]: 0.0.0.0/0 allows everything; leave it out`,
			`rhid.yaml:23:50: allow[3]: 10.255.0.0/24 is there twice, first in line 23`,
		},
	},
	{
		name:  "attributes",
		edits: []edit{{router, router + ", attributes: {ranks: [{prepend: 32, local_preference: 7}], worst: {communities: [graceful-shutdown, \"65010:1:0\"]}}"}},
		want: []string{
			`rhid.yaml:5:72: sites[0] "beijing": routers[0].attributes.ranks[0].prepend: must be at most 31, not 32`,
			`rhid.yaml:5:94: sites[0] "beijing": routers[0].attributes.ranks[0].local_preference: is for iBGP; node "lb-1" is in AS 65010 and this router in AS 65000`,
			`rhid.yaml:5:121: sites[0] "beijing": routers[0].attributes.worst.communities[0]: graceful-shutdown is set by rhid itself, while it drains (RFC 8326)`,
			`rhid.yaml:5:140: sites[0] "beijing": routers[0].attributes.worst.communities[1]: 65010:1:0 is of the form that rhid sets by itself: ASN, node id, rank`,
		},
	},
	{
		name:  "attributes of nothing",
		edits: []edit{{"    routers:\n", "    attributes: {}\n    routers:\n"}},
		want: []string{
			`rhid.yaml:4:17: sites[0] "beijing": attributes: has no row: give it ranks, worst, draining or degraded`,
		},
	},
	{
		name:  "large community of nobody",
		edits: []edit{{"    check: web\n", "    check: web\n    communities: [\"0:1:2\", \"65010:0:1\"]\n"}},
		want: []string{
			`rhid.yaml:17:19: services[0] "atm": communities[0]: "0:1:2" begins with 0, which no AS has (RFC 8092)`,
			`rhid.yaml:17:28: services[0] "atm": communities[1]: 65010:0:1 is of the form that rhid sets by itself: ASN, node id, rank`,
		},
	},
	{
		name:  "told of what is not there",
		edits: []edit{{router, router + ", services: [atm, atn, atm]"}},
		want: []string{
			`rhid.yaml:5:57: sites[0] "beijing": routers[0].services[1]: there is no service "atn"; did you mean "atm"?`,
			`rhid.yaml:5:62: sites[0] "beijing": routers[0].services[2]: "atm" is there twice, first in line 5`,
			`rhid.yaml:18:12: services[1] "pos": vips[0]: no router of node "lb-2" takes ipv4 of this service`,
		},
	},
	{
		name:  "sessions",
		edits: []edit{{router, router + ", password_credential: ../x, max_prefixes: 0, warn_prefixes: 0"}, {"    routers:\n", "    min_neighbours: 2\n    routers:\n"}},
		want: []string{
			`rhid.yaml:4:21: sites[0] "beijing": min_neighbours: 2 is more than the 1 routers of the site`,
			`rhid.yaml:6:62: sites[0] "beijing": routers[0].password_credential: "../x" is not the name of a credential: letters, digits, '.', '_' and '-'`,
			`rhid.yaml:6:82: sites[0] "beijing": routers[0].max_prefixes: must be at least 1, not 0`,
			`rhid.yaml:6:100: sites[0] "beijing": routers[0].warn_prefixes: must be at least 1, not 0`,
		},
	},
	{
		name:  "two passwords",
		edits: []edit{{router, router + ", password_file: /etc/rhid/good, password_credential: bgp"}},
		want: []string{
			`rhid.yaml:5:93: sites[0] "beijing": routers[0].password_credential: cannot stand together with password_file`,
		},
	},
	{
		name:  "bandwidth of a node that is not there",
		edits: []edit{{"    check: web\n", "    check: web\n    link_bandwidth: {lb-1: 10000, lb-3: 100}\n"}},
		want: []string{
			`rhid.yaml:17:41: services[0] "atm": link_bandwidth.lb-3: there is no node "lb-3"; did you mean "lb-1"?`,
		},
	},
	{
		name:  "fate without a check of each VIP",
		edits: []edit{{"    check: web\n", "    check: web\n    fate: per-vip\n"}},
		want: []string{
			`rhid.yaml:17:11: services[0] "atm": fate: per-vip: nothing tells the health of one VIP from that of another; let servers have the address vip:PORT`,
		},
	},
	{
		name:  "fate and families",
		edits: []edit{{"    check: web\n", "    check: web\n    fate: per-vip\n    families: apart\n"}},
		want: []string{
			`rhid.yaml:18:15: services[0] "atm": families: apart has no use where fate is per-vip`,
		},
	},
	{
		name:  "VIPs checked that are not there",
		edits: []edit{{"10.255.0.10/32", "10.255.0.10/32, 10.255.1.0/28"}, {`"10.9.1.1:80", "10.9.1.2:80"`, `"vip:80", "10.9.1.2:80"`}, {"    check: web\n", "    check: web\n    fate: any\n"}},
		want: []string{
			`rhid.yaml:13:28: services[0] "atm": vips[1]: the block 10.255.1.0/28 has no address of its own to check as vip`,
			`rhid.yaml:15:26: services[0] "atm": servers.addresses: vip cannot stand together with other servers`,
		},
	},
	{
		name:  "VIPs checked that are local only while announced",
		edits: []edit{{`"10.9.1.1:80", "10.9.1.2:80"`, `"vip:80"`}, {"    check: web\n", "    check: web\n    fate: any\n"}},
		want: []string{
			`rhid.yaml:15:14: services[0] "atm": servers: vip: the VIP is on this host only while it is announced, so the check could never go up; set bind to always or never`,
		},
	},
	{
		name:  "families that cannot be apart",
		edits: []edit{{"    check: web\n", "    check: web\n    families: apart\n"}},
		want: []string{
			`rhid.yaml:17:15: services[0] "atm": families: apart needs VIPs of both families, and there is none of ipv6`,
		},
	},
	{
		name:  "a family without servers",
		edits: []edit{{router, router + `, next_hop6: "fd00:1::1"`}, {"10.255.0.10/32", `10.255.0.10/32, "fd00:255::10/128"`}, {"    check: web\n", "    check: web\n    families: apart\n"}, {"name: pos", "name: atm-ipv6"}},
		want: []string{
			`rhid.yaml:15:26: services[0] "atm": servers.addresses: has no server of ipv6, and families are apart`,
			`rhid.yaml:18:11: services[1] "atm-ipv6": name: there is a service "atm-ipv6" already, first in line 12`,
		},
	},
	{
		name:  "a router that is nowhere",
		edits: []edit{{router, "{asn: 65000"}},
		want: []string{
			`rhid.yaml:5:9: sites[0] "beijing": routers[0]: has neither an address nor an interface`,
		},
	},
	{
		name:  "one link-local address on two links",
		edits: []edit{{router + "}", router + "}\n      - {name: left, address: \"fe80::1%eth1\", asn: 65000}\n      - {address: \"fe80::1%eth2\", asn: 65000}\n      - {address: \"fe80::2%eth2\", asn: 65000}"}},
		want: []string{
			`rhid.yaml:7:19: sites[0] "beijing": routers[2].address: router left has the same link-local address (fe80::1%eth1), and rhid cannot tell the two apart; give one of them another`,
		},
	},
	{
		name:  "unnumbered, and more",
		edits: []edit{{router + "}", router + "}\n      - {interface: eth1, asn: 65000, source: 10.1.0.11, password_file: /etc/rhid/good}\n      - {interface: eth1, asn: 65000}\n      - {interface: e:1, asn: 65000}"}},
		want: []string{
			`rhid.yaml:6:47: sites[0] "beijing": routers[1].source: cannot stand together with interface: the session is between link-local addresses`,
			`rhid.yaml:6:73: sites[0] "beijing": routers[1].password_file: cannot stand together with interface: the session is between link-local addresses`,
			`rhid.yaml:7:21: sites[0] "beijing": routers[2].interface: there is a router at eth1 already, first in line 6`,
			`rhid.yaml:8:21: sites[0] "beijing": routers[3].interface: "e:1" is not the name of an interface`,
		},
	},
}

func TestWrongBGP(t *testing.T) {
	t.Setenv("CREDENTIALS_DIRECTORY", "")
	for _, tt := range wrongBGP {
		t.Run(tt.name, func(t *testing.T) {
			text := apply(t, tt.edits)
			_, err := Parse("rhid.yaml", []byte(text), noFiles)
			var errs Errors
			if !errors.As(err, &errs) {
				t.Fatalf("error is %v, want Errors; the configuration:\n%s", err, text)
			}
			if diff := cmp.Diff(tt.want, strings.Split(errs.Error(), "\n")); diff != "" {
				t.Errorf("errors differ (-want +got):\n%s", diff)
			}
		})
	}
}
