package kernel

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"rhid/announce"
)

func TestRoutesPutInEveryForm(t *testing.T) {
	tests := []struct {
		form string
		rank int
		want []string
	}{
		{NextHopLo, 0, []string{
			"route 10.255.0.10/32 dev lo table 254 proto 151 metric 100",
			"route fd00:255::10/128 dev lo table 254 proto 151 metric 100",
		}},
		{NextHopBlackhole, 0, []string{
			"route blackhole 10.255.0.10/32 table 254 proto 151 metric 100",
			"route blackhole fd00:255::10/128 dev lo table 254 proto 151 metric 100",
		}},
		{NextHopTier, 1, []string{
			"route 10.255.0.10/32 via 169.254.100.100 dev lo table 254 proto 151 metric 100",
			"route fd00:255::10/128 dev lo table 254 proto 151 metric 100",
		}},
		{NextHopTier, 7, []string{
			"route 10.255.0.10/32 via 169.254.100.200 dev lo table 254 proto 151 metric 100",
			"route fd00:255::10/128 dev lo table 254 proto 151 metric 100",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.form, func(t *testing.T) {
			f := newFake()
			w := testWorld(f)
			s := testSettings()
			s.NextHop = tt.form
			w.Configure(s)
			settle(t, w.Routes(), want4(100, tt.rank))
			settle(t, w.Routes(), want6(100))
			wantDump(t, f, tt.want...)
			for _, vip := range []string{vip4, vip6} {
				remove(t, w.Routes(), vip)
				remove(t, w.Routes(), vip)
			}
			wantDump(t, f)
		})
	}
}

func TestRoutesReadSaysWhatIsThere(t *testing.T) {
	f := newFake()
	w := testWorld(f)
	settle(t, w.Routes(), want4(200, 1))
	got := read(t, w.Routes())
	want := map[string]announce.Seen{vip4: {
		Here:   true,
		Route:  announce.Route{Prefix: pfx(vip4), Attrs: announce.Attrs{Metric: 200}},
		Places: []announce.Place{{Name: "table 254", State: announce.Present}},
	}}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("Read (-want +got):\n%s", diff)
	}
	// IPv6 has no metric 0, and that is no difference.
	settle(t, w.Routes(), want6(0))
	wantDump(t, f,
		"route 10.255.0.10/32 dev lo table 254 proto 151 metric 200",
		"route fd00:255::10/128 dev lo table 254 proto 151 metric 1024")
}

func TestRoutesMetricChangeAddsBeforeItDeletes(t *testing.T) {
	for _, r := range []func(uint32) announce.Route{
		func(m uint32) announce.Route { return want4(m, 0) }, want6,
	} {
		f := newFake()
		w := testWorld(f)
		settle(t, w.Routes(), r(100))
		f.journal = nil
		settle(t, w.Routes(), r(200))
		if len(f.journal) != 2 || !strings.HasPrefix(f.journal[0], "add ") || !strings.HasPrefix(f.journal[1], "del ") {
			t.Errorf("changes were %q, want an add and then a del", f.journal)
		}
		if got := dump(f); !strings.HasSuffix(got, "metric 200") || strings.Contains(got, "\n") {
			t.Errorf("left:\n%s", got)
		}
	}
}

func TestRoutesChangeOfFormReplacesOwn(t *testing.T) {
	f := newFake()
	w := testWorld(f)
	settle(t, w.Routes(), want4(100, 0))
	s := testSettings()
	s.NextHop, s.Protocol = NextHopTier, 152
	w.Configure(s)
	f.journal = nil
	settle(t, w.Routes(), want4(100, 2))
	wantDump(t, f, "route 10.255.0.10/32 via 169.254.100.200 dev lo table 254 proto 152 metric 100")
	for _, op := range f.journal {
		if strings.HasPrefix(op, "del ") {
			t.Errorf("%s: the route was away for a moment", op)
		}
	}
	settle(t, w.Routes(), want4(100, 0)) // only the tier differs
	wantDump(t, f, "route 10.255.0.10/32 via 169.254.100.10 dev lo table 254 proto 152 metric 100")
}

func TestRoutesChangeOfTable(t *testing.T) {
	f := newFake()
	w := testWorld(f)
	settle(t, w.Routes(), want6(100))
	s := testSettings()
	s.Table = 151
	w.Configure(s)
	places := read(t, w.Routes())[vip6].Places
	want := []announce.Place{
		{Name: "table 151", State: announce.Gone},
		{
			Name: "table 254 metric 100", State: announce.Leaving,
			Why: "left over: fd00:255::10/128 dev lo table 254 proto 151 metric 100",
		},
	}
	if diff := cmp.Diff(want, places); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
	settle(t, w.Routes(), want6(100))
	wantDump(t, f, "route fd00:255::10/128 dev lo table 151 proto 151 metric 100")
}

func TestRoutesOfOthersStay(t *testing.T) {
	foreign := func(kind uint8, metric uint32, proto uint8) route {
		return route{kind: kind, dst: pfx(vip4), link: loopback, table: 254, metric: metric, proto: proto}
	}
	f := newFake()
	f.rs = []route{foreign(unix.RTN_UNICAST, 100, unix.RTPROT_BIRD), foreign(unix.RTN_UNICAST, 20, 4)}
	before := dump(f)
	w := testWorld(f)
	if got := read(t, w.Routes()); len(got) != 0 {
		t.Errorf("Read takes the routes of others for its own: %v", got)
	}
	err := w.Routes().Put(context.Background(), want4(100, 0))
	want := "add 10.255.0.10/32 dev lo table 254 proto 151 metric 100: protocol bird owns a route to 10.255.0.10/32 with metric 100 in table 254"
	if err == nil || err.Error() != want {
		t.Errorf("Put says %v\nwant %s", err, want)
	}
	remove(t, w.Routes(), vip4)
	if diff := cmp.Diff(before, dump(f)); diff != "" {
		t.Errorf("kernel differs (-before +after):\n%s", diff)
	}
	settle(t, w.Routes(), want4(200, 0)) // beside them is no harm
	remove(t, w.Routes(), vip4)
	if diff := cmp.Diff(before, dump(f)); diff != "" {
		t.Errorf("kernel differs (-before +after):\n%s", diff)
	}
}

// TestRoutesOfAnEarlierLife finds one route to adopt, one with a metric too
// many, and two that are no longer wanted.
func TestRoutesOfAnEarlierLife(t *testing.T) {
	f := newFake()
	old := testWorld(f)
	settle(t, old.Routes(), want4(100, 0))
	settle(t, old.Routes(), want6(100))
	extra := old.conf.Load().announcement(want6(300), nil)
	gone := old.conf.Load().announcement(want4(100, 0), nil)
	gone.dst = pfx("10.255.9.9/32")
	elsewhere := gone
	elsewhere.table = 99
	f.rs = append(f.rs, extra, gone, elsewhere)
	f.journal = nil

	w := testWorld(f)
	seen := read(t, w.Routes())
	if s := seen[vip4]; !s.Here || !w.Routes().Same(want4(100, 0), s) {
		t.Errorf("the IPv4 route is not adopted: %+v", s)
	}
	if s := seen[vip6]; !s.Here || w.Routes().Same(want6(100), s) {
		t.Errorf("the second IPv6 route goes unnoticed: %+v", s)
	}
	settle(t, w.Routes(), want6(100))
	if s := seen["10.255.9.9/32"]; !s.Here || len(s.Places) != 2 {
		t.Errorf("a route to what is no VIP any more is seen as %+v", s)
	}
	remove(t, w.Routes(), "10.255.9.9/32")
	wantDump(t, f,
		"route 10.255.0.10/32 dev lo table 254 proto 151 metric 100",
		"route fd00:255::10/128 dev lo table 254 proto 151 metric 100")
	for _, op := range f.journal {
		if strings.Contains(op, "10.255.0.10/32") {
			t.Errorf("adopting was not free of changes: %s", op)
		}
	}
}

// TestRoutesMetricZero guards against the kernel's taking metric 0 for any.
func TestRoutesMetricZero(t *testing.T) {
	f := newFake()
	w := testWorld(f)
	settle(t, w.Routes(), want4(0, 0))
	f.rs[0].metric = 50 // somebody changed it behind rhid's back
	remove(t, w.Routes(), vip4)
	wantDump(t, f, "route 10.255.0.10/32 dev lo table 254 proto 151 metric 50")
	read(t, w.Routes())
	remove(t, w.Routes(), vip4)
	wantDump(t, f)
}

func TestRoutesRefuse(t *testing.T) {
	f := newFake()
	w := testWorld(f)
	down := newFake()
	down.setUp(false)
	tests := []struct {
		name string
		w    *World
		r    announce.Route
		want string
	}{
		{"no VIP", w, announce.Route{Prefix: pfx("0.0.0.0/0")}, "add announcement route: 0.0.0.0/0 is not a configured VIP"},
		{"metric", w, want4(1<<24, 0), "add announcement route to 10.255.0.10/32: metric 16777216 is above 16777215"},
		{
			"lo down", testWorld(down), want4(100, 0),
			"add 10.255.0.10/32 dev lo table 254 proto 151 metric 100: lo is down: network is down",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.w.Routes().Put(context.Background(), tt.r)
			if err == nil || err.Error() != tt.want {
				t.Errorf("Put says %v\nwant %s", err, tt.want)
			}
		})
	}
	wantDump(t, f)
}

func TestRoutesReportWhatFails(t *testing.T) {
	f := newFake()
	w := testWorld(f)
	settle(t, w.Routes(), want4(100, 0))
	f.refuse["del 10.255.0.10/32 dev lo table 254 proto 151 metric 100"] = unix.EPERM
	err := w.Routes().Put(context.Background(), want4(200, 0))
	if !errors.Is(err, unix.EPERM) {
		t.Errorf("Put says %v, want operation not permitted", err)
	}
	err = w.Routes().Remove(context.Background(), pfx(vip4))
	if !errors.Is(err, unix.EPERM) {
		t.Errorf("Remove says %v, want operation not permitted", err)
	}
	clear(f.refuse)
	remove(t, w.Routes(), vip4) // tried again without a Read in between
	wantDump(t, f)
	f.refuse["list routes"] = unix.ENOBUFS
	if _, err := w.Routes().Read(context.Background()); !errors.Is(err, unix.ENOBUFS) {
		t.Errorf("Read says %v, want no buffer space", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := w.Routes().Read(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Read says %v, want context canceled", err)
	}
}

func TestRoutesLeaveAnyIPAlone(t *testing.T) {
	f := newFake()
	w := testWorld(f)
	settle(t, w.Addresses(), local4(announce.LocalAnyIP))
	if got := read(t, w.Routes()); len(got) != 0 {
		t.Errorf("the AnyIP route is taken for an announcement: %v", got)
	}
	remove(t, w.Routes(), vip4)
	if len(f.rs) != 1 || !slices.Contains(f.rs, w.conf.Load().anyIP(pfx(vip4))) {
		t.Errorf("left: %v", f.rs)
	}
}
