package daemon

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"time"

	"rhid/announce/bfd"
	"rhid/internal/config"
	"rhid/internal/control"
)

const maxTTL = 255

// newPeer makes the BFD session with a router; ok is false where it has none.
func newPeer(r config.Router) (p bfd.Peer, ok bool, err error) {
	c := r.BFD
	if c == nil || !r.Address.IsValid() { // the second is refused by config
		return p, false, nil
	}
	p = bfd.Peer{
		Name: r.Name, Address: r.Address, Source: r.Source, Hops: bfd.HopsAuto, Expect: bfd.HopsSingle,
		MinTTL: minTTL(r), Interval: c.Interval, Multiplier: uint8(c.Multiplier), //nolint:gosec // 1 to 255
	}
	if r.TTLSecurity || r.Multihop > 0 {
		p.Expect = bfd.HopsMulti // FRR takes ttl-security for a sort of multihop
	}
	switch {
	case c.Multihop == config.BFDMultihopAlways:
		p.Hops = bfd.HopsMulti
	case c.Multihop == config.BFDMultihopNever || p.Address.Is6() && p.Address.IsLinkLocalUnicast():
		p.Hops = bfd.HopsSingle
	}
	key, err := c.Key(os.ReadFile)
	if err != nil {
		return p, false, fmt.Errorf("reading the BFD key: %w", err)
	}
	switch c.Auth {
	case config.BFDKeyedSHA1:
		p.Auth = bfd.Auth{Type: bfd.KeyedSHA1, KeyID: uint8(c.KeyID), Key: key} //nolint:gosec // 0 to 255
	case config.BFDMeticulousSHA1:
		p.Auth = bfd.Auth{Type: bfd.MeticulousKeyedSHA1, KeyID: uint8(c.KeyID), Key: key} //nolint:gosec // 0 to 255
	}
	return p, true, nil
}

// addPeer takes the BFD session with a router over.
func (m *model) addPeer(r config.Router) error {
	p, ok, err := newPeer(r)
	if ok {
		m.peers = append(m.peers, p)
	}
	return err
}

// minTTL is what a packet of a multihop session must have left: from a router on
// the link all of the 255 that it began with (GTSM). What is left of one from
// farther away says nothing: FRR begins with 255, BIRD with 64.
func minTTL(r config.Router) uint8 {
	far := r.Multihop > 0 || r.BFD.Multihop == config.BFDMultihopAlways
	if far && !r.TTLSecurity {
		return 1
	}
	return maxTTL
}

// startBFD begins the sessions. Nothing is sent before the event loop turns.
func (d *Daemon) startBFD(m *model) error {
	hooks := bfd.Hooks{Alive: d.pulse.alive, Down: func(peer netip.Addr, why string) { d.speaker.Lost(peer, "BFD: "+why) }}
	s, err := bfd.Start(m.peers, hooks, d.log)
	if err != nil {
		return fmt.Errorf("starting BFD: %w", err)
	}
	d.bfd = s
	return nil
}

// bfdAfterBGP is how much longer than BGP the BFD sessions live. FRR and BIRD
// take AdminDown for a failure of the host while their end of the BGP session
// stands, and they may read the end of that later, although it was sent before.
const bfdAfterBGP = 500 * time.Millisecond

// endBFD has no session come up again that a router ends because BGP ends.
func (d *Daemon) endBFD(context.Context) error {
	d.pulse.end() // also where the loop never ran
	if d.bfd != nil {
		d.bfd.BeginStop()
	}
	return nil
}

// stopBFD tells the routers that the end is meant.
func (d *Daemon) stopBFD(ctx context.Context) error {
	if d.bfd == nil {
		return nil
	}
	return d.bfd.Stop(ctx, bfdAfterBGP)
}

// bfdChanged receives a value when a BFD session may have come up or gone down.
func (l *loop) bfdChanged() <-chan struct{} {
	if l.d.bfd == nil {
		return nil
	}
	return l.d.bfd.Changes()
}

// watchBFD reports BFD sessions that came up or went down.
func (l *loop) watchBFD(now time.Time) {
	if l.d.bfd == nil {
		return
	}
	seen := map[string]bool{}
	for _, s := range l.d.bfd.Sessions() {
		up := s.State == bfd.Up
		seen[s.Name] = up
		if l.bfdUp[s.Name] == up {
			continue
		}
		ev := control.Event{Time: now, Kind: "bfd", Subject: s.Name, What: "up", Detail: fmt.Sprintf("every %v, silent after %v", s.Interval, s.Detection)}
		if !up {
			ev.What, ev.Detail = "down", s.Why
		}
		l.journal.add(ev)
	}
	l.bfdUp = seen
}

// bfdStatus returns the BFD sessions by address of the neighbour.
func (l *loop) bfdStatus() map[string]*control.BFD {
	if l.d.bfd == nil {
		return nil
	}
	out := map[string]*control.BFD{}
	for _, s := range l.d.bfd.Sessions() {
		out[s.Address.String()] = &control.BFD{
			State: s.State.String(), Since: s.Since, Hops: s.Hops.String(),
			IntervalMS: milliseconds(s.Interval), DetectionMS: milliseconds(s.Detection),
			Diag: s.Diag.String(), RemoteDiag: s.RemoteDiag.String(), Flaps: s.Flaps, Refused: s.Refused, Why: s.Why,
		}
	}
	return out
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// bfdAlarm is about a neighbour whose routes would be noticed as lost later than
// is configured.
func bfdAlarm(n control.Neighbour, now time.Time) []control.Alarm {
	if n.BFD == nil || !n.Established || n.BFD.State == bfd.Up.String() || now.Sub(n.BFD.Since) < alarmAfter || now.Sub(n.Since) < alarmAfter {
		return nil
	}
	return []control.Alarm{{Code: "bfd-down", What: n.Name, Since: n.BFD.Since, Detail: n.BFD.Why}}
}

// session tells a check of the state of the BFD session with a router.
func (d *Daemon) session(router string) (up bool, why string) {
	if d.bfd != nil {
		for _, s := range d.bfd.Sessions() {
			if s.Name == router {
				return s.State == bfd.Up, s.Why
			}
		}
	}
	return false, "this node has no BFD session with a router of that name"
}

// configureBFD gives the sessions the settings of m.
func (d *Daemon) configureBFD(m *model) error {
	if d.bfd == nil {
		return nil
	}
	if err := d.bfd.Configure(m.peers); err != nil {
		return fmt.Errorf("changing the BFD sessions: %w", err)
	}
	return nil
}
