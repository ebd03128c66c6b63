package config

import "slices"

// Attributes say how routes look to a router, by rank and by state. What a row
// leaves out is as the service has it.
type Attributes struct {
	Ranks    []Row `yaml:"ranks" doc:"of rank 0, 1, …"`
	Worst    *Row  `yaml:"worst" doc:"of a rank beyond ranks, and of a node that drains or is degraded where that has no row"`
	Draining *Row  `yaml:"draining" doc:"of a node that drains; GRACEFUL_SHUTDOWN (RFC 8326) is always among its communities"`
	Degraded *Row  `yaml:"degraded" doc:"of a route that is kept although no node can serve (all_down: keep); <asn>:0:1 is always among its large communities"`
}

// Row is one row of the table.
type Row struct {
	MED         *uint32  `yaml:"med" doc:"base + rank × step of the service's metric by default"`
	Prepend     *int     `yaml:"prepend" min:"0" max:"31" doc:"times the own ASN is prepended, eBGP only; rank times the service's prepend by default"`
	LocalPref   *uint32  `yaml:"local_preference" min:"1" doc:"iBGP only; the service's by default"`
	Communities []string `yaml:"communities" doc:"standard and large ones, besides the service's"`
	Origin      string   `yaml:"origin" default:"igp" enum:"igp,egp,incomplete" doc:"ORIGIN (RFC 4271)"`
}

// State is what a node is about with a service, as far as routers are told.
type State uint8

// The states.
const (
	Serving State = iota
	Draining
	Degraded
)

// Row returns the row for a rank and a state, nil for none. A nil a has none.
func (a *Attributes) Row(rank int, state State) *Row {
	switch {
	case a == nil:
		return nil
	case state == Draining && a.Draining != nil:
		return a.Draining
	case state == Degraded && a.Degraded != nil:
		return a.Degraded
	case state == Serving && rank < len(a.Ranks):
		return &a.Ranks[rank]
	default:
		return a.Worst
	}
}

// All returns the rows that are there.
func (a *Attributes) All() []*Row {
	if a == nil {
		return nil
	}
	var out []*Row
	for i := range a.Ranks {
		out = append(out, &a.Ranks[i])
	}
	for _, r := range []*Row{a.Worst, a.Draining, a.Degraded} {
		if r != nil {
			out = append(out, r)
		}
	}
	return out
}

// ParsedCommunities is like Service.ParsedCommunities.
func (r *Row) ParsedCommunities() (std []uint32, large [][3]uint32, err error) {
	return parseCommunities(r.Communities)
}

// Tells says whether the router is told of a service.
func (r *Router) Tells(service string) bool {
	return len(r.Services) == 0 || slices.Contains(r.Services, service)
}
