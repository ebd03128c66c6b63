package services

import (
	"cmp"
	"hash/fnv"
	"slices"
)

// AutoOrder is the takeover order of a service that configures none: its main
// node, then the nodes of the same site, then all others, each by rendezvous
// hashing, so that services spread over the nodes and a node that comes or
// goes moves no other. Without a main node hashing chooses that too.
func AutoOrder(service, main string, nodes []Node) []string {
	sorted := slices.Clone(nodes)
	weight := make(map[string]uint64, len(nodes))
	for _, n := range nodes {
		weight[n.Name] = rendezvous(service, n.Name)
	}
	byWeight := func(a, b Node) int {
		return cmp.Or(cmp.Compare(weight[b.Name], weight[a.Name]), cmp.Compare(a.Name, b.Name))
	}
	slices.SortFunc(sorted, byWeight)
	if main == "" && len(sorted) > 0 {
		main = sorted[0].Name
	}
	site := ""
	for _, n := range nodes {
		if n.Name == main {
			site = n.Site
		}
	}
	slices.SortStableFunc(sorted, func(a, b Node) int {
		return cmp.Or(
			first(a.Name == main, b.Name == main),
			first(a.Site == site, b.Site == site),
		)
	})
	order := make([]string, len(sorted))
	for i, n := range sorted {
		order[i] = n.Name
	}
	return order
}

// rendezvous is the weight of a node for a service (highest random weight
// hashing, Thaler and Ravishankar 1998). FNV alone spreads short names badly,
// hence the mixing at the end.
func rendezvous(service, node string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(service)) //nolint:errcheck // a hash never fails
	h.Write([]byte{0})       //nolint:errcheck // a hash never fails
	h.Write([]byte(node))    //nolint:errcheck // a hash never fails
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
