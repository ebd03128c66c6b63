package bgp

import (
	"context"
	"time"

	api "github.com/osrg/gobgp/v3/api"
)

const (
	lookEvery   = time.Second            // message counters, when nothing waits for them
	lookFast    = 100 * time.Millisecond // the same while a withdraw waits for its confirmation
	listEvery   = 10 * time.Second       // listings of GoBGP's tables, when nothing changed
	listAtMost  = time.Second            // the same when something did
	listQuiet   = 500 * time.Millisecond // since the last change: a listing holds GoBGP up, and the next change with it
	patience    = 5 * time.Second        // for one call of Run's into GoBGP
	neverPassed = 24 * time.Hour
)

// Run keeps the sessions up and the books true until ctx ends, and then
// returns nil. An error means that GoBGP is in a state it does not know; the
// speaker should be stopped.
func (s *Speaker) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		case <-timer.C:
		}
		s.mu.Lock()
		failure := s.failure
		s.mu.Unlock()
		if failure != nil {
			return failure
		}
		timer.Reset(time.Until(s.round(ctx)))
	}
}

// round does what is due and returns when the next thing will be.
func (s *Speaker) round(ctx context.Context) time.Time {
	if s.isStopping() {
		return time.Now().Add(neverPassed)
	}
	s.renewDue(ctx)
	now := time.Now()
	if !now.Before(s.lookDue()) {
		s.look(ctx)
		s.endFloods(ctx)
		s.lastLook = time.Now()
		s.nextLook = s.lastLook.Add(lookEvery)
	}
	if soon := time.Now().Add(lookFast); s.confirmationsWait() && soon.Before(s.nextLook) {
		s.nextLook = soon
	}
	if !now.Before(s.listDue()) {
		s.list(ctx)
		s.nextList = time.Now().Add(listEvery)
	}
	return s.nextDue()
}

// listDue is when GoBGP's tables are listed next: every listEvery, and sooner
// when something changed, but not while changes follow each other.
func (s *Speaker) listDue() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.dirty {
		return s.nextList
	}
	due := later(s.nextList.Add(listAtMost-listEvery), s.changedAt.Add(listQuiet))
	if due.After(s.nextList) {
		return s.nextList
	}
	return due
}

// nextDue is when round should be called again at the latest.
func (s *Speaker) nextDue() time.Time {
	due := s.lookDue()
	if list := s.listDue(); list.Before(due) {
		due = list
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.neighbours {
		if !n.addAt.IsZero() && n.addAt.Before(due) {
			due = n.addAt
		}
	}
	return due
}

// renewDue deletes and adds anew the neighbours whose state machine went back
// to idle, where GoBGP would keep it for five seconds.
func (s *Speaker) renewDue(ctx context.Context) {
	s.mu.Lock()
	var due []*neighbour
	now := time.Now()
	for _, n := range s.neighbours {
		n.giveUpSetup(now)
		if n.renewDue(now) {
			due = append(due, n)
		}
	}
	s.mu.Unlock()
	for _, n := range due {
		ctx, cancel := context.WithTimeout(ctx, patience)
		err := s.call(ctx, s.peerOps, "renewing the session", func() error { return s.renew(ctx, n) })
		cancel()
		if err != nil {
			s.log.Error("cannot renew a session", "neighbour", n.place, "error", err)
			s.mu.Lock()
			n.addAt = time.Now().Add(longestPause)
			s.mu.Unlock()
		}
	}
}

// renew gives n a new state machine, unless things have changed meanwhile.
func (s *Speaker) renew(ctx context.Context, n *neighbour) error {
	s.mu.Lock()
	wanted := !s.stopping && s.byKey[n.key] == n && !n.addAt.IsZero()
	lost := n.lost
	s.mu.Unlock()
	switch {
	case !wanted:
		return nil
	case lost:
		return s.replace(ctx, n, 0)
	}
	s.noteRefusal(n)
	if err := s.bgp.DeletePeer(ctx, &api.DeletePeerRequest{Address: n.key}); err != nil {
		s.log.Debug("neighbour was not there", "neighbour", n.place, "error", err)
	}
	s.mu.Lock()
	n.restarted(time.Now())
	s.mu.Unlock()
	if n.conf.plan(true).extended {
		// The next session may not have what the last one negotiated.
		if err := s.refilter(ctx); err != nil {
			return err
		}
	}
	return s.bgp.AddPeer(ctx, &api.AddPeerRequest{Peer: n.conf.peer()})
}

// noteRefusal finds out whether the neighbour answered the OPEN with a
// NOTIFICATION, which GoBGP only counts.
func (s *Speaker) noteRefusal(n *neighbour) {
	s.mu.Lock()
	setup := n.down != nil && n.down.Kind == DownSetup
	s.mu.Unlock()
	if !setup {
		return
	}
	_ = s.bgp.ListPeer(context.Background(), &api.ListPeerRequest{Address: n.key}, func(p *api.Peer) {
		if p.GetState().GetMessages().GetReceived().GetNotification() == 0 {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		n.setDown(n.down.At, Down{Kind: DownSetup, Text: "the neighbour refused the session with a NOTIFICATION; its own log says why (a wrong ASN, or both dialled at the same moment)"})
	})
	s.changed()
}

// confirmationsWait says whether a withdraw was written to a session that
// still stands, and a look may confirm it.
func (s *Speaker) confirmationsWait() bool {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.neighbours {
		if len(n.left) > 0 && !n.rests(now) {
			return true
		}
	}
	return false
}

// lookDue is when the counters must be read at the latest.
func (s *Speaker) lookDue() time.Time {
	due := s.nextLook
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.neighbours {
		if t := n.lookDue(); !t.IsZero() && t.Before(due) {
			due = t
		}
	}
	return later(due, s.lastLook.Add(travelTime)) // never in a tight loop
}
