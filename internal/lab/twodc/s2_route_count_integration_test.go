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
}

func (d *dc) routes() routes {
	d.t.Helper()
	var r routes
	lsas := d.Node("branch-a").Must("vtysh", "-c", "show ip ospf database external")
	for _, s := range dcServices() {
		for _, core := range []string{"core-a", "core-b"} {
			r.bgp += len(d.Node(core).BGPPaths(s.vip))
		}
		r.lsas += strings.Count(lsas, "Link State ID: "+strings.TrimSuffix(s.vip, "/32")+" ")
		for _, b := range []string{"branch-a", "branch-b"} {
			r.branch += len(d.Node(b).Kernel(s.vip))
		}
	}
	return r
}

// testRouteCount: bound services put 4 routes into the network, plain anycast
// puts 4 × 4 there.
func testRouteCount(d *dc) {
	for _, c := range []struct {
		announcers string
		want       routes
		holder     func(service) string
	}{
		{"announcers: 1", routes{bgp: 4, lsas: 4, branch: 8}, func(s service) string { return s.order[0] }},
		{"announcers: all", routes{bgp: 16, lsas: 8, branch: 8}, func(s service) string {
			first := map[byte]string{}
			for _, h := range slices.Backward(s.order) { // the first of each data centre
				first[h[0]] = h
			}
			return join([]string{first['a'], first['b']})
		}},
	} {
		d.configure(settings{announcers: c.announcers})
		began := time.Now()
		d.start("a1", "a2", "b1", "b2")
		for _, s := range dcServices() {
			d.waitHolder(s.name, c.holder(s))
		}
		d.WaitFor(fmt.Sprintf("%+v with %s", c.want, c.announcers), 30*time.Second, func() bool { return d.routes() == c.want })
		took := time.Since(began)
		d.calm(time.Second)
		got := d.routes()
		if got != c.want {
			d.t.Errorf("%s: the routers have %+v, want %+v", c.announcers, got, c.want)
		}
		d.t.Logf("%s: %d BGP paths from hosts at the cores, %d external LSAs at branch-a, %d routes at the two branches together; complete %v after the cold start",
			c.announcers, got.bgp, got.lsas, got.branch, took.Round(time.Millisecond))
		for _, b := range []struct{ node, near string }{{"branch-a", "10.0.2.1"}, {"branch-b", "10.0.5.1"}} {
			for _, s := range dcServices() {
				rs := d.Node(b.node).Kernel(s.vip)
				if c.announcers == "announcers: all" && (len(rs) != 1 || rs[0].Via.String() != b.near) {
					d.t.Errorf("%s: %s goes to %s by %+v, want its own data centre, %s", c.announcers, b.node, s.name, rs, b.near)
				}
			}
		}
		d.clear()
	}
}
