package bgp

import (
	"hash/fnv"
	"net/netip"
	"slices"

	"rhid/announce"

	"github.com/osrg/gobgp/v3/pkg/packet/bgp"
)

// defaultLocalPref is what GoBGP puts into iBGP routes without one.
const defaultLocalPref = 100

// wireAttrs are the attributes of a route as a neighbour receives them, as far
// as rhid decides them.
type wireAttrs struct {
	med       uint32
	localPref uint32   // 0: absent
	hops      int      // length of AS_PATH
	path      []uint32 // its sequences; not in the fingerprint
	comms     []uint32
	large     []announce.LargeCommunity
	origin    announce.Origin
	bandwidth uint32 // Mbit/s
}

// wanted returns what an eBGP or iBGP neighbour should receive for a.
func wanted(a announce.Attrs, ibgp bool) wireAttrs {
	w := wireAttrs{med: a.Metric, comms: a.Communities, large: a.LargeCommunities, origin: a.Origin, bandwidth: a.Bandwidth}
	if !ibgp {
		w.hops = 1 + a.Prepend
		return w
	}
	w.localPref = a.LocalPref
	if w.localPref == 0 {
		w.localPref = defaultLocalPref
	}
	return w
}

// sum is a fingerprint; equal attributes in any order of communities have the
// same. It only tells the last UPDATE from the wanted one, both of them rhid's
// own, so 64 bits are plenty.
func (w wireAttrs) sum() uint64 {
	h := fnv.New64a()
	var buf [4]byte
	put := func(v uint32) {
		buf = [4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}
		_, _ = h.Write(buf[:]) // hash.Hash never fails
	}
	put(w.med)
	put(w.localPref)
	put(uint32(w.hops))
	put(uint32(w.origin))
	put(w.bandwidth)
	comms := sortedUnique(w.comms)
	put(uint32(len(comms)))
	for _, c := range comms {
		put(c)
	}
	for _, c := range sortedUniqueLarge(w.large) {
		put(c.Global)
		put(c.Local1)
		put(c.Local2)
	}
	return h.Sum64()
}

func sortedUnique(in []uint32) []uint32 {
	out := slices.Clone(in)
	slices.Sort(out)
	return slices.Compact(out)
}

func sortedUniqueLarge(in []announce.LargeCommunity) []announce.LargeCommunity {
	out := slices.Clone(in)
	slices.SortFunc(out, compareLarge)
	return slices.Compact(out)
}

func compareLarge(a, b announce.LargeCommunity) int {
	for _, d := range [...][2]uint32{{a.Global, b.Global}, {a.Local1, b.Local1}, {a.Local2, b.Local2}} {
		if d[0] < d[1] {
			return -1
		}
		if d[0] > d[1] {
			return 1
		}
	}
	return 0
}

// normalise returns a with its lists sorted and without duplicates, as they
// are put into the table, so that what is read back compares.
func normalise(a announce.Attrs) announce.Attrs {
	a.Communities = sortedUnique(a.Communities)
	a.LargeCommunities = sortedUniqueLarge(a.LargeCommunities)
	return a
}

// normal returns r with the attributes for each place normalised.
func normal(r announce.Route) announce.Route {
	r.Attrs = normalise(r.Attrs)
	if len(r.Towards.Attrs) > 0 {
		own := make(map[string]announce.Attrs, len(r.Towards.Attrs))
		for place, a := range r.Towards.Attrs {
			own[place] = normalise(a)
		}
		r.Towards.Attrs = own
	}
	return r
}

// sentUpdate is one UPDATE that was written to a session.
type sentUpdate struct {
	announced []netip.Prefix
	withdrawn []netip.Prefix
	sum       uint64 // of the attributes of announced
}

// parseSent reads the fields of GoBGP's "sent update" message.
func parseSent(nlri, withdrawals, attributes any) sentUpdate {
	var u sentUpdate
	u.announced, u.withdrawn = prefixesOf(nlri, withdrawals, attributes)
	if len(u.announced) > 0 {
		u.sum = attrsOf(attributes).sum()
	}
	return u
}

// prefixesOf returns the prefixes of an UPDATE. IPv4 routes with an IPv4 next hop
// stand in nlri and withdrawals, all others in the attributes MP_REACH_NLRI and
// MP_UNREACH_NLRI (RFC 4760).
func prefixesOf(nlri, withdrawals, attributes any) (announced, withdrawn []netip.Prefix) {
	if list, ok := nlri.([]*bgp.IPAddrPrefix); ok {
		for _, p := range list {
			announced = appendPrefix(announced, p)
		}
	}
	if list, ok := withdrawals.([]*bgp.IPAddrPrefix); ok {
		for _, p := range list {
			withdrawn = appendPrefix(withdrawn, p)
		}
	}
	attrs, _ := attributes.([]bgp.PathAttributeInterface)
	for _, a := range attrs {
		switch a := a.(type) {
		case *bgp.PathAttributeMpReachNLRI:
			for _, p := range a.Value {
				announced = appendPrefix(announced, p)
			}
		case *bgp.PathAttributeMpUnreachNLRI:
			for _, p := range a.Value {
				withdrawn = appendPrefix(withdrawn, p)
			}
		}
	}
	return announced, withdrawn
}

// attrsOf returns the attributes of an UPDATE.
func attrsOf(attributes any) wireAttrs {
	var w wireAttrs
	attrs, _ := attributes.([]bgp.PathAttributeInterface)
	for _, a := range attrs {
		w.take(a)
	}
	return w
}

// take adds one attribute to w.
func (w *wireAttrs) take(a bgp.PathAttributeInterface) {
	switch a := a.(type) {
	case *bgp.PathAttributeMultiExitDisc:
		w.med = a.Value
	case *bgp.PathAttributeLocalPref:
		w.localPref = a.Value
	case *bgp.PathAttributeAsPath:
		for _, seg := range a.Value {
			w.hops += len(seg.GetAS())
			if seg.GetType() == bgp.BGP_ASPATH_ATTR_TYPE_SEQ {
				w.path = append(w.path, seg.GetAS()...)
			}
		}
	case *bgp.PathAttributeOrigin:
		w.origin = announce.Origin(a.Value)
	case *bgp.PathAttributeExtendedCommunities:
		for _, c := range a.Value {
			if bw, ok := c.(*bgp.LinkBandwidthExtended); ok {
				w.bandwidth = mbits(bw.Bandwidth)
			}
		}
	case *bgp.PathAttributeCommunities:
		w.comms = a.Value
	case *bgp.PathAttributeLargeCommunities:
		for _, c := range a.Values {
			w.large = append(w.large, announce.LargeCommunity{Global: c.ASN, Local1: c.LocalData1, Local2: c.LocalData2})
		}
	}
}

// appendPrefix appends a unicast prefix; other kinds of routes rhid never has.
func appendPrefix(to []netip.Prefix, nlri bgp.AddrPrefixInterface) []netip.Prefix {
	var d *bgp.IPAddrPrefixDefault
	switch p := nlri.(type) {
	case *bgp.IPAddrPrefix:
		d = &p.IPAddrPrefixDefault
	case *bgp.IPv6AddrPrefix:
		d = &p.IPAddrPrefixDefault
	default:
		return to
	}
	addr, ok := netip.AddrFromSlice(d.Prefix)
	if !ok {
		return to
	}
	if nlri.AFI() == bgp.AFI_IP {
		addr = addr.Unmap()
	}
	return append(to, netip.PrefixFrom(addr, int(d.Length)))
}
