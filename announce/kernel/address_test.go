package kernel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"rhid/announce"
)

const (
	address4 = "address 10.255.0.10/32 dev lo label lo:rhid proto 151"
	address6 = "address fd00:255::10/128 dev lo proto 151"
	anyIP4   = "route local 10.255.0.10/32 dev lo table 255 proto 151 metric 1024"
	anyIP6   = "route local fd00:255::10/128 dev lo table 255 proto 151 metric 1024"
)

func TestAddressesPutAndRemove(t *testing.T) {
	for _, old := range []bool{false, true} {
		f := newFake()
		f.old = old
		w := testWorld(f)
		a4, a6 := address4, address6
		if old {
			a4, a6 = strings.TrimSuffix(a4, " proto 151"), strings.TrimSuffix(a6, " proto 151")
		}
		settle(t, w.Addresses(), local4(announce.LocalAddress))
		settle(t, w.Addresses(), local6(announce.LocalAddress))
		wantDump(t, f, a4, a6)
		remove(t, w.Addresses(), vip4)
		wantDump(t, f, a6)
		settle(t, w.Addresses(), local4(announce.LocalAnyIP))
		settle(t, w.Addresses(), local6(announce.LocalAnyIP))
		wantDump(t, f, anyIP4, anyIP6)
		remove(t, w.Addresses(), vip6)
		remove(t, w.Addresses(), vip6)
		remove(t, w.Addresses(), vip4)
		wantDump(t, f)
	}
}

// TestAddressesPutTwice is the reconciler acting on an old picture.
func TestAddressesPutTwice(t *testing.T) {
	f := newFake()
	w := testWorld(f)
	for _, mode := range []announce.LocalMode{announce.LocalAddress, announce.LocalAnyIP} {
		for range 3 {
			for _, r := range []announce.Route{local4(mode), local6(mode)} {
				if err := w.Addresses().Put(context.Background(), r); err != nil {
					t.Errorf("Put: %v", err)
				}
			}
		}
		read(t, w.Addresses())
	}
	wantDump(t, f, anyIP4, anyIP6)
}

// TestAddressesChangeOfMode checks that a VIP is local all the time.
func TestAddressesChangeOfMode(t *testing.T) {
	for _, r := range []func(announce.LocalMode) announce.Route{local4, local6} {
		f := newFake()
		w := testWorld(f)
		settle(t, w.Addresses(), r(announce.LocalAddress))
		for _, mode := range []announce.LocalMode{announce.LocalAnyIP, announce.LocalAddress} {
			f.journal = nil
			change(t, w, r(mode))
			if len(f.journal) < 2 || !strings.HasPrefix(f.journal[0], "add ") {
				t.Errorf("changes were %q, want the new form before the old one goes", f.journal)
			}
			if got := dump(f); strings.Contains(got, "\n") {
				t.Errorf("something is left over:\n%s", got)
			}
		}
	}
}

// change puts r as often as the reconciler would until all is well.
func change(t *testing.T, w *World, r announce.Route) {
	t.Helper()
	for range 3 {
		if s := read(t, w.Addresses())[r.Prefix.String()]; s.Here && w.Addresses().Same(r, s) {
			return
		}
		if err := w.Addresses().Put(context.Background(), r); err != nil {
			t.Fatalf("Put: %v", err)
		}
	}
	t.Fatalf("never as wanted: %+v", read(t, w.Addresses()))
}

func TestAddressesInterruptedChangeIsSeen(t *testing.T) {
	f := newFake()
	w := testWorld(f)
	settle(t, w.Addresses(), local4(announce.LocalAddress))
	if err := f.addRoute(w.conf.Load().anyIP(pfx(vip4))); err != nil {
		t.Fatal(err)
	}
	want := announce.Seen{
		Here:  true,
		Route: announce.Route{Prefix: pfx(vip4), Local: announce.LocalAddress},
		Places: []announce.Place{
			{Name: "lo", State: announce.Present},
			{
				Name: "lo local route metric 1024", State: announce.Leaving,
				Why: "left over: local 10.255.0.10/32 dev lo table 255 proto 151 metric 1024",
			},
		},
	}
	if diff := cmp.Diff(want.Places, read(t, w.Addresses())[vip4].Places); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
	settle(t, w.Addresses(), local4(announce.LocalAddress))
	wantDump(t, f, address4)
}

// foreign addresses: what an operator might have set by hand.
func foreignAddr(prefix string, link int) addr {
	a := addr{prefix: pfx(prefix), link: link}
	if a.prefix.Addr().Is4() {
		a.label = map[int]string{loopback: "lo", 2: "eth0"}[link]
	}
	return a
}

func TestAddressesOfOthersOnLo(t *testing.T) {
	for _, vip := range []string{vip4, vip6} {
		f := newFake()
		if err := f.addAddr(foreignAddr(vip, loopback)); err != nil {
			t.Fatal(err)
		}
		before := dump(f)
		w := testWorld(f)
		r := announce.Route{Prefix: pfx(vip), Local: announce.LocalAddress}
		want := []announce.Place{{Name: "lo", State: announce.Gone, Why: "somebody else has the address on lo"}}
		if s := read(t, w.Addresses())[vip]; s.Here || cmp.Diff(want, s.Places) != "" {
			t.Errorf("before it is wanted: %+v", s)
		}
		settle(t, w.Addresses(), r) // it is local, which is what was asked for
		want = []announce.Place{{Name: "lo", State: announce.Present, Why: "the address on lo is somebody else's, and stays"}}
		if s := read(t, w.Addresses())[vip]; cmp.Diff(want, s.Places) != "" {
			t.Errorf("while it is wanted: %+v", s)
		}
		remove(t, w.Addresses(), vip)
		if s := read(t, w.Addresses())[vip]; s.Here {
			t.Errorf("after it is wanted: %+v", s)
		}
		if diff := cmp.Diff(before, dump(f)); diff != "" {
			t.Errorf("kernel differs (-before +after):\n%s", diff)
		}
	}
}

// TestAddressesTakeTheirPlace is the operator taking his address away again.
func TestAddressesTakeTheirPlace(t *testing.T) {
	f := newFake()
	if err := f.addAddr(foreignAddr(vip4, loopback)); err != nil {
		t.Fatal(err)
	}
	w := testWorld(f)
	settle(t, w.Addresses(), local4(announce.LocalAddress))
	if err := f.delAddr(foreignAddr(vip4, loopback)); err != nil {
		t.Fatal(err)
	}
	settle(t, w.Addresses(), local4(announce.LocalAddress))
	wantDump(t, f, address4)
	remove(t, w.Addresses(), vip4)
	wantDump(t, f)
}

func TestAddressesOfOthersElsewhere(t *testing.T) {
	f := newFake()
	if err := f.addAddr(foreignAddr(vip4, 2)); err != nil {
		t.Fatal(err)
	}
	w := testWorld(f)
	settle(t, w.Addresses(), local4(announce.LocalAddress))
	want := []announce.Place{
		{Name: "eth0", State: announce.Present, Why: "somebody else has the address on eth0"},
		{Name: "lo", State: announce.Present},
	}
	if diff := cmp.Diff(want, read(t, w.Addresses())[vip4].Places); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
	remove(t, w.Addresses(), vip4)
	wantDump(t, f, "address 10.255.0.10/32 dev #2 label eth0")
}

// TestAddressesLoDown takes lo down: IPv4 stays local, IPv6 loses all.
func TestAddressesLoDown(t *testing.T) {
	f := newFake()
	w := testWorld(f)
	settle(t, w.Addresses(), local4(announce.LocalAddress))
	settle(t, w.Addresses(), local6(announce.LocalAddress))
	f.setUp(false)
	seen := read(t, w.Addresses())
	want := []announce.Place{{Name: "lo", State: announce.Present, Why: "lo is down"}}
	if diff := cmp.Diff(want, seen[vip4].Places); diff != "" {
		t.Errorf("IPv4 (-want +got):\n%s", diff)
	}
	if s, ok := seen[vip6]; ok {
		t.Errorf("IPv6 is said to be there: %+v", s)
	}
	err := w.Addresses().Put(context.Background(), local6(announce.LocalAnyIP))
	if err == nil || !strings.Contains(err.Error(), "lo is down") {
		t.Errorf("Put says %v", err)
	}
	f.setUp(true)
	settle(t, w.Addresses(), local6(announce.LocalAddress))
	wantDump(t, f, address4, address6)
}

// TestAddressesLocalRouteLost is somebody flushing table local: the address is
// still there, and of no use.
func TestAddressesLocalRouteLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake()
		w := testWorld(f)
		settle(t, w.Addresses(), local6(announce.LocalAddress))
		f.rs = nil
		s := read(t, w.Addresses())[vip6]
		want := []announce.Place{{Name: "lo", State: announce.Pending, Why: "the local route of the address is missing"}}
		if diff := cmp.Diff(want, s.Places); diff != "" || w.Addresses().Same(local6(announce.LocalAddress), s) {
			t.Errorf("places (-want +got):\n%s", diff)
		}
		put := func() {
			t.Helper()
			if err := w.Addresses().Put(context.Background(), local6(announce.LocalAddress)); err != nil {
				t.Errorf("Put: %v", err)
			}
		}
		put() // the kernel may yet be about to add it
		if len(f.rs) != 0 {
			t.Errorf("renewed at once: %v", f.rs)
		}
		<-time.After(routeGrace)
		put()
		if s := read(t, w.Addresses())[vip6]; !w.Addresses().Same(local6(announce.LocalAddress), s) {
			t.Errorf("not repaired: %+v", s)
		}
		wantDump(t, f, address6)
	})
}

func TestAddressesOfEarlierSettings(t *testing.T) {
	f := newFake()
	w := testWorld(f)
	settle(t, w.Addresses(), local4(announce.LocalAddress))
	settle(t, w.Addresses(), local6(announce.LocalAddress))
	s := testSettings()
	s.Label, s.Protocol = "lo:vip", 152
	w.Configure(s)
	want := []announce.Place{{Name: "lo", State: announce.Present, Why: oldMark + "10.255.0.10/32 dev lo label lo:rhid proto 151"}}
	if diff := cmp.Diff(want, read(t, w.Addresses())[vip4].Places); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
	settle(t, w.Addresses(), local4(announce.LocalAddress))
	settle(t, w.Addresses(), local6(announce.LocalAddress))
	wantDump(t, f,
		"address 10.255.0.10/32 dev lo label lo:vip proto 152",
		"address fd00:255::10/128 dev lo proto 152")
	s.VIPs = nil
	w.Configure(s)
	if err := w.Addresses().Put(context.Background(), local4(announce.LocalAddress)); err == nil {
		t.Error("Put takes what is no VIP any more")
	}
	remove(t, w.Addresses(), vip4)
	remove(t, w.Addresses(), vip6)
	wantDump(t, f)
}

// TestAddressesOldKernelKnowsIPv6 is a kernel without IFA_PROTO: only a VIP
// with rhid's flags is rhid's.
func TestAddressesOldKernelKnowsIPv6(t *testing.T) {
	f := newFake()
	f.old = true
	mine := addr{prefix: pfx(vip6), link: loopback, flags: vip6Flags | unix.IFA_F_PERMANENT}
	noVIP, plain := mine, mine
	noVIP.prefix = pfx("fd00:255::99/128")
	plain.prefix, plain.flags = pfx("fd00:255::11/128"), unix.IFA_F_PERMANENT
	f.as = []addr{mine, noVIP, plain}
	w := testWorld(f)
	s := testSettings()
	s.VIPs = append(s.VIPs, plain.prefix)
	w.Configure(s)
	var here []string
	for p, s := range read(t, w.Addresses()) {
		if s.Here {
			here = append(here, p)
		}
	}
	if diff := cmp.Diff([]string{vip6}, here); diff != "" {
		t.Errorf("taken for rhid's own (-want +got):\n%s", diff)
	}
	remove(t, w.Addresses(), "fd00:255::99/128")
	remove(t, w.Addresses(), vip6)
	wantDump(t, f, "address fd00:255::11/128 dev lo", "address fd00:255::99/128 dev lo")
}

func TestAddressesReportWhatFails(t *testing.T) {
	f := newFake()
	w := testWorld(f)
	settle(t, w.Addresses(), local4(announce.LocalAddress))
	f.refuse["del 10.255.0.10/32 dev lo label lo:rhid proto 151"] = unix.EPERM
	if err := w.Addresses().Remove(context.Background(), pfx(vip4)); !errors.Is(err, unix.EPERM) {
		t.Errorf("Remove says %v, want operation not permitted", err)
	}
	clear(f.refuse)
	remove(t, w.Addresses(), vip4) // tried again without a Read in between
	wantDump(t, f)
	f.refuse["list addresses"] = unix.EPERM
	if _, err := w.Addresses().Read(context.Background()); !errors.Is(err, unix.EPERM) {
		t.Errorf("Read says %v, want operation not permitted", err)
	}
	err := w.Addresses().Put(context.Background(), announce.Route{Prefix: pfx("10.9.9.9/32"), Local: announce.LocalAddress})
	if want := "make VIP local: 10.9.9.9/32 is not a configured VIP"; fmt.Sprint(err) != want {
		t.Errorf("Put says %v\nwant %s", err, want)
	}
	err = w.Addresses().Put(context.Background(), local4(announce.LocalNone))
	if want := "make 10.255.0.10/32 local: no way to do so is asked for"; fmt.Sprint(err) != want {
		t.Errorf("Put says %v\nwant %s", err, want)
	}
}
