package bgp

import (
	"context"
	"net/netip"
	"slices"
	"time"

	api "github.com/osrg/gobgp/v3/api"
)

const (
	// restPerPrefix is how long a neighbour is left alone after a look for each
	// prefix that it sent. For a look GoBGP counts them all, a fifth of a
	// microsecond each, and does nothing else meanwhile: less than one
	// hundredth of its time may go into that.
	restPerPrefix = 25 * time.Microsecond
	longestRest   = 10 * time.Second
)

// look reads what GoBGP knows of its neighbours, but for those that rest:
// message counters, negotiated families and hold times. It confirms withdraws,
// and lets IPv4 routes with IPv6 next hops out where a new session negotiated
// them.
func (s *Speaker) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	now := time.Now()
	s.mu.Lock()
	due := slices.DeleteFunc(slices.Clone(s.neighbours), func(n *neighbour) bool { return n.rests(now) })
	s.mu.Unlock()
	var extended []*neighbour
	err := s.call(ctx, s.lookOps, "reading the neighbours", func() error {
		confirmed := 0
		for _, n := range due { // one by one, so that GoBGP sees to others in between
			before := time.Now()
			err := s.bgp.ListPeer(context.Background(), &api.ListPeerRequest{Address: n.key}, func(p *api.Peer) {
				s.mu.Lock()
				defer s.mu.Unlock()
				if s.byKey[n.key] != n {
					return // replaced meanwhile
				}
				c, fresh := n.looked(p, before)
				confirmed += c
				if fresh && n.extended && n.conf.plan(true).extended && n.conf.IPv4 {
					extended = append(extended, n)
				}
				if fresh {
					confirmed++ // Read may know a better reason now
				}
			})
			if err != nil {
				return err
			}
		}
		if confirmed > 0 {
			s.mu.Lock()
			s.newsLocked()
			s.mu.Unlock()
			s.changed()
		}
		return nil
	})
	if err != nil {
		s.log.Error("cannot read the neighbours", "error", err)
		return
	}
	if len(extended) > 0 {
		s.allowExtended(ctx, extended)
	}
}

// looked takes in what GoBGP says of n, read after before. It returns the
// number of withdraws confirmed, and whether the session is a new one.
func (n *neighbour) looked(p *api.Peer, before time.Time) (confirmed int, fresh bool) {
	received := p.GetState().GetMessages().GetReceived().GetTotal()
	n.wrote = p.GetState().GetMessages().GetSent().GetTotal()
	if !n.established() || !before.After(n.up) || p.GetState().GetSessionState() != api.PeerState_ESTABLISHED {
		n.heard = received
		return 0, false
	}
	confirmed = n.heardOf(before, received)
	n.received4, n.received6 = receivedOf(p)
	n.counted = true
	n.restUntil = time.Now().Add(min(time.Duration(n.received4+n.received6)*restPerPrefix, longestRest))
	if n.learnt {
		return confirmed, false
	}
	n.learnt = true
	n.hold = time.Duration(p.GetTimers().GetState().GetNegotiatedHoldTime()) * time.Second
	c := capabilitiesOf(p)
	n.has4, n.has6 = n.conf.IPv4 && c.v4, n.conf.IPv6 && c.v6
	n.extended, n.fourOctet, n.refresh = c.extended, c.fourOctet, c.refresh
	return confirmed, true
}

// receivedOf counts the prefixes in the Adj-RIB-In.
func receivedOf(p *api.Peer) (v4, v6 int) {
	for _, f := range p.GetAfiSafis() {
		switch n := int(f.GetState().GetReceived()); {
		case isUnicast(f.GetState().GetFamily(), api.Family_AFI_IP):
			v4 = n
		case isUnicast(f.GetState().GetFamily(), api.Family_AFI_IP6):
			v6 = n
		}
	}
	return v4, v6
}

// capabilities are what a neighbour said in its OPEN.
type capabilities struct{ v4, v6, extended, fourOctet, refresh bool }

// capabilitiesOf reads them. Without any for families a neighbour takes IPv4
// unicast only (RFC 4760).
func capabilitiesOf(p *api.Peer) capabilities {
	var out capabilities
	multiprotocol := false
	for _, c := range p.GetState().GetRemoteCap() {
		m, err := c.UnmarshalNew()
		if err != nil {
			continue // a capability this version does not know
		}
		switch m := m.(type) {
		case *api.MultiProtocolCapability:
			multiprotocol = true
			out.v4 = out.v4 || isUnicast(m.GetFamily(), api.Family_AFI_IP)
			out.v6 = out.v6 || isUnicast(m.GetFamily(), api.Family_AFI_IP6)
		case *api.ExtendedNexthopCapability:
			for _, t := range m.GetTuples() {
				out.extended = out.extended || isUnicast(t.GetNlriFamily(), api.Family_AFI_IP) && t.GetNexthopFamily().GetAfi() == api.Family_AFI_IP6
			}
		case *api.FourOctetASNCapability:
			out.fourOctet = true
		case *api.RouteRefreshCapability:
			out.refresh = true
		}
	}
	out.v4 = out.v4 || !multiprotocol
	return out
}

func isUnicast(f *api.Family, afi api.Family_Afi) bool {
	return f.GetAfi() == afi && f.GetSafi() == api.Family_SAFI_UNICAST
}

// allowExtended lets IPv4 routes with IPv6 next hops out to neighbours and
// sends them. The permission ends with the session, see extendedLocked.
func (s *Speaker) allowExtended(ctx context.Context, list []*neighbour) {
	err := s.call(ctx, s.peerOps, "allowing IPv6 next hops for IPv4 routes", func() error {
		if err := s.refilter(ctx); err != nil {
			return err
		}
		for _, n := range list {
			err := s.bgp.ResetPeer(ctx, &api.ResetPeerRequest{Address: n.key, Soft: true, Direction: api.ResetPeerRequest_OUT})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		s.log.Error("cannot allow IPv6 next hops", "error", err)
	}
}

// refilter sets the policies anew from the settings, the sessions and the
// routes.
func (s *Speaker) refilter(ctx context.Context) error {
	return s.call(ctx, s.filterOps, "setting the filter", func() error {
		s.mu.Lock()
		s.special.prune(s.table)
		req := buildPolicies(s.set, s.extendedLocked(), s.special)
		marks := s.special.sorted()
		s.mu.Unlock()
		if err := s.bgp.SetPolicies(ctx, req); err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, m := range marks {
			if x := s.special.byMark[m]; x != nil {
				x.inForce = true
			}
		}
		return nil
	})
}

// extendedLocked returns the neighbours whose present session negotiated
// RFC 8950.
func (s *Speaker) extendedLocked() map[netip.Addr]bool {
	m := map[netip.Addr]bool{}
	for _, n := range s.neighbours {
		m[n.conf.Address] = n.established() && n.extended
	}
	return m
}
