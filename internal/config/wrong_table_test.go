package config

import "strings"

// wrong are configurations and all that must be said of them.
var wrong = []struct {
	name  string
	edits []edit
	want  []string
}{
	{
		name:  "not YAML",
		edits: []edit{{"bgp: {asn: 65010}", "bgp: {asn: 65010"}},
		want: []string{
			"rhid.yaml:2:1: not valid YAML: ',' or '}' must be specified",
		},
	},
	{
		name:  "unknown key at the top",
		edits: []edit{{"", "service: []\n"}},
		want: []string{
			`rhid.yaml:23:1: service: unknown key; did you mean "services"?`,
		},
	},
	{
		name:  "unknown key in a service",
		edits: []edit{{"    check: web\n", "    check: web\n    prioritty: 5\n"}},
		want: []string{
			`rhid.yaml:17:5: services[0] "atm": prioritty: unknown key; did you mean "priority"?`,
		},
	},
	{
		name:  "unknown key of another check type",
		edits: []edit{{"{type: http,", "{type: http, send: x,"}},
		want: []string{
			"rhid.yaml:10:21: checks.web.send: unknown key",
		},
	},
	{
		name:  "key twice",
		edits: []edit{{"    check: web\n", "    check: web\n    check: web\n"}},
		want: []string{
			`rhid.yaml:17:5: services[0] "atm": check: the key is there twice, first in line 16`,
		},
	},
	{
		name:  "check twice",
		edits: []edit{{"  web: {type: http, interval: 1s}\n", "  web: {type: http, interval: 1s}\n  web: {type: tcp}\n"}},
		want: []string{
			"rhid.yaml:11:3: checks.web: the key is there twice, first in line 10",
		},
	},
	{
		name:  "several wrong values at once",
		edits: []edit{{"asn: 65010", "asn: many"}, {"10.255.0.10/32", "10.255.0.10"}, {"interval: 1s", "interval: 1"}, {"type: tcp", "type: tpc"}},
		want: []string{
			`rhid.yaml:1:12: bgp.asn: must be a whole number, not "many"`,
			"rhid.yaml:10:31: checks.web.interval: 1 has no unit; write 1s or 1ms",
			`rhid.yaml:13:12: services[0] "atm": vips[0]: "10.255.0.10" lacks its prefix length; write 10.255.0.10/32`,
			`rhid.yaml:21:13: services[1] "pos": check: "tpc" is not a check type; the types are ` + strings.Join(typeNames(), ", ") + `; did you mean "tcp"?`,
		},
	},
	{
		name:  "missing keys",
		edits: []edit{{"{address: 10.1.0.1, asn: 65000}", "{address: 10.1.0.1}"}, {"    vips: [10.255.0.11/32]\n", ""}, {"      type: tcp\n", ""}},
		want: []string{
			`rhid.yaml:5:9: sites[0] "beijing": routers[0].asn: is required`,
			`rhid.yaml:17:5: services[1] "pos": vips: is required`,
			`rhid.yaml:20:7: services[1] "pos": check.type: is required`,
		},
	},
	{
		name:  "empty values",
		edits: []edit{{"vips: [10.255.0.10/32]", "vips: []"}, {"order: [lb-1, lb-2]", "order: []"}, {"name: pos", "name: ''"}, {"    check: web\n", "    check:\n"}},
		want: []string{
			`rhid.yaml:13:11: services[0] "atm": vips: must not be empty`,
			`rhid.yaml:14:12: services[0] "atm": order: must not be empty`,
			`rhid.yaml:16:11: services[0] "atm": check: has no value; give it one or leave the key out`,
			"rhid.yaml:17:11: services[1].name: must not be empty",
		},
	},
	{
		name:  "list in place of a mapping",
		edits: []edit{{"bgp: {asn: 65010}", "bgp: [asn, 65010]"}},
		want: []string{
			"rhid.yaml:1:6: bgp: must be a mapping, not a list",
		},
	},
	{
		name:  "names that cannot be used",
		edits: []edit{{"name: beijing", "name: bei jing"}, {"site: beijing,", "site: bei jing,"}, {"site: beijing,", "site: bei jing,"}, {"name: pos", "name: -pos"}},
		want: []string{
			`rhid.yaml:3:11: sites[0] "bei jing": name: "bei jing" is not a name: letters, digits, '.', '_' and '-', at most 63, the first a letter or digit`,
			`rhid.yaml:17:11: services[1] "-pos": name: "-pos" is not a name: letters, digits, '.', '_' and '-', at most 63, the first a letter or digit`,
		},
	},
	{
		name:  "no nodes",
		edits: []edit{{"nodes:\n  - {name: lb-1, site: beijing, address: 10.1.0.11}\n  - {name: lb-2, site: beijing, address: 10.1.0.12}\n", ""}},
		want: []string{
			"rhid.yaml:1:1: nodes: at least one node is needed",
		},
	},
	{
		name:  "node twice",
		edits: []edit{{"name: lb-2", "name: lb-1"}},
		want: []string{
			`rhid.yaml:8:12: nodes[1] "lb-1": name: there is a node "lb-1" already, first in line 7`,
			`rhid.yaml:14:19: services[0] "atm": order[1]: there is no node "lb-2"; did you mean "lb-1"?`,
			`rhid.yaml:19:13: services[1] "pos": order[0]: there is no node "lb-2"; did you mean "lb-1"?`,
		},
	},
	{
		name:  "node address twice",
		edits: []edit{{"10.1.0.12", "10.1.0.11"}},
		want: []string{
			`rhid.yaml:8:42: nodes[1] "lb-2": address: 10.1.0.11 is the address of another node, first in line 7`,
		},
	},
	{
		name:  "node id twice",
		edits: []edit{{"name: lb-1,", "name: lb-1, id: 2,"}},
		want: []string{
			`rhid.yaml:8:5: nodes[1] "lb-2": id: 2 is the id of another node, first in line 7`,
		},
	},
	{
		name:  "node id out of range",
		edits: []edit{{"name: lb-1,", "name: lb-1, id: 0,"}, {"name: lb-2,", "name: lb-2, id: 4294967296,"}},
		want: []string{
			`rhid.yaml:7:22: nodes[0] "lb-1": id: must be at least 1, not 0`,
			`rhid.yaml:8:22: nodes[1] "lb-2": id: 4294967296 is out of range: 0 to 4294967295`,
		},
	},
	{
		name:  "node address not of a host",
		edits: []edit{{"10.1.0.11", "0.0.0.0"}, {"10.1.0.12", `"::ffff:10.1.0.12"`}},
		want: []string{
			`rhid.yaml:7:42: nodes[0] "lb-1": address: 0.0.0.0 is not the address of a host`,
			`rhid.yaml:8:42: nodes[1] "lb-2": address: ::ffff:10.1.0.12 must be written as the IPv4 address 10.1.0.12`,
		},
	},
	{
		name:  "node in no site",
		edits: []edit{{"site: beijing", "site: beijng"}},
		want: []string{
			`rhid.yaml:7:24: nodes[0] "lb-1": site: there is no site "beijng"; did you mean "beijing"?`,
		},
	},
	{
		name:  "node without a router id",
		edits: []edit{{"10.1.0.11", `"fd00:1::11"`}},
		want: []string{
			`rhid.yaml:7:5: nodes[0] "lb-1": router_id: is required: the node has BGP neighbours and its address fd00:1::11 is not IPv4`,
		},
	},
	{
		name:  "one router id for two nodes",
		edits: []edit{{"{asn: 65010}", "{asn: 65010, router_id: 10.1.0.11}"}},
		want: []string{
			`rhid.yaml:8:5: nodes[1] "lb-2": router_id: 10.1.0.11 is the router id of node "lb-1", too`,
		},
	},
	{
		name:  "router id not IPv4",
		edits: []edit{{"{asn: 65010}", `{asn: 65010, router_id: "fd00::1"}`}},
		want: []string{
			"rhid.yaml:1:30: bgp.router_id: fd00::1 must be written as an IPv4 address, and not 0.0.0.0",
		},
	},
	{
		name:  "site twice",
		edits: []edit{{"nodes:\n", "  - name: beijing\nnodes:\n"}},
		want: []string{
			`rhid.yaml:6:11: sites[1] "beijing": name: there is a site "beijing" already, first in line 3`,
		},
	},
	{
		name:  "router twice",
		edits: []edit{{"      - {address: 10.1.0.1, asn: 65000}\n", "      - {address: 10.1.0.1, asn: 65000}\n      - {address: 10.1.0.1, asn: 65000}\n"}},
		want: []string{
			`rhid.yaml:6:19: sites[0] "beijing": routers[1].address: 10.1.0.1 is a router already, first in line 5`,
		},
	},
	{
		name:  "router twice, in site and node",
		edits: []edit{{"address: 10.1.0.11}", "address: 10.1.0.11, routers: [{address: 10.1.0.1, asn: 65000}]}"}},
		want: []string{
			`rhid.yaml:7:73: nodes[0] "lb-1": routers[0].address: 10.1.0.1 is a router already, first in line 5`,
		},
	},
	{
		name:  "router name twice",
		edits: []edit{{"      - {address: 10.1.0.1, asn: 65000}\n", "      - {name: tor, address: 10.1.0.1, asn: 65000}\n      - {name: tor, address: 10.1.0.2, asn: 65000}\n"}},
		want: []string{
			`rhid.yaml:6:16: sites[0] "beijing": routers[1].name: "tor" is a router already, first in line 5`,
		},
	},
	{
		name:  "router is the node",
		edits: []edit{{"{address: 10.1.0.1, asn: 65000}", "{address: 10.1.0.11, asn: 65000}"}},
		want: []string{
			`rhid.yaml:5:19: sites[0] "beijing": routers[0].address: 10.1.0.11 is node "lb-1" itself`,
		},
	},
	{
		name:  "router address without interface",
		edits: []edit{{"{address: 10.1.0.1, asn: 65000}", `{address: "fe80::1", asn: 65000}`}},
		want: []string{
			`rhid.yaml:5:19: sites[0] "beijing": routers[0].address: fe80::1 needs its interface; write fe80::1%eth0`,
		},
	},
	{
		name:  "reserved AS numbers",
		edits: []edit{{"asn: 65010", "asn: 23456"}, {"asn: 65000", "asn: 65535"}},
		want: []string{
			"rhid.yaml:1:12: bgp.asn: 23456 is AS_TRANS, which no network has (RFC 6793)",
			`rhid.yaml:5:34: sites[0] "beijing": routers[0].asn: 65535 is reserved (RFC 7300)`,
		},
	},
	{
		name:  "AS number zero",
		edits: []edit{{"asn: 65000", "asn: 0"}},
		want: []string{
			`rhid.yaml:5:34: sites[0] "beijing": routers[0].asn: must be at least 1, not 0`,
		},
	},
	{
		name:  "hold time too short",
		edits: []edit{{"{address: 10.1.0.1, asn: 65000}", "{address: 10.1.0.1, asn: 65000, hold: 2s}"}},
		want: []string{
			`rhid.yaml:5:47: sites[0] "beijing": routers[0].hold: must be at least 3s, not 2s`,
		},
	},
	{
		name:  "hold time in fractions",
		edits: []edit{{"{asn: 65010}", "{asn: 65010, hold: 3500ms}"}},
		want: []string{
			"rhid.yaml:1:25: bgp.hold: 3.5s must be whole seconds",
		},
	},
	{
		name:  "keepalive too long",
		edits: []edit{{"{address: 10.1.0.1, asn: 65000}", "{address: 10.1.0.1, asn: 65000, hold: 6s, keepalive: 3s}"}},
		want: []string{
			`rhid.yaml:5:62: sites[0] "beijing": routers[0].keepalive: 3s must be shorter than half of hold 6s, so that one lost keepalive does no harm`,
		},
	},
	{
		name:  "connect retry in fractions",
		edits: []edit{{"{asn: 65010}", "{asn: 65010, connect_retry: 1500ms}"}},
		want: []string{
			"rhid.yaml:1:34: bgp.connect_retry: 1.5s must be whole seconds",
		},
	},
	{
		name:  "connect retry too short",
		edits: []edit{{"{asn: 65010}", "{asn: 65010, connect_retry: 100ms}"}},
		want: []string{
			"rhid.yaml:1:34: bgp.connect_retry: must be at least 1s, not 100ms",
		},
	},
	{
		name:  "TTL security and multihop",
		edits: []edit{{"{address: 10.1.0.1, asn: 65000}", "{address: 10.1.0.1, asn: 65000, ttl_security: true, multihop: 3}"}},
		want: []string{
			`rhid.yaml:5:55: sites[0] "beijing": routers[0].ttl_security: cannot stand together with multihop: it accepts direct neighbours only (RFC 5082)`,
		},
	},
	{
		name:  "multihop of iBGP",
		edits: []edit{{"{address: 10.1.0.1, asn: 65000}", "{address: 10.1.0.1, asn: 65010, multihop: 3}"}},
		want: []string{
			`rhid.yaml:5:51: sites[0] "beijing": routers[0].multihop: is for eBGP; node "lb-1" and this router are both in AS 65010`,
		},
	},
	{
		name:  "multihop out of range",
		edits: []edit{{"{address: 10.1.0.1, asn: 65000}", "{address: 10.1.0.1, asn: 65000, multihop: 256}"}},
		want: []string{
			`rhid.yaml:5:51: sites[0] "beijing": routers[0].multihop: must be at most 255, not 256`,
		},
	},
	{
		name:  "passive without a listener",
		edits: []edit{{"{asn: 65010}", "{asn: 65010, port: -1}"}, {"{address: 10.1.0.1, asn: 65000}", "{address: 10.1.0.1, asn: 65000, passive: true}"}},
		want: []string{
			`rhid.yaml:5:50: sites[0] "beijing": routers[0].passive: nobody would connect: bgp.port is -1`,
		},
	},
	{
		name:  "port zero",
		edits: []edit{{"{asn: 65010}", "{asn: 65010, port: 0}"}},
		want: []string{
			"rhid.yaml:1:25: bgp.port: 0 is not a port; -1 only dials",
		},
	},
	{
		name:  "source of another family",
		edits: []edit{{"{address: 10.1.0.1, asn: 65000}", `{address: 10.1.0.1, asn: 65000, source: "fd00::2"}`}},
		want: []string{
			`rhid.yaml:5:49: sites[0] "beijing": routers[0].source: fd00::2 is not of the same address family as the router 10.1.0.1`,
		},
	},
	{
		name:  "next hops",
		edits: []edit{{"{address: 10.1.0.1, asn: 65000}", "{address: 10.1.0.1, asn: 65000, next_hop: 0.0.0.0, next_hop6: 10.1.0.11}"}},
		want: []string{
			`rhid.yaml:5:51: sites[0] "beijing": routers[0].next_hop: 0.0.0.0 is not the address of a host on the link`,
			`rhid.yaml:5:71: sites[0] "beijing": routers[0].next_hop6: 10.1.0.11 must be an IPv6 address`,
		},
	},
	{
		name:  "families",
		edits: []edit{{"{address: 10.1.0.1, asn: 65000}", "{address: 10.1.0.1, asn: 65000, families: [ipv4, ipv5, ipv4]}"}},
		want: []string{
			`rhid.yaml:5:58: sites[0] "beijing": routers[0].families[1]: "ipv5" is not one of ipv4, ipv6; did you mean "ipv4"?`,
			`rhid.yaml:5:64: sites[0] "beijing": routers[0].families[2]: ipv4 is there twice, first in line 5`,
		},
	},
	{
		name:  "no families",
		edits: []edit{{"{address: 10.1.0.1, asn: 65000}", "{address: 10.1.0.1, asn: 65000, families: []}"}},
		want: []string{
			`rhid.yaml:5:51: sites[0] "beijing": routers[0].families: must not be empty`,
		},
	},
	{
		name:  "no router takes the family",
		edits: []edit{{"{address: 10.1.0.1, asn: 65000}", `{address: 10.1.0.1, asn: 65000, families: [ipv6], next_hop6: "fd00:1::11"}`}},
		want: []string{
			`rhid.yaml:13:12: services[0] "atm": vips[0]: no router of node "lb-1" takes ipv4 of this service`,
			`rhid.yaml:18:12: services[1] "pos": vips[0]: no router of node "lb-2" takes ipv4 of this service`,
		},
	},
	{
		name:  "IPv6 VIP without a next hop",
		edits: []edit{{"vips: [10.255.0.10/32]", `vips: [10.255.0.10/32, "fd00:255::10/128"]`}},
		want: []string{
			`rhid.yaml:5:9: sites[0] "beijing": routers[0].next_hop6: is required: the session is IPv4 and service "atm" has the IPv6 VIP fd00:255::10; or leave ipv6 out of families`,
		},
	},
	{
		name:  "password file not there",
		edits: []edit{{"{address: 10.1.0.1, asn: 65000}", "{address: 10.1.0.1, asn: 65000, password_file: /etc/rhid/none}"}},
		want: []string{
			`rhid.yaml:5:56: sites[0] "beijing": routers[0].password_file: password file /etc/rhid/none cannot be read: no such file or directory`,
		},
	},
	{
		name:  "password file empty",
		edits: []edit{{"{address: 10.1.0.1, asn: 65000}", "{address: 10.1.0.1, asn: 65000, password_file: /etc/rhid/empty}"}},
		want: []string{
			`rhid.yaml:5:56: sites[0] "beijing": routers[0].password_file: the first line of password file /etc/rhid/empty is empty`,
		},
	},
	{
		name:  "password too long",
		edits: []edit{{"{address: 10.1.0.1, asn: 65000}", "{address: 10.1.0.1, asn: 65000, password_file: /etc/rhid/long}"}},
		want: []string{
			`rhid.yaml:5:56: sites[0] "beijing": routers[0].password_file: the password in /etc/rhid/long has 81 bytes; TCP MD5 takes 80`,
		},
	},
	{
		name:  "password file relative",
		edits: []edit{{"{address: 10.1.0.1, asn: 65000}", "{address: 10.1.0.1, asn: 65000, password_file: bgp.pw}"}},
		want: []string{
			`rhid.yaml:5:56: sites[0] "beijing": routers[0].password_file: "bgp.pw" must be an absolute path`,
		},
	},
	{
		name:  "bgp without AS number",
		edits: []edit{{"bgp: {asn: 65010}\n", ""}},
		want: []string{
			`rhid.yaml:11:5: services[0] "atm": via: bgp needs an AS number: set bgp.asn, or asn of lb-1, lb-2`,
			`rhid.yaml:16:5: services[1] "pos": via: bgp needs an AS number: set bgp.asn, or asn of lb-2`,
		},
	},
	{
		name:  "bgp without router",
		edits: []edit{{"    routers:\n      - {address: 10.1.0.1, asn: 65000}\n", ""}},
		want: []string{
			`rhid.yaml:10:5: services[0] "atm": via: bgp needs a router, and these nodes and their sites have none: lb-1, lb-2`,
			`rhid.yaml:15:5: services[1] "pos": via: bgp needs a router, and these nodes and their sites have none: lb-2`,
		},
	},
	{
		name:  "VIP twice in a service",
		edits: []edit{{"10.255.0.10/32", "10.255.0.10/32, 10.255.0.10/32"}},
		want: []string{
			`rhid.yaml:13:28: services[0] "atm": vips[1]: 10.255.0.10/32 is there twice`,
		},
	},
	{
		name:  "VIP of two services",
		edits: []edit{{"10.255.0.11/32", "10.255.0.10/32"}},
		want: []string{
			`rhid.yaml:18:12: services[1] "pos": vips[0]: 10.255.0.10/32 is a VIP of service "atm", too, in line 13`,
		},
	},
	{
		name:  "VIP is a node",
		edits: []edit{{"10.255.0.10/32", "10.1.0.12/32"}},
		want: []string{
			`rhid.yaml:13:12: services[0] "atm": vips[0]: 10.1.0.12/32 cannot be a VIP: it is the address of node "lb-2"`,
		},
	},
	{
		name:  "VIP is a router",
		edits: []edit{{"10.255.0.10/32", "10.1.0.1/32"}},
		want: []string{
			`rhid.yaml:13:12: services[0] "atm": vips[0]: 10.1.0.1/32 cannot be a VIP: it is the address of router "10.1.0.1"`,
		},
	},
	{
		name:  "addresses that cannot be VIPs",
		edits: []edit{{"[10.255.0.10/32]", `[127.0.0.1/32, 0.0.0.0/32, 224.0.0.5/32, 169.254.1.1/32, 255.255.255.255/32, "::ffff:10.0.0.1/128"]`}},
		want: []string{
			`rhid.yaml:13:12: services[0] "atm": vips[0]: 127.0.0.1/32 cannot be a VIP: it is a loopback address`,
			`rhid.yaml:13:26: services[0] "atm": vips[1]: 0.0.0.0/32 cannot be a VIP: it is the unspecified address`,
			`rhid.yaml:13:38: services[0] "atm": vips[2]: 224.0.0.5/32 cannot be a VIP: it is a multicast address`,
			`rhid.yaml:13:52: services[0] "atm": vips[3]: 169.254.1.1/32 cannot be a VIP: it is a link-local address`,
			`rhid.yaml:13:68: services[0] "atm": vips[4]: 255.255.255.255/32 cannot be a VIP: it is the broadcast address`,
			`rhid.yaml:13:88: services[0] "atm": vips[5]: ::ffff:10.0.0.1/128 must be written as the IPv4 prefix 10.0.0.1/32`,
		},
	},
	{
		name:  "VIP with host bits beyond",
		edits: []edit{{"10.255.0.10/32", "10.255.0.10/33"}},
		want: []string{
			`rhid.yaml:13:12: services[0] "atm": vips[0]: "10.255.0.10/33" is not an IP prefix like 10.255.0.1/32 or fd00::1/128`,
		},
	},
	{
		name:  "order with unknown node",
		edits: []edit{{"[lb-1, lb-2]", "[lb-1, lb-3]"}},
		want: []string{
			`rhid.yaml:14:19: services[0] "atm": order[1]: there is no node "lb-3"; did you mean "lb-1"?`,
		},
	},
	{
		name:  "order with a node twice",
		edits: []edit{{"[lb-1, lb-2]", "[lb-1, lb-1]"}},
		want: []string{
			`rhid.yaml:14:19: services[0] "atm": order[1]: node "lb-1" is in the order twice, first in line 14`,
		},
	},
	{
		name:  "main node unknown",
		edits: []edit{{"    order: [lb-2]\n", "    main: lb-3\n"}},
		want: []string{
			`rhid.yaml:19:11: services[1] "pos": main: there is no node "lb-3"; did you mean "lb-1"?`,
		},
	},
	{
		name:  "main node and order disagree",
		edits: []edit{{"    order: [lb-2]\n", "    order: [lb-2]\n    main: lb-1\n"}},
		want: []string{
			`rhid.yaml:20:11: services[1] "pos": main: is lb-1, but the order begins with lb-2; leave one of them out`,
		},
	},
	{
		name:  "cluster files with relative paths",
		edits: []edit{{"services:\n", "cluster: {key_file: keys, state_dir: ''}\nservices:\n"}},
		want: []string{
			`rhid.yaml:11:21: cluster.key_file: "keys" must be an absolute path`,
			`rhid.yaml:11:38: cluster.state_dir: "" must be an absolute path`,
		},
	},
	{
		name:  "damping that cannot end",
		edits: []edit{{"    order: [lb-2]\n", "    order: [lb-2]\n    damping: {suppress: 500}\n"}},
		want: []string{
			`rhid.yaml:20:14: services[1] "pos": damping.reuse: 1000 must be below suppress, 500`,
		},
	},
	{
		name:  "announcers more than the order",
		edits: []edit{{"    check: web\n", "    check: web\n    announcers: 3\n"}},
		want: []string{
			`rhid.yaml:17:17: services[0] "atm": announcers: 3 is more than the 2 of the order`,
		},
	},
	{
		name:  "announcers zero",
		edits: []edit{{"    check: web\n", "    check: web\n    announcers: 0\n"}},
		want: []string{
			`rhid.yaml:17:17: services[0] "atm": announcers: "0" is neither a number from 1 nor all`,
		},
	},
	{
		name:  "announcers in words",
		edits: []edit{{"    check: web\n", "    check: web\n    announcers: every\n"}},
		want: []string{
			`rhid.yaml:17:17: services[0] "atm": announcers: "every" is neither a number from 1 nor all`,
		},
	},
	{
		name:  "unknown backend",
		edits: []edit{{"    check: web\n", "    check: web\n    via: [bgp, kernal]\n"}},
		want: []string{
			`rhid.yaml:17:16: services[0] "atm": via[1]: "kernal" is not one of bgp, kernel; did you mean "kernel"?`,
		},
	},
	{
		name:  "backend twice",
		edits: []edit{{"    check: web\n", "    check: web\n    via: [bgp, bgp]\n"}},
		want: []string{
			`rhid.yaml:17:16: services[0] "atm": via[1]: bgp is there twice, first in line 17`,
		},
	},
	{
		name:  "no backend",
		edits: []edit{{"    check: web\n", "    check: web\n    via: []\n"}},
		want: []string{
			`rhid.yaml:17:10: services[0] "atm": via: must not be empty`,
		},
	},
	{
		name:  "more healthy servers than there are",
		edits: []edit{{`"10.9.1.2:80"]`, `"10.9.1.2:80"], min_healthy: 3`}},
		want: []string{
			`rhid.yaml:15:71: services[0] "atm": servers.min_healthy: 3 is more than the 2 servers, by weight`,
		},
	},
	{
		name:  "min_healthy out of range",
		edits: []edit{{`"10.9.1.2:80"]`, `"10.9.1.2:80"], min_healthy: 120%`}},
		want: []string{
			`rhid.yaml:15:71: services[0] "atm": servers.min_healthy: 120% must be between 1% and 100%`,
		},
	},
	{
		name:  "min_healthy in words",
		edits: []edit{{`"10.9.1.2:80"]`, `"10.9.1.2:80"], min_healthy: half`}},
		want: []string{
			`rhid.yaml:15:71: services[0] "atm": servers.min_healthy: "half" is neither a number nor a percentage like 50%`,
		},
	},
	{
		name:  "server twice",
		edits: []edit{{"10.9.1.2:80", "10.9.1.1:080"}},
		want: []string{
			`rhid.yaml:15:42: services[0] "atm": servers.addresses[1]: 10.9.1.1:080 is there twice, first in line 15`,
		},
	},
	{
		name:  "server without port",
		edits: []edit{{"10.9.1.1:80", "10.9.1.1"}, {"10.9.1.2:80", "fd00::1"}},
		want: []string{
			`rhid.yaml:15:27: services[0] "atm": servers.addresses[0]: "10.9.1.1" has no port; write 10.9.1.1:PORT`,
			`rhid.yaml:15:39: services[0] "atm": servers.addresses[1]: "fd00::1" has no port; write [fd00::1]:PORT`,
		},
	},
	{
		name:  "server that is no host",
		edits: []edit{{"10.9.1.1:80", "10.9.1.300:80"}, {"10.9.1.2:80", "a_b-.x:99999"}},
		want: []string{
			`rhid.yaml:15:27: services[0] "atm": servers.addresses[0]: "10.9.1.300" is neither an IP address nor a host name`,
			`rhid.yaml:15:44: services[0] "atm": servers.addresses[1]: "a_b-.x" is neither an IP address nor a host name`,
		},
	},
	{
		name:  "server with port for icmp",
		edits: []edit{{"{type: http, interval: 1s}", "{type: icmp}"}},
		want: []string{
			`rhid.yaml:15:27: services[0] "atm": servers.addresses[0]: "10.9.1.1:80" has a port, which a check of this type does not use; write 10.9.1.1`,
			`rhid.yaml:15:42: services[0] "atm": servers.addresses[1]: "10.9.1.2:80" has a port, which a check of this type does not use; write 10.9.1.2`,
		},
	},
	{
		name:  "server is a VIP",
		edits: []edit{{"10.9.1.1:80", "10.255.0.11:80"}},
		want: []string{
			`rhid.yaml:15:27: services[0] "atm": servers.addresses[0]: 10.255.0.11 is a VIP of service "pos": the probe would go wherever the route leads, not to a server of this host; set allow_vip if that is meant`,
		},
	},
	{
		name:  "servers of another family than the source",
		edits: []edit{{"interval: 1s}", `interval: 1s, source: "fd00::2"}`}},
		want: []string{
			`rhid.yaml:15:27: services[0] "atm": servers.addresses[0]: 10.9.1.1 is not of the same address family as the check's source fd00::2`,
			`rhid.yaml:15:42: services[0] "atm": servers.addresses[1]: 10.9.1.2 is not of the same address family as the check's source fd00::2`,
		},
	},
	{
		name:  "no servers",
		edits: []edit{{`["10.9.1.1:80", "10.9.1.2:80"]`, "[]"}},
		want: []string{
			`rhid.yaml:15:26: services[0] "atm": servers.addresses: must not be empty`,
		},
	},
	{
		name:  "nothing to look at",
		edits: []edit{{"      address: 10.9.1.3:9100\n", ""}},
		want: []string{
			`rhid.yaml:21:7: services[1] "pos": check: has nothing to look at: give the service servers, or the check an address`,
		},
	},
	{
		name:  "unknown check",
		edits: []edit{{"check: web", "check: wbe"}},
		want: []string{
			`rhid.yaml:16:12: services[0] "atm": check: there is no check "wbe"; did you mean "web"?`,
		},
	},
	{
		name:  "check in place named as another",
		edits: []edit{{"name: pos", "name: web"}},
		want: []string{
			`rhid.yaml:21:7: services[1] "web": check: a check in place has its service's name, and there is a named check "web"`,
		},
	},
	{
		name:  "timeout of a check in place",
		edits: []edit{{"      type: tcp\n", "      type: tcp\n      timeout: 2s\n"}},
		want: []string{
			`rhid.yaml:22:16: services[1] "pos": check.timeout: 2s must be shorter than interval 1s`,
		},
	},
	{
		name:  "timeout against the fast interval",
		edits: []edit{{"interval: 1s}", "interval: 1s, fast_interval: 200ms, timeout: 500ms}"}},
		want: []string{
			"rhid.yaml:10:66: checks.web.timeout: 500ms must be shorter than fast_interval 200ms",
		},
	},
	{
		name:  "fast interval longer than interval",
		edits: []edit{{"interval: 1s}", "interval: 1s, fast_interval: 2s}"}},
		want: []string{
			"rhid.yaml:10:50: checks.web.fast_interval: 2s must not be longer than interval 1s",
		},
	},
	{
		name:  "rise and fall",
		edits: []edit{{"interval: 1s}", "interval: 1s, rise: 0, fall: -1}"}},
		want: []string{
			"rhid.yaml:10:41: checks.web.rise: must be at least 1, not 0",
			"rhid.yaml:10:50: checks.web.fall: must be at least 1, not -1",
		},
	},
	{
		name:  "interval too short",
		edits: []edit{{"interval: 1s}", "interval: 1ms}"}},
		want: []string{
			"rhid.yaml:10:31: checks.web.interval: must be at least 10ms, not 1ms",
		},
	},
	{
		name:  "check settings of the type",
		edits: []edit{{"      type: tcp\n", "      type: tcp\n      send: a\n      send_hex: 0x\n      match: prefix\n"}},
		want: []string{
			`rhid.yaml:23:17: services[1] "pos": check.send_hex: cannot stand together with send; use one of them`,
			`rhid.yaml:24:14: services[1] "pos": check.match: needs expect or expect_hex`,
		},
	},
	{
		name:  "http settings",
		edits: []edit{{"interval: 1s}", `interval: 1s, path: x, expect_body: "(", expect_status: [999]}`}},
		want: []string{
			`rhid.yaml:10:41: checks.web.path: "x" must begin with / and have neither blank nor fragment`,
			"rhid.yaml:10:57: checks.web.expect_body: is not a regular expression: error parsing regexp: missing closing ): `(`",
			`rhid.yaml:10:77: checks.web.expect_status: "999" is neither a status code nor a range such as 200-299`,
		},
	},
	{
		name:  "haproxy settings",
		edits: []edit{{"      type: tcp\n", "      type: haproxy\n      socket: admin.sock\n      backend: a b\n      max_5xx: 100\n"}},
		want: []string{
			`rhid.yaml:22:15: services[1] "pos": check.socket: "admin.sock" must be an absolute path, as stats socket in HAProxy's configuration has it`,
			`rhid.yaml:23:16: services[1] "pos": check.backend: "a b" is not the name of a backend`,
			`rhid.yaml:24:16: services[1] "pos": check.max_5xx: 100 is not between 1 and 99; leave it out for no limit`,
		},
	},
	{
		name:  "capture settings",
		edits: []edit{{"      type: tcp\n", "      type: capture\n      device: a/b\n      count: bytes\n      sample: 3\n      resolve: all\n"}},
		want: []string{
			`rhid.yaml:22:15: services[1] "pos": check.device: "a/b" is not the name of an interface`,
			`rhid.yaml:23:14: services[1] "pos": check.count: "bytes" is not one of connections, requests, segments, windows`,
			`rhid.yaml:24:15: services[1] "pos": check.sample: 3 is not a power of two from 1 to 1024`,
			`rhid.yaml:25:16: services[1] "pos": check.resolve: all is not for a passive check, which watches one address`,
		},
	},
	{
		name:  "exec without command",
		edits: []edit{{"      type: tcp\n", "      type: exec\n"}},
		want: []string{
			`rhid.yaml:21:7: services[1] "pos": check.command: is required`,
		},
	},
	{
		name:  "metric too high for the kernel",
		edits: []edit{{"    check: web\n", "    check: web\n    via: [kernel]\n    metric: {base: 16777100}\n"}},
		want: []string{
			`rhid.yaml:18:13: services[0] "atm": metric: the worst rank would have metric 16777300; a kernel metric must be below 16777216, or FRR takes part of it for the distance`,
		},
	},
	{
		name:  "metric zero for the kernel",
		edits: []edit{{"    check: web\n", "    check: web\n    via: [kernel]\n    metric: {base: 0}\n"}},
		want: []string{
			`rhid.yaml:18:20: services[0] "atm": metric.base: must be at least 1 for the kernel, which takes 0 for 1024 in IPv6`,
		},
	},
	{
		name:  "metric too high for MED",
		edits: []edit{{"    check: web\n", "    check: web\n    metric: {base: 4294967295}\n"}},
		want: []string{
			`rhid.yaml:17:13: services[0] "atm": metric: the worst rank would have metric 4294967495, more than a MED can hold`,
		},
	},
	{
		name:  "community",
		edits: []edit{{"    check: web\n", "    check: web\n    communities: [65000, 65536:1, graceful-shutdown, blackhole, 1:2:x]\n"}},
		want: []string{
			`rhid.yaml:17:19: services[0] "atm": communities[0]: "65000" is not a community: write 65000:100 (each below 65536), 65000:1:2, or no-export, no-advertise, local-as, no-peer`,
			`rhid.yaml:17:26: services[0] "atm": communities[1]: "65536:1" is not a community: write 65000:100 (each below 65536), 65000:1:2, or no-export, no-advertise, local-as, no-peer`,
			`rhid.yaml:17:35: services[0] "atm": communities[2]: graceful-shutdown is set by rhid itself, while it drains (RFC 8326)`,
			`rhid.yaml:17:54: services[0] "atm": communities[3]: blackhole would make routers drop the service's traffic (RFC 7999)`,
			`rhid.yaml:17:65: services[0] "atm": communities[4]: "1:2:x" is not a community: write 65000:100 (each below 65536), 65000:1:2, or no-export, no-advertise, local-as, no-peer`,
		},
	},
	{
		name:  "community twice",
		edits: []edit{{"    check: web\n", "    check: web\n    communities: [65535:65281, no-export]\n"}},
		want: []string{
			`rhid.yaml:17:32: services[0] "atm": communities[1]: no-export is there twice, first in line 17`,
		},
	},
	{
		name:  "community of rhid's own",
		edits: []edit{{"    check: web\n", "    check: web\n    communities: [65010:2:0]\n"}},
		want: []string{
			`rhid.yaml:17:19: services[0] "atm": communities[0]: 65010:2:0 is of the form that rhid sets by itself: ASN, node id, rank`,
		},
	},
	{
		name:  "local preference without iBGP",
		edits: []edit{{"    check: web\n", "    check: web\n    local_preference: 200\n"}},
		want: []string{
			`rhid.yaml:17:23: services[0] "atm": local_preference: is for iBGP, and no router of the order's nodes is in the node's own AS`,
		},
	},
	{
		name:  "prepend without eBGP",
		edits: []edit{{"{address: 10.1.0.1, asn: 65000}", "{address: 10.1.0.1, asn: 65010}"}, {"    check: web\n", "    check: web\n    prepend: 2\n"}},
		want: []string{
			`rhid.yaml:17:14: services[0] "atm": prepend: is for eBGP, and all routers of the order's nodes are in the node's own AS`,
		},
	},
	{
		name:  "BGP attributes without bgp",
		edits: []edit{{"    check: web\n", "    check: web\n    via: [kernel]\n    prepend: 1\n    local_preference: 100\n    communities: [no-export]\n"}},
		want: []string{
			`rhid.yaml:18:14: services[0] "atm": prepend: is for bgp, which is not in via`,
			`rhid.yaml:19:23: services[0] "atm": local_preference: is for bgp, which is not in via`,
			`rhid.yaml:20:18: services[0] "atm": communities: are for bgp, which is not in via`,
		},
	},
	{
		name:  "failback",
		edits: []edit{{"    check: web\n", "    check: web\n    failback: {mode: automatic, delay: 25h}\n"}},
		want: []string{
			`rhid.yaml:17:22: services[0] "atm": failback.mode: "automatic" is not one of auto, manual, never`,
			`rhid.yaml:17:40: services[0] "atm": failback.delay: must be at most 24h, not 25h0m0s`,
		},
	},
	{
		name:  "kernel numbers",
		edits: []edit{{"", "kernel: {protocol: 188, table: 255, tiers: [0, 255]}\n"}},
		want: []string{
			"rhid.yaml:23:20: kernel.protocol: 188 belongs to FRR; take one that nobody uses, such as 151",
			"rhid.yaml:23:32: kernel.table: 255 is the kernel's table of local addresses",
			"rhid.yaml:23:45: kernel.tiers[0]: must be at least 1, not 0",
			"rhid.yaml:23:48: kernel.tiers[1]: must be at most 254, not 255",
		},
	},
	{
		name:  "metric of FRR",
		edits: []edit{{"    check: web\n", "    check: web\n    via: [kernel]\n    metric: {base: 10, step: 10}\n"}},
		want: []string{
			`rhid.yaml:18:13: services[0] "atm": metric: rank 1 would have metric 20, which FRR gives to its own routes: beside one to another node the kernel takes none of rhid's`,
		},
	},
	{
		name:  "metric of BIRD",
		edits: []edit{{"    check: web\n", "    check: web\n    via: [bgp, kernel]\n    metric: {base: 32}\n"}},
		want: []string{
			`rhid.yaml:18:13: services[0] "atm": metric: rank 0 would have metric 32, which BIRD gives to its own routes: beside one to another node the kernel takes none of rhid's`,
		},
	},
	{
		name:  "tier devices",
		edits: []edit{{"", "kernel: {next_hop: tier, tier_devices: [t0, t 1, t0]}\n"}},
		want: []string{
			`rhid.yaml:23:45: kernel.tier_devices[1]: "t 1" is not the name of an interface`,
			"rhid.yaml:23:50: kernel.tier_devices[2]: t0 is there twice, first in line 23",
		},
	},
	{
		name:  "too many tier devices",
		edits: []edit{{"", "kernel: {next_hop: tier, tier_devices: [t0, t1, t2, t3]}\n"}},
		want: []string{
			"rhid.yaml:23:40: kernel.tier_devices: must be one for each of the 3 tiers, and there are 4",
		},
	},
	{
		name:  "tier devices without tiers",
		edits: []edit{{"", "kernel: {tier_devices: [t0, t1, t2]}\n"}},
		want: []string{
			"rhid.yaml:23:24: kernel.tier_devices: is for next_hop tier, and next_hop is lo",
		},
	},
	{
		name:  "address beside FRR",
		edits: []edit{{"    check: web\n", "    check: web\n    via: [kernel]\n    vip: {mode: address}\n"}, {"", "kernel: {readback: {from: [frr]}}\n"}},
		want: []string{
			`rhid.yaml:17:10: services[0] "atm": via: kernel with vip.mode address: FRR, in kernel.readback.from, prefers the connected route of the address and exports nothing; use anyip`,
		},
	},
	{
		name:  "kernel read-back",
		edits: []edit{{"", "kernel: {readback: {from: [frr, bird, frr, gated], interval: 100ms, bird_socket: bird.ctl}}\n"}},
		want: []string{
			"rhid.yaml:23:39: kernel.readback.from[2]: frr is there twice, first in line 23",
			`rhid.yaml:23:44: kernel.readback.from[3]: "gated" is not one of frr, bird`,
			"rhid.yaml:23:62: kernel.readback.interval: must be at least 1s, not 100ms",
			`rhid.yaml:23:82: kernel.readback.bird_socket: "bird.ctl" must be an absolute path`,
		},
	},
	{
		name:  "kernel witness",
		edits: []edit{{"", "kernel: {witness_hold: 11s}\n"}},
		want: []string{
			"rhid.yaml:23:24: kernel.witness_hold: 11s is longer than cluster.witness_hold, 10s",
		},
	},
	{
		name:  "kernel protocol of BIRD",
		edits: []edit{{"", "kernel: {protocol: 12, table: 0, tiers: []}\n"}},
		want: []string{
			"rhid.yaml:23:20: kernel.protocol: 12 belongs to BIRD; take one that nobody uses, such as 151",
			"rhid.yaml:23:31: kernel.table: must be at least 1, not 0",
			"rhid.yaml:23:41: kernel.tiers: must not be empty",
		},
	},
	{
		name:  "label",
		edits: []edit{{"", "vip: {label: eth0}\n"}},
		want: []string{
			`rhid.yaml:23:14: vip.label: "eth0" must be lo: and then letters, digits, '.', '_' or '-'`,
		},
	},
	{
		name:  "label too long",
		edits: []edit{{"", "vip: {label: 'lo:rhid-of-the-bank'}\n"}},
		want: []string{
			`rhid.yaml:23:14: vip.label: "lo:rhid-of-the-bank" has 19 characters; a label may have 15`,
		},
	},
	{
		name:  "label of a service",
		edits: []edit{{"    check: web\n", "    check: web\n    vip: {label: 'lo:x'}\n"}},
		want: []string{
			`rhid.yaml:17:11: services[0] "atm": vip.label: unknown key`,
		},
	},
	{
		name:  "vip settings",
		edits: []edit{{"", "vip: {bind: sometimes, linger: 1h}\n"}},
		want: []string{
			`rhid.yaml:23:13: vip.bind: "sometimes" is not one of announcing, always, never`,
			"rhid.yaml:23:32: vip.linger: must be at most 10m, not 1h0m0s",
		},
	},
	{
		name:  "stop before the drain is over",
		edits: []edit{{"", "stop: {timeout: 2s}\n"}},
		want: []string{
			"rhid.yaml:23:17: stop.timeout: 2s must be longer than drain_time 2s",
		},
	},
	{
		name:  "socket",
		edits: []edit{{"", "control: {socket: rhid.sock}\n"}},
		want: []string{
			`rhid.yaml:23:19: control.socket: "rhid.sock" must be an absolute path`,
		},
	},
	{
		name:  "endpoint for reports",
		edits: []edit{{"", "control: {report: {listen: atm, token_file: token}}\n"}},
		want: []string{
			`rhid.yaml:23:28: control.report.listen: "atm" is not an IP address and port, as 127.0.0.1:9151, or self:9151`,
			`rhid.yaml:23:45: control.report.token_file: "token" must be an absolute path`,
		},
	},
	{
		name:  "endpoint for reports without a token",
		edits: []edit{{"", "control: {report: {listen: \"[::1]:9151\"}}\n"}},
		want:  []string{"rhid.yaml:23:19: control.report.token_file: is required"},
	},
	{
		name:  "endpoint for reports on the network, in the clear",
		edits: []edit{{"", "control: {report: {listen: \"self:9151\", token_file: /etc/rhid/token}}\n"}},
		want: []string{
			`rhid.yaml:23:28: control.report.listen: "self:9151" is on the network, where the token could be read: it needs tls, or 127.0.0.1 in its place`,
		},
	},
	{
		name:  "endpoint for reports on all addresses, in the clear",
		edits: []edit{{"", "control: {report: {listen: \"[::]:9151\", token_file: /etc/rhid/token}}\n"}},
		want: []string{
			`rhid.yaml:23:28: control.report.listen: "[::]:9151" is on the network, where the token could be read: it needs tls, or 127.0.0.1 in its place`,
		},
	},
	{
		name:  "endpoint for reports with half of TLS",
		edits: []edit{{"", "control: {report: {listen: \"self:9151\", token_file: /etc/rhid/token, tls: {cert_file: report.crt}}}\n"}},
		want: []string{
			`rhid.yaml:23:75: control.report.tls.key_file: is required`,
			`rhid.yaml:23:87: control.report.tls.cert_file: "report.crt" must be an absolute path`,
		},
	},
	{
		name:  "endpoint for reports without its certificate",
		edits: []edit{{"", "control: {report: {listen: \"self:9151\", token_file: /etc/rhid/token, tls: {cert_file: /etc/rhid/none, key_file: /etc/rhid/good}}}\n"}},
		want:  []string{`rhid.yaml:23:75: control.report.tls: /etc/rhid/none cannot be read: no such file or directory`},
	},
	{
		name:  "endpoint for reports with a certificate that is none",
		edits: []edit{{"", "control: {report: {listen: \"self:9151\", token_file: /etc/rhid/token, tls: {cert_file: /etc/rhid/good, key_file: /etc/rhid/good}}}\n"}},
		want:  []string{`rhid.yaml:23:75: control.report.tls: the certificate in /etc/rhid/good with the key in /etc/rhid/good: tls: failed to find any PEM data in certificate input`},
	},
	{
		name:  "socket path too long",
		edits: []edit{{"", "control: {socket: /xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx}\n"}},
		want: []string{
			"rhid.yaml:23:19: control.socket: has 108 bytes; a socket's path may have 107",
		},
	},
	{
		name:  "log",
		edits: []edit{{"", "log: {level: trace, format: xml}\n"}},
		want: []string{
			`rhid.yaml:23:14: log.level: "trace" is not one of debug, info, warn, error`,
			`rhid.yaml:23:29: log.format: "xml" is not one of text, json`,
		},
	},
	{
		name: "links",
		edits: []edit{
			{"    routers:", "    links:\n" +
				"      - {name: core, check: {type: icmp}}\n" +
				"      - {name: core, check: {type: icmp, address: 10.1.0.1, timeout: 200ms}, max_delay: 200ms}\n" +
				"      - {name: w n, check: web, addresses: [10.1.0.1], effect: none}\n" +
				"    routers:"},
		},
		want: []string{
			`rhid.yaml:5:9: sites[0] "beijing": links[0].addresses: is required: the link has nothing to probe; or give the check an address`,
			`rhid.yaml:6:16: sites[0] "beijing": links[1].name: there is a link "core" already, first in line 5`,
			`rhid.yaml:6:89: sites[0] "beijing": links[1].max_delay: 200ms must be positive and shorter than the check's timeout 200ms: a later answer counts as lost`,
			`rhid.yaml:7:16: sites[0] "beijing": links[2].name: "w n" is not a name: letters, digits, '.', '_' and '-', at most 63, the first a letter or digit`,
			`rhid.yaml:7:45: sites[0] "beijing": links[2].addresses[0]: "10.1.0.1" has no port; write 10.1.0.1:PORT`,
			`rhid.yaml:7:64: sites[0] "beijing": links[2].effect: "none" is not one of alarm, standby, down`,
		},
	},
	{
		name: "links of a node",
		edits: []edit{
			{"    routers:", "    links: [{name: core, check: {type: icmp, address: 10.1.0.1}}]\n    routers:"},
			{"address: 10.1.0.11}", "address: 10.1.0.11, links: [{name: core, check: wbe, backends: [bgp, bgp, ospf]}]}"},
			{"address: 10.1.0.12}", "address: 10.1.0.12, links: [{name: x, check: {type: icmp}, addresses: [10.255.0.11, 10.1.0.1, 10.1.0.1], min_healthy: 4, window: 0, max_loss: 101}]}"},
		},
		want: []string{
			`rhid.yaml:8:68: nodes[0] "lb-1": links[0].name: there is a link "core" already, first in line 4`,
			`rhid.yaml:8:81: nodes[0] "lb-1": links[0].check: there is no check "wbe"; did you mean "web"?`,
			`rhid.yaml:8:102: nodes[0] "lb-1": links[0].backends[1]: bgp is there twice, first in line 8`,
			`rhid.yaml:8:107: nodes[0] "lb-1": links[0].backends[2]: "ospf" is not one of bgp, kernel`,
			`rhid.yaml:9:104: nodes[1] "lb-2": links[0].addresses[0]: 10.255.0.11 is a VIP of service "pos": the probe would go wherever the route leads, not to a server of this host; set allow_vip if that is meant`,
			`rhid.yaml:9:127: nodes[1] "lb-2": links[0].addresses[2]: 10.1.0.1 is there twice, first in line 9`,
			`rhid.yaml:9:151: nodes[1] "lb-2": links[0].min_healthy: 4 is more than the 3 addresses`,
			`rhid.yaml:9:162: nodes[1] "lb-2": links[0].window: must be at least 1, not 0`,
			`rhid.yaml:9:175: nodes[1] "lb-2": links[0].max_loss: must be at most 100, not 101`,
		},
	},
	{
		name:  "overload",
		edits: []edit{{"", "overload: {type: tcp}\n"}},
		want: []string{
			`rhid.yaml:23:11: overload: has nothing to look at: give the check an address, or use a check of type load`,
		},
	},
	{
		name:  "overload by a check that is not there",
		edits: []edit{{"", "overload: load\n"}},
		want: []string{
			`rhid.yaml:23:11: overload: there is no check "load"`,
		},
	},
}
