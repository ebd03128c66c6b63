//go:build integration

package twodc

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// routes are the VIPs' routes in the routers.
type routes struct {
	bgp    int // paths in the cores' BGP tables that hosts announced
	lsas   int // external LSAs of VIPs at branch-a
	branch int // prefixes in the FIBs of both branches
	near   int // of them, those that go to the branch's own data centre
}

func (d *dc) routes() routes {
	d.t.Helper()
	var r routes
	lsas := liveLSAs(d.Node("branch-a").Must("vtysh", "-c", "show ip ospf database external"))
	for _, s := range dcServices() {
		for _, core := range []string{"core-a", "core-b"} {
			r.bgp += len(d.Node(core).BGPPaths(s.vip))
		}
		r.lsas += lsas[strings.TrimSuffix(s.vip, "/32")]
		for branch, near := range map[string]string{"branch-a": "10.0.2.1", "branch-b": "10.0.5.1"} {
			for _, k := range d.Node(branch).Kernel(s.vip) {
				r.branch++
				if k.Via.String() == near {
					r.near++
				}
			}
		}
	}
	return r
}

// liveLSAs counts the external LSAs in FRR's list of them, by prefix. One that was
// flushed stays in the list for a minute, at the age of 3600 s (RFC 2328 §14).
func liveLSAs(text string) map[string]int {
	count, live := map[string]int{}, false
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "LS age":
			live = value != "3600"
		case "Link State ID":
			if prefix, _, _ := strings.Cut(value, " "); live {
				count[prefix]++
			}
		}
	}
	return count
}

// testRouteCount: bound services put 4 routes into the network, plain anycast
// puts 4 × 4 there.
func testRouteCount(d *dc) {
	for _, c := range []struct {
		announcers string
		want       routes
		holder     func(service) string
	}{
		{"announcers: 1", routes{bgp: 4, lsas: 4, branch: 8, near: 8}, func(s service) string { return s.order[0] }},
		{"announcers: all", routes{bgp: 16, lsas: 8, branch: 8, near: 8}, func(s service) string {
			first := map[byte]string{}
			for _, h := range slices.Backward(s.order) { // the first of each data centre
				first[h[0]] = h
			}
			return join([]string{first['a'], first['b']})
		}},
	} {
		d.configure(settings{detection: patient, announcers: c.announcers})
		began := time.Now()
		d.start("a1", "a2", "b1", "b2")
		for _, s := range dcServices() {
			d.waitHolder(s.name, c.holder(s))
		}
		counted := func() string {
			if now := d.routes(); now != c.want {
				return fmt.Sprintf("they have %+v, want %+v", now, c.want)
			}
			return ""
		}
		d.until("the routers have all routes with "+c.announcers, counted)
		took := time.Since(began)
		d.calm(time.Second)
		d.until("the routers still have them, and no more", counted)
		d.t.Logf("%s: %d BGP paths from hosts at the cores, %d external LSAs at branch-a, %d routes at the two branches together, each by its own data centre; complete %v after the cold start",
			c.announcers, c.want.bgp, c.want.lsas, c.want.branch, took.Round(time.Millisecond))
		d.clear()
	}
}
