package bgp

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"rhid/announce"

	api "github.com/osrg/gobgp/v3/api"
)

// firstSpecial is the first mark that is not a number of prepends.
const (
	firstSpecial = maxPrepend + 1
	lastSpecial  = 1<<24 - 1
)

// special is what a route says to each neighbour, where that is not the same
// for all.
type special struct {
	attrs   announce.Attrs // to neighbours without attributes of their own
	towards announce.Towards
	inForce bool // the export policy has statements for it
}

// at returns what the route says at a place, and whether it is told there.
func (x *special) at(place string) (announce.Attrs, bool) {
	if slices.Contains(x.towards.Except, place) {
		return announce.Attrs{}, false
	}
	if a, ok := x.towards.Attrs[place]; ok {
		return a, true
	}
	return x.attrs, true
}

// specials are all of them by mark. Routes that say the same share one, so
// there are about as many as ranks and states. Speaker.mu guards them.
type specials struct {
	byMark map[int]*special
	next   int
	busy   int // mark of the Put under way, 0: none
}

func newSpecials() *specials { return &specials{byMark: map[int]*special{}, next: firstSpecial} }

// mark returns the mark of a route whose attributes are normalised, and whether
// the export policy has statements for it.
func (x *specials) mark(r announce.Route) (mark int, inForce bool, err error) {
	if len(r.Towards.Attrs) == 0 && len(r.Towards.Except) == 0 {
		return r.Attrs.Prepend, true, nil
	}
	for m, o := range x.byMark {
		if sameAttrs(o.attrs, r.Attrs) && o.towards.Equal(r.Towards) {
			return m, o.inForce, nil
		}
	}
	if x.next > lastSpecial {
		return 0, false, errors.New("bgp: out of marks for routes that differ between neighbours")
	}
	x.byMark[x.next] = &special{attrs: r.Attrs, towards: r.Towards}
	x.next++
	return x.next - 1, false, nil
}

// prune forgets those that no route has.
func (x *specials) prune(table map[netip.Prefix]*entry) {
	used := map[int]bool{x.busy: true}
	for _, e := range table {
		used[e.mark] = true
	}
	for m := range x.byMark {
		if !used[m] {
			delete(x.byMark, m)
		}
	}
}

// route completes what was read from GoBGP's table.
func (x *specials) route(p netip.Prefix, a announce.Attrs, mark int) announce.Route {
	r := announce.Route{Prefix: p, Attrs: a}
	if mark < firstSpecial {
		r.Attrs.Prepend = mark
	} else if o := x.byMark[mark]; o != nil {
		r.Attrs.Prepend, r.Towards = o.attrs.Prepend, o.towards
	}
	return r
}

// statements give the routes to one neighbour their attributes and keep back
// those it is not to be told. One statement serves all that say the same to it.
func (x *specials) statements(set string, n Neighbour, asn uint32) []*api.Statement {
	var same []announce.Attrs
	marks := map[int][]string{} // by place in same
	for _, m := range x.sorted() {
		a, told := x.byMark[m].at(n.Address.String())
		if !told {
			continue
		}
		i := slices.IndexFunc(same, func(o announce.Attrs) bool { return sameAttrs(o, a) })
		if i < 0 {
			i = len(same)
			same = append(same, a)
		}
		marks[i] = append(marks[i], hostPrefix(markAddr(true, m)), hostPrefix(markAddr(false, m)))
	}
	var out []*api.Statement
	for i, a := range same {
		out = append(out, &api.Statement{
			Name:       fmt.Sprintf("%s-attributes-%d", set, i),
			Conditions: &api.Conditions{NeighborSet: &api.MatchSet{Name: set, Type: api.MatchSet_ANY}, NextHopInList: marks[i]},
			Actions:    actions(a, n.ASN == asn, asn),
		})
	}
	return out
}

// keptBack is the large community that a path has in the global table when
// some neighbours are not to be told of it. The mark in the next hop does not
// do: when a path replaces another, GoBGP judges the old one, too, to learn
// whether it was told, and shows the policy the next hop of the new one.
// Global administrator 0 is reserved, so nobody else's community is like it.
func keptBack(mark int) announce.LargeCommunity {
	return announce.LargeCommunity{Global: 0, Local1: uint32(mark)} //nolint:gosec // at most lastSpecial
}

// refusal keeps the routes from a neighbour that it is not to be told of; set
// and statement are nil when there are none.
func (x *specials) refusal(set string, n Neighbour) (*api.DefinedSet, *api.Statement) {
	var kept []string
	for _, m := range x.sorted() {
		if _, told := x.byMark[m].at(n.Address.String()); !told {
			kept = append(kept, largeText(keptBack(m)))
		}
	}
	if len(kept) == 0 {
		return nil, nil
	}
	name := set + "-not-told"
	return &api.DefinedSet{DefinedType: api.DefinedType_LARGE_COMMUNITY, Name: name, List: kept}, &api.Statement{
		Name: name,
		Conditions: &api.Conditions{
			NeighborSet:       &api.MatchSet{Name: set, Type: api.MatchSet_ANY},
			LargeCommunitySet: &api.MatchSet{Name: name, Type: api.MatchSet_ANY},
		},
		Actions: &api.Actions{RouteAction: api.RouteAction_REJECT},
	}
}

func largeText(c announce.LargeCommunity) string {
	return fmt.Sprintf("%d:%d:%d", c.Global, c.Local1, c.Local2)
}

func (x *specials) sorted() []int {
	out := make([]int, 0, len(x.byMark))
	for m := range x.byMark {
		out = append(out, m)
	}
	slices.Sort(out)
	return out
}

func hostPrefix(a netip.Addr) string { return netip.PrefixFrom(a, a.BitLen()).String() }

// actions make the attributes of a path those of a, all but the bandwidth,
// which is the same for all, and let the evaluation go on.
func actions(a announce.Attrs, ibgp bool, asn uint32) *api.Actions {
	out := &api.Actions{
		Med:            &api.MedAction{Type: api.MedAction_REPLACE, Value: int64(a.Metric)},
		Community:      &api.CommunityAction{Type: api.CommunityAction_REPLACE},
		LargeCommunity: &api.CommunityAction{Type: api.CommunityAction_REPLACE},
		OriginAction:   &api.OriginAction{Origin: api.RouteOriginType(a.Origin) + api.RouteOriginType_ORIGIN_IGP},
	}
	for _, c := range a.Communities {
		out.Community.Communities = append(out.Community.Communities, fmt.Sprintf("%d:%d", c>>16, c&0xffff))
	}
	for _, c := range a.LargeCommunities {
		out.LargeCommunity.Communities = append(out.LargeCommunity.Communities, largeText(c))
	}
	if ibgp {
		pref := a.LocalPref
		if pref == 0 {
			pref = defaultLocalPref
		}
		out.LocalPref = &api.LocalPrefAction{Value: pref}
	} else if a.Prepend > 0 {
		out.AsPrepend = &api.AsPrependAction{Asn: asn, Repeat: uint32(a.Prepend)}
	}
	return out
}
