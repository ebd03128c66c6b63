package lab

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var comparePrefixes = cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })

// nlri writes prefixes as BGP has them.
func nlri(list ...string) []byte {
	var out []byte
	for _, s := range list {
		p := netip.MustParsePrefix(s)
		out = append(out, byte(p.Bits()))
		out = append(out, p.Addr().AsSlice()[:(p.Bits()+7)/8]...)
	}
	return out
}

func prefixes(list ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func sized(b []byte) []byte { return append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...) }

// update is the body of an UPDATE.
func update(withdrawn, attrs, announced []byte) []byte {
	return slices.Concat(sized(withdrawn), sized(attrs), announced)
}

func attr(kind byte, value ...[]byte) []byte {
	v := slices.Concat(value...)
	return append([]byte{0x80, kind, byte(len(v))}, v...)
}

func longAttr(kind byte, value ...[]byte) []byte {
	return append([]byte{0x90, kind}, sized(slices.Concat(value...))...)
}

// message is a whole BGP message.
func message(kind byte, body []byte) []byte {
	head := bytes.Repeat([]byte{0xff}, 16)
	head = binary.BigEndian.AppendUint16(head, uint16(bgpHeader+len(body)))
	return slices.Concat(head, []byte{kind}, body)
}

func TestParseUpdate(t *testing.T) {
	origin := attr(1, []byte{0})
	ipv6, ipv4, multicast := []byte{0, 2, 1}, []byte{0, 1, 1}, []byte{0, 2, 2}
	hop := slices.Concat([]byte{16}, netip.MustParseAddr("fd00::1").AsSlice(), []byte{0})
	for name, c := range map[string]struct {
		body                 []byte
		announced, withdrawn []netip.Prefix
	}{
		"end of RIB":        {body: update(nil, nil, nil)},
		"nothing":           {},
		"announced":         {update(nil, origin, nlri("10.255.0.10/32", "10.1.0.0/23", "0.0.0.0/0")), prefixes("10.255.0.10/32", "10.1.0.0/23", "0.0.0.0/0"), nil},
		"withdrawn":         {update(nlri("10.255.0.10/32"), nil, nil), nil, prefixes("10.255.0.10/32")},
		"both":              {update(nlri("10.0.0.1/32"), origin, nlri("10.0.0.2/32")), prefixes("10.0.0.2/32"), prefixes("10.0.0.1/32")},
		"IPv6":              {update(nil, append(origin, attr(14, ipv6, hop, nlri("fd00:255::10/128"))...), nil), prefixes("fd00:255::10/128"), nil},
		"IPv6, long length": {update(nil, longAttr(14, ipv6, hop, nlri("fd00:255::/64")), nil), prefixes("fd00:255::/64"), nil},
		"IPv6 withdrawn":    {update(nil, attr(15, ipv6, nlri("fd00:255::10/128")), nil), nil, prefixes("fd00:255::10/128")},
		"IPv4 by IPv6 hop":  {update(nil, attr(14, ipv4, hop, nlri("10.255.0.10/32")), nil), prefixes("10.255.0.10/32"), nil},
		"multicast":         {body: update(nil, slices.Concat(attr(14, multicast, hop, nlri("fd00::/64")), attr(15, multicast, nlri("fd00::/64"))), nil)},
		"attributes cut":    {body: update(nil, origin, nil)[:5]},
		"attribute cut":     {update(nil, []byte{0x40, 1, 9, 0}, nlri("10.0.0.1/32")), prefixes("10.0.0.1/32"), nil},
		"prefix too long":   {update(nil, nil, append(nlri("10.0.0.1/32"), 33, 1, 2, 3, 4, 5)), prefixes("10.0.0.1/32"), nil},
		"prefix cut":        {body: update(nil, nil, []byte{32, 10, 0, 0})},
		"next hop cut":      {body: update(nil, attr(14, ipv6, []byte{200, 1, 2, 3}), nil)},
	} {
		announced, withdrawn := parseUpdate(c.body)
		if diff := cmp.Diff([][]netip.Prefix{c.announced, c.withdrawn}, [][]netip.Prefix{announced, withdrawn}, comparePrefixes); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// segment is an IPv4 packet with TCP.
func segment(src, dst string, seq uint32, flags byte, data []byte) []byte {
	s, d := netip.MustParseAddrPort(src), netip.MustParseAddrPort(dst)
	tcp := binary.BigEndian.AppendUint16(nil, s.Port())
	tcp = binary.BigEndian.AppendUint16(tcp, d.Port())
	tcp = binary.BigEndian.AppendUint32(tcp, seq)
	tcp = append(tcp, 0, 0, 0, 0, 6<<4, flags, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0) // with four bytes of options
	return packet4(protoTCP, s.Addr(), d.Addr(), append(tcp, data...))
}

func packet4(proto byte, src, dst netip.Addr, payload []byte) []byte {
	ip := make([]byte, 20)
	ip[0], ip[8], ip[9] = 0x45, 64, proto
	binary.BigEndian.PutUint16(ip[2:], uint16(20+len(payload)))
	copy(ip[12:], src.AsSlice())
	copy(ip[16:], dst.AsSlice())
	return append(ip, payload...)
}

func packet6(next byte, src, dst netip.Addr, payload []byte) []byte {
	ip := make([]byte, ipv6Header)
	ip[0], ip[6], ip[7] = 0x60, next, 64
	binary.BigEndian.PutUint16(ip[4:], uint16(len(payload)))
	copy(ip[8:], src.AsSlice())
	copy(ip[24:], dst.AsSlice())
	return append(ip, payload...)
}

// TestBGPStream sends three messages in ways TCP may deliver them.
func TestBGPStream(t *testing.T) {
	const src, dst = "10.0.0.1:40000", "10.0.0.2:179"
	one := message(bgpTypeUpdate, update(nil, nil, nlri("10.0.0.1/32")))
	two := message(bgpTypeUpdate, update(nlri("10.0.0.1/32"), nil, nil))
	all := slices.Concat(one, message(4, nil), two)
	const start = 0xfffffff0 // sequence numbers wrap within
	at := func(from, to int) []byte { return segment(src, dst, start+uint32(from), 0x18, all[from:to]) }
	n := len(all)
	for name, c := range map[string]struct {
		packets [][]byte
		want    int
	}{
		"in one":         {[][]byte{at(0, n)}, 2},
		"in two":         {[][]byte{at(0, 10), at(10, n)}, 2},
		"in many":        {[][]byte{at(0, 1), at(1, 20), at(20, len(one)+1), at(len(one)+1, n-1), at(n-1, n)}, 2},
		"repeated":       {[][]byte{at(0, 10), at(0, 10), at(10, n), at(0, n)}, 2},
		"overlapping":    {[][]byte{at(0, 10), at(5, n)}, 2},
		"with a SYN":     {[][]byte{segment(src, dst, start-1, tcpSYN, nil), at(0, n)}, 2},
		"first one lost": {[][]byte{at(0, 10), at(len(one), n)}, 1},
		"begun midway":   {[][]byte{at(3, len(one)), at(len(one), n)}, 1},
		"with an ACK":    {[][]byte{at(0, 10), at(10, 10), at(10, n)}, 2},
	} {
		flows := map[flow]*stream{}
		var events []Event
		for _, p := range c.packets {
			events = append(events, parsePacket(p, Event{}, flows)...)
		}
		if len(events) != c.want || len(events) > 0 && !events[len(events)-1].Withdraws("10.0.0.1/32") {
			t.Errorf("%s: %+v", name, events)
		}
	}
}

func TestParsePacket(t *testing.T) {
	a4, b4 := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	a6, b6 := netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")
	for name, c := range map[string]struct {
		packet []byte
		want   []Event
	}{
		"reset":             {segment("10.0.0.1:9100", "10.0.0.2:555", 1, tcpRST, nil), []Event{{Kind: TCPReset, Src: netip.AddrPortFrom(a4, 9100), Dst: netip.AddrPortFrom(b4, 555)}}},
		"other TCP":         {segment("10.0.0.1:9100", "10.0.0.2:555", 1, 0x10, []byte("x")), nil},
		"open":              {segment("10.0.0.1:179", "10.0.0.2:555", 1, 0x10, message(1, nil)), []Event{{Kind: BGPOpen, Src: netip.AddrPortFrom(a4, 179), Dst: netip.AddrPortFrom(b4, 555)}}},
		"notification":      {segment("10.0.0.1:179", "10.0.0.2:555", 1, 0x10, message(3, []byte{6, 2})), []Event{{Kind: BGPNotification, Src: netip.AddrPortFrom(a4, 179), Dst: netip.AddrPortFrom(b4, 555)}}},
		"unreachable":       {packet4(protoICMP, a4, b4, []byte{3, 1}), []Event{{Kind: Unreachable, Src: netip.AddrPortFrom(a4, 0), Dst: netip.AddrPortFrom(b4, 0)}}},
		"echo":              {packet4(protoICMP, a4, b4, []byte{8, 0}), nil},
		"unreachable, IPv6": {packet6(protoICMPv6, a6, b6, []byte{1, 0}), []Event{{Kind: Unreachable, Src: netip.AddrPortFrom(a6, 0), Dst: netip.AddrPortFrom(b6, 0)}}},
		"neighbour, IPv6":   {packet6(protoICMPv6, a6, b6, []byte{135, 0}), nil},
		"OSPF hello":        {packet4(protoOSPF, a4, b4, append([]byte{2, 1}, make([]byte, 60)...)), nil},
		"cut":               {segment("10.0.0.1:179", "10.0.0.2:555", 1, tcpRST, nil)[:30], nil},
		"empty":             {nil, nil},
	} {
		got := parsePacket(c.packet, Event{}, map[flow]*stream{})
		equal := cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })
		if diff := cmp.Diff(c.want, got, equal, comparePrefixes); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// lsa is an LSA with a header of which only what matters is set.
func lsa(age uint16, kind []byte, id []byte, body ...byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, age)
	b = append(b, kind...)
	b = append(b, id...)
	b = append(b, make([]byte, 10)...) // advertising router, sequence, checksum
	b = binary.BigEndian.AppendUint16(b, uint16(lsaHeader+len(body)))
	return append(b, body...)
}

func lsUpdate(version byte, lsas ...[]byte) []byte {
	head := make([]byte, map[byte]int{2: ospfHeaderV2, 3: ospfHeaderV3}[version])
	head[0], head[1] = version, ospfTypeUpdate
	head = binary.BigEndian.AppendUint32(head, uint32(len(lsas)))
	return append(head, slices.Concat(lsas...)...)
}

func TestParseOSPF(t *testing.T) {
	v2 := func(age uint16, addr string, mask ...byte) []byte {
		return lsa(age, []byte{2, 5}, netip.MustParseAddr(addr).AsSlice(), append(mask, make([]byte, 12)...)...)
	}
	v3 := func(age uint16, prefix string) []byte {
		p := netip.MustParsePrefix(prefix)
		body := append([]byte{0, 0, 0, 10, byte(p.Bits()), 0, 0, 0}, p.Addr().AsSlice()[:(p.Bits()+31)/32*4]...)
		return lsa(age, []byte{0x40, 5}, make([]byte, 4), body...)
	}
	router := lsa(1, []byte{2, 1}, make([]byte, 4), 0, 0, 0, 0)
	for name, c := range map[string]struct {
		packet               []byte
		announced, withdrawn []netip.Prefix
		ok                   bool
	}{
		"v2":              {lsUpdate(2, router, v2(3, "10.255.0.20", 255, 255, 255, 255)), prefixes("10.255.0.20/32"), nil, true},
		"v2 network":      {lsUpdate(2, v2(3, "10.255.0.255", 255, 255, 255, 0)), prefixes("10.255.0.0/24"), nil, true},
		"v2 MaxAge":       {lsUpdate(2, v2(3600, "10.255.0.20", 255, 255, 255, 255)), nil, prefixes("10.255.0.20/32"), true},
		"v2 do not age":   {lsUpdate(2, v2(lsaDoNotAge|5, "10.255.0.20", 255, 255, 255, 255)), prefixes("10.255.0.20/32"), nil, true},
		"v3":              {lsUpdate(3, v3(1, "fd00:255::20/128"), v3(3600, "fd00:255::/64")), prefixes("fd00:255::20/128"), prefixes("fd00:255::/64"), true},
		"no external LSA": {packet: lsUpdate(2, router), ok: true},
		"hello":           {packet: append([]byte{2, 1}, make([]byte, 50)...)},
		"cut":             {packet: lsUpdate(2, v2(3, "10.255.0.20", 255, 255, 255, 255))[:50], ok: true},
		"short":           {packet: []byte{3}},
	} {
		announced, withdrawn, ok := parseOSPF(c.packet)
		if diff := cmp.Diff([][]netip.Prefix{c.announced, c.withdrawn}, [][]netip.Prefix{announced, withdrawn}, comparePrefixes); diff != "" || ok != c.ok {
			t.Errorf("%s: ok %v (-want +got):\n%s", name, ok, diff)
		}
	}
}

func FuzzParsePacket(f *testing.F) {
	f.Add(segment("10.0.0.1:179", "10.0.0.2:555", 1, 0x10, message(2, update(nlri("10.0.0.1/32"), attr(1, []byte{0}), nlri("10.0.0.2/32")))))
	f.Add(packet4(protoOSPF, netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), lsUpdate(2, lsa(1, []byte{2, 5}, make([]byte, 4), make([]byte, 16)...))))
	f.Add(packet6(protoOSPF, netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2"), lsUpdate(3, lsa(1, []byte{0x40, 5}, make([]byte, 4), make([]byte, 24)...))))
	f.Add(packet6(protoICMPv6, netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2"), []byte{1}))
	f.Fuzz(func(t *testing.T, packet []byte) {
		flows := map[flow]*stream{}
		for range 2 {
			for _, e := range parsePacket(packet, Event{}, flows) {
				for _, p := range slices.Concat(e.Announced, e.Withdrawn) {
					if !p.IsValid() {
						t.Fatalf("an invalid prefix in %+v", e)
					}
				}
			}
		}
	})
}
