package kernel

import (
	"bytes"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// wire is what the kernel would send of r.
func wire(r route) []byte {
	var b bytes.Buffer
	for _, d := range routeMessage(r) {
		b.Write(d.Serialize())
	}
	return b.Bytes()
}

func wireAddr(a addr) []byte {
	msg, data := addrMessage(a)
	b := bytes.NewBuffer(msg.Serialize())
	for _, d := range data {
		b.Write(d.Serialize())
	}
	b.Write(nl.NewRtAttr(ifaProto, []byte{a.proto}).Serialize())
	return b.Bytes()
}

func wireLink(index int32, up bool) []byte {
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = index
	if up {
		msg.Flags = unix.IFF_UP
	}
	return msg.Serialize()
}

const (
	testPort  = 4711
	otherPort = 4712
)

func testFilter() filter {
	var none *conf
	return filter{conf: none.next(testSettings()), self: testPort}
}

func TestFilterConcerns(t *testing.T) {
	f := testFilter()
	own := f.conf.announcement(want4(100, 0), nil)
	stranger, foreign, kernel4, kernel6, multicast := own, own, own, own, []byte{128, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	stranger.dst, stranger.proto = pfx("192.0.2.0/24"), 186
	foreign.proto = 186
	kernel4.proto, kernel6.proto = unix.RTPROT_KERNEL, unix.RTPROT_KERNEL
	kernel6.dst = pfx(vip6)
	address := f.conf.address(pfx(vip4))
	tests := []struct {
		name string
		kind uint16
		from uint32
		data []byte
		want bool
	}{
		{"own route deleted by somebody", unix.RTM_DELROUTE, otherPort, wire(own), true},
		{"own route deleted by the kernel", unix.RTM_DELROUTE, 0, wire(own), true},
		{"own route put in by rhid", unix.RTM_NEWROUTE, testPort, wire(own), false},
		{"own route replaced by somebody", unix.RTM_NEWROUTE, otherPort, wire(foreign), true},
		{"the BGP table moves", unix.RTM_NEWROUTE, otherPort, wire(stranger), false},
		{"the BGP table shrinks", unix.RTM_DELROUTE, otherPort, wire(stranger), false},
		{"local route of an IPv4 address", unix.RTM_NEWROUTE, 0, wire(kernel4), false},
		{"local route of an IPv4 address goes", unix.RTM_DELROUTE, 0, wire(kernel4), true},
		{"local route of an IPv6 address", unix.RTM_NEWROUTE, 0, wire(kernel6), true},
		{"a multicast route", unix.RTM_NEWROUTE, otherPort, multicast, false},
		{"half a route", unix.RTM_NEWROUTE, otherPort, wire(own)[:7], true},
		{"a route without its destination", unix.RTM_NEWROUTE, otherPort, wire(stranger)[:14], false},
		{"VIP put on by somebody", unix.RTM_NEWADDR, otherPort, wireAddr(address), true},
		{"VIP put on by rhid", unix.RTM_NEWADDR, testPort, wireAddr(address), false},
		{"another address", unix.RTM_NEWADDR, otherPort, wireAddr(foreignAddr("10.1.1.1/24", 2)), false},
		{"another address deleted", unix.RTM_DELADDR, otherPort, wireAddr(foreignAddr("10.1.1.1/24", 2)), true},
		{"half an address", unix.RTM_NEWADDR, otherPort, []byte{unix.AF_INET}, true},
		{"lo changes", unix.RTM_NEWLINK, 0, wireLink(loopback, true), true},
		{"a link goes down", unix.RTM_NEWLINK, 0, wireLink(7, false), true},
		{"a link comes up", unix.RTM_NEWLINK, 0, wireLink(7, true), false},
		{"a link is deleted", unix.RTM_DELLINK, 0, wireLink(7, false), true},
		{"half a link", unix.RTM_NEWLINK, 0, []byte{0}, true},
		{"a neighbour", unix.RTM_NEWNEIGH, 0, nil, false},
	}
	for _, tt := range tests {
		if got := f.concerns(tt.kind, tt.from, tt.data); got != tt.want {
			t.Errorf("%s: concerns rhid: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestSignalsNeverPileUp(t *testing.T) {
	w := testWorld(newFake())
	for range 3 {
		w.Configure(testSettings())
	}
	for _, target := range []interface{ Changes() <-chan struct{} }{w.Addresses(), w.Routes()} {
		if n := len(target.Changes()); n != 1 {
			t.Errorf("%d signals wait, want 1", n)
		}
	}
}

// FuzzConcerns feeds the parsers of kernel messages. What they accept must
// come out the same when written and read again.
func FuzzConcerns(f *testing.F) {
	flt := testFilter()
	for _, form := range []string{NextHopLo, NextHopTier} {
		flt.conf.NextHop = form
		f.Add(uint16(unix.RTM_NEWROUTE), wire(flt.conf.announcement(want4(100, 1), nil)))
		f.Add(uint16(unix.RTM_DELROUTE), wire(flt.conf.announcement(want6(100), nil)))
	}
	f.Add(uint16(unix.RTM_NEWADDR), wireAddr(flt.conf.address(pfx(vip4))))
	f.Add(uint16(unix.RTM_DELADDR), wireAddr(flt.conf.address(pfx(vip6))))
	f.Add(uint16(unix.RTM_NEWLINK), wireLink(loopback, true))
	f.Fuzz(func(t *testing.T, kind uint16, data []byte) {
		flt.concerns(kind, 0, data)
		if _, _, ok := parseRoute(data); ok {
			nextHops(data)
		}
		if r, _, ok := parseRoute(data); ok && r.gateway.IsValid() == (r.gateway.BitLen() == r.dst.Addr().BitLen()) {
			if again, _, ok := parseRoute(wire(r)); !ok || again != r {
				t.Errorf("route %v reads back as %v", r, again)
			}
		}
		if a, ok := parseAddr(data); ok && a.flags == 0 {
			if again, ok := parseAddr(wireAddr(a)); !ok || again != a {
				t.Errorf("address %v reads back as %v", a, again)
			}
		}
	})
}
