package kernel

import (
	"context"
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rhid/announce"
)

// want6At asks for the IPv6 VIP at a rank.
func want6At(metric uint32, rank int) announce.Route {
	return announce.Route{Prefix: pfx(vip6), Attrs: announce.Attrs{Metric: metric, Rank: rank}}
}

// devicesWorld is a World whose tiers have the devices t0, t1 and t2.
func devicesWorld() (*fake, *World) {
	f := newFake()
	f.names = map[int]string{loopback: "lo", 5: "t0", 6: "t1", 7: "t2"}
	f.down = map[string]bool{}
	s := testSettings()
	s.NextHop, s.Devices = NextHopTier, []string{"t0", "t1", "t2"}
	w := testWorld(f)
	w.Configure(s)
	return f, w
}

func TestDevicesOfTheRanks(t *testing.T) {
	f, w := devicesWorld()
	for rank, link := range map[int]string{0: "#5", 1: "#6", 2: "#7", 9: "#7"} {
		settle(t, w.Routes(), want6At(100, rank))
		settle(t, w.Routes(), want4(100, rank))
		if got := dump(f); !strings.Contains(got, "fd00:255::10/128 dev "+link+" table 254 proto 151 metric 100") {
			t.Errorf("rank %d: there is\n%s", rank, got)
		}
	}
	settle(t, w.Routes(), want6At(100, 0))
	f.journal = nil
	settle(t, w.Routes(), want6At(100, 0))
	if len(f.journal) > 0 {
		t.Errorf("what is there already was changed: %q", f.journal)
	}
	settle(t, w.Routes(), want6At(190, 1))
	if len(f.journal) != 2 || !strings.HasPrefix(f.journal[0], "add ") || !strings.HasPrefix(f.journal[1], "del ") {
		t.Errorf("changes of rank were %q, want an add and then a del", f.journal)
	}
	remove(t, w.Routes(), vip6)
	remove(t, w.Routes(), vip4)
	wantDump(t, f)
}

// TestDevicesComeAndGo has a route over lo replaced when devices are configured,
// and without any back again.
func TestDevicesComeAndGo(t *testing.T) {
	f, w := devicesWorld()
	with, without := w.conf.Load().Settings, testSettings()
	without.NextHop = NextHopTier
	w.Configure(without)
	settle(t, w.Routes(), want6At(100, 1))
	f.journal = nil
	w.Configure(with)
	settle(t, w.Routes(), want6At(100, 1))
	wantDump(t, f, "route fd00:255::10/128 dev #6 table 254 proto 151 metric 100")
	w.Configure(without)
	settle(t, w.Routes(), want6At(100, 1))
	wantDump(t, f, "route fd00:255::10/128 dev lo table 254 proto 151 metric 100")
	for _, op := range f.journal {
		if strings.HasPrefix(op, "del ") {
			t.Errorf("%s: the route was away for a moment", op)
		}
	}
}

// TestDevicesMadeAnew gives a device another index, as when it was deleted and
// made again, which takes its routes along.
func TestDevicesMadeAnew(t *testing.T) {
	f, w := devicesWorld()
	settle(t, w.Routes(), want6At(100, 0))
	delete(f.names, 5)
	f.names[9], f.rs = "t0", nil
	settle(t, w.Routes(), want6At(100, 0))
	wantDump(t, f, "route fd00:255::10/128 dev #9 table 254 proto 151 metric 100")
}

func TestDevicesRefuse(t *testing.T) {
	f, w := devicesWorld()
	settle(t, w.Routes(), want6At(100, 0))
	delete(f.names, 6)
	f.down["t2"] = true
	for rank, want := range map[int]string{
		1: "add announcement route to fd00:255::10/128: there is no tier device t1",
		2: "add announcement route to fd00:255::10/128: tier device t2 is down or has no carrier",
	} {
		if err := w.Routes().Put(t.Context(), want6At(200, rank)); err == nil || err.Error() != want {
			t.Errorf("Put says %v\nwant %s", err, want)
		}
	}
	wantDump(t, f, "route fd00:255::10/128 dev #5 table 254 proto 151 metric 100")
	settle(t, w.Routes(), want4(100, 1)) // has no device
	f.refuse["look at t0"] = unix.EPERM
	if _, err := w.Routes().Read(context.Background()); !errors.Is(err, unix.EPERM) {
		t.Errorf("Read says %v, want operation not permitted", err)
	}
	if err := w.Routes().Put(t.Context(), want6At(100, 0)); !errors.Is(err, unix.EPERM) {
		t.Errorf("Put says %v, want operation not permitted", err)
	}
}

// TestDevicesOfInvalidSettings reads what is there although fewer devices than
// tiers are configured, and can still take it out.
func TestDevicesOfInvalidSettings(t *testing.T) {
	f, w := devicesWorld()
	settle(t, w.Routes(), want6At(100, 2))
	s := w.conf.Load().Settings
	s.Devices = s.Devices[:1]
	w.Configure(s)
	if err := w.Routes().Put(t.Context(), want6At(200, 0)); err == nil || !strings.Contains(err.Error(), "1 devices for 3 tiers") {
		t.Errorf("Put says %v", err)
	}
	if s := read(t, w.Routes())[vip6]; !s.Here {
		t.Errorf("the route is not seen: %+v", s)
	}
	remove(t, w.Routes(), vip6)
	wantDump(t, f)
}
