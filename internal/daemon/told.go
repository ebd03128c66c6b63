package daemon

import (
	"fmt"
	"slices"

	"rhid/announce"
	"rhid/internal/config"
)

// gracefulShutdown is the well-known community of RFC 8326: routers lower the
// preference of a route that carries it.
const gracefulShutdown = 0xFFFF0000

// The large community <asn>:0:1 marks a route that is kept although no node can
// serve. No node has the number 0.
const (
	statusNode     = 0
	statusDegraded = 1
)

// told is what routers are told with a service's routes.
type told struct {
	attrs   announce.Attrs
	towards announce.Towards
}

// attrKey is what that depends on.
type attrKey struct {
	rank  int
	state config.State
}

// teller is a BGP neighbour as far as routes look different to it.
type teller struct {
	conf  config.Router
	place string // see announce.Place
	rows  map[*config.Row]row
}

// row is a config.Row made ready for use.
type row struct {
	std   []uint32
	large []announce.LargeCommunity
}

// addRouter takes a router's table over.
func (m *model) addRouter(conf config.Router) error {
	r := &teller{conf: conf, place: conf.Address.Unmap().String(), rows: map[*config.Row]row{}}
	for _, c := range conf.Attributes.All() {
		std, large, err := c.ParsedCommunities()
		if err != nil {
			return fmt.Errorf("attributes: %w", err)
		}
		r.rows[c] = row{std, largeOf(large)}
	}
	m.routers = append(m.routers, r)
	return nil
}

func largeOf(list [][3]uint32) []announce.LargeCommunity {
	var out []announce.LargeCommunity
	for _, l := range list {
		out = append(out, announce.LargeCommunity{Global: l[0], Local1: l[1], Local2: l[2]})
	}
	return out
}

// told returns what goes out with a service's routes, made once.
func (s *service) told(m *model, key attrKey) told {
	t, ok := s.made[key]
	if !ok {
		t = m.told(s, key)
		s.made[key] = t
	}
	return t
}

func (m *model) told(s *service, key attrKey) told {
	t := told{attrs: m.attrs(s, key)}
	for _, r := range m.routers {
		if !r.conf.Tells(s.conf.Of()) {
			t.towards.Except = append(t.towards.Except, r.place)
			continue
		}
		if conf := r.conf.Attributes.Row(key.rank, key.state); conf != nil {
			if t.towards.Attrs == nil {
				t.towards.Attrs = map[string]announce.Attrs{}
			}
			t.towards.Attrs[r.place] = overlay(t.attrs, conf, r.rows[conf])
		}
	}
	slices.Sort(t.towards.Except)
	return t
}

// attrs makes a service's attributes for routers without a table. The large
// community <asn>:<node id>:<rank> tells other nodes whose route it is.
func (m *model) attrs(s *service, key attrKey) announce.Attrs {
	a := announce.Attrs{
		Rank:        key.rank,
		Metric:      s.conf.Metric.Base + uint32(key.rank)*s.conf.Metric.Step, //nolint:gosec // rank is at most the length of an order
		Prepend:     key.rank * s.prepend,
		LocalPref:   s.conf.LocalPref,
		Bandwidth:   m.bandwidth(s),
		Communities: s.std,
		LargeCommunities: append([]announce.LargeCommunity{
			{Global: m.asn, Local1: m.self.ID, Local2: uint32(key.rank)}, //nolint:gosec // as above
		}, s.large...),
	}
	switch key.state {
	case config.Draining:
		a.Communities = append(slices.Clone(s.std), gracefulShutdown)
		slices.Sort(a.Communities)
	case config.Degraded:
		a.LargeCommunities = append(a.LargeCommunities, announce.LargeCommunity{Global: m.asn, Local1: statusNode, Local2: statusDegraded})
	case config.Serving:
	}
	return a
}

// bandwidth is what the node tells for weighted ECMP, in Mbit/s.
func (m *model) bandwidth(s *service) uint32 {
	if bw, ok := s.conf.LinkBandwidth[m.self.Name]; ok {
		return bw
	}
	return m.self.LinkBandwidth
}

// overlay puts what a row has in the place of what the service has.
func overlay(a announce.Attrs, conf *config.Row, r row) announce.Attrs {
	if conf.MED != nil {
		a.Metric = *conf.MED
	}
	if conf.Prepend != nil {
		a.Prepend = *conf.Prepend
	}
	if conf.LocalPref != nil {
		a.LocalPref = *conf.LocalPref
	}
	a.Communities = append(slices.Clone(a.Communities), r.std...)
	slices.Sort(a.Communities)
	a.LargeCommunities = append(slices.Clone(a.LargeCommunities), r.large...)
	a.Origin = originOf(conf.Origin)
	return a
}

func originOf(s string) announce.Origin {
	switch s {
	case "egp":
		return announce.OriginEGP
	case "incomplete":
		return announce.OriginIncomplete
	default:
		return announce.OriginIGP
	}
}
