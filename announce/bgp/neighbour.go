package bgp

import (
	"net/netip"
	"time"
)

// The states of a session, as GoBGP's state machine names them.
const (
	stateIdle        = "idle"
	stateOpenSent    = "opensent"
	stateOpenConfirm = "openconfirm"
	stateEstablished = "established"
)

const (
	// travelTime is for messages that were under way when a withdraw was
	// written: they are counted before the first look, and confirm nothing.
	travelTime = 10 * time.Millisecond
	// lastingSession is how long a session must have been established for its
	// loss to be answered without a pause.
	lastingSession     = 5 * time.Second
	firstPause         = 200 * time.Millisecond
	longestPause       = time.Second
	tooManyRoutesPause = 30 * time.Second // doubles each time, five times at most: each session shows and takes the VIPs
	calmSession        = 10 * time.Minute // after which a router counts as cured of sending too many routes
	offerTime          = 5 * time.Millisecond
	setupPatience      = 3 * time.Second // for the answer to an OPEN
	longestPatience    = 30 * time.Second
)

// sentRoute is the last UPDATE of a prefix in the present session.
type sentRoute struct {
	sum uint64
	at  time.Time
}

// leftRoute is a withdraw that was written to the present session.
type leftRoute struct {
	at time.Time
	// heard is the count of received messages at the first look after the
	// write; a higher count later confirms.
	heard  uint64
	looked bool
}

// neighbour is what is known of one neighbour. Speaker.mu guards it, except
// key and place, which never change, and conf, where only the name does.
type neighbour struct {
	conf  Neighbour
	key   string // GoBGP's name of it: the address with its zone
	ibgp  bool
	place string

	state string
	since time.Time // of state
	up    time.Time // of the present session; zero: not established
	down  *Down     // why there is no session, or was none before it
	ended *Down     // why the last session ended
	flaps int

	gotNote, sentNote *notification // seen since the session came up or was begun

	sent   map[netip.Prefix]sentRoute
	left   map[netip.Prefix]leftRoute
	lookAt time.Time                  // when the counter is due for the oldest of left without a look
	stale  map[netip.Prefix]time.Time // told in a session that ended before a withdraw was confirmed

	learnt    bool // the fields below are of the present session
	has4      bool
	has6      bool
	extended  bool // RFC 8950 for IPv4 unicast
	fourOctet bool // RFC 6793
	refresh   bool // RFC 2918
	hold      time.Duration
	received4 int // prefixes in the Adj-RIB-In, as of the last look
	received6 int
	restUntil time.Time // it is not looked at before
	heard     uint64    // messages received in this life of GoBGP's state machine
	wrote     uint64
	heardOld  uint64 // the same of earlier lives
	wroteOld  uint64

	listed   map[netip.Prefix]bool // Adj-RIB-Out at listedAt; nil: not yet in this session
	listedAt time.Time

	deaf     bool      // what GoBGP says is of a session that is over in the books
	lost     bool      // the session was ended by Lost, and its state machine does not know yet
	addAt    time.Time // when to delete and add it anew; zero: not wanted
	offered  time.Time // when a connection was handed to the state machine that it has not closed
	attempts int       // added anew since the last session that lasted
	floods   int       // sessions ended for too many routes since the last calm one
	arrivals int       // paths that arrived since they were last looked at
	counted  bool      // received4 and received6 are good until the next look in turn
	flooding bool      // the present session is being ended for too many routes
}

func newNeighbour(conf Neighbour, asn uint32) *neighbour {
	return &neighbour{
		conf: conf, key: conf.Address.String(), place: conf.Address.String(), ibgp: conf.ASN == asn,
		state: stateIdle, since: time.Now(),
		sent: map[netip.Prefix]sentRoute{}, left: map[netip.Prefix]leftRoute{}, stale: map[netip.Prefix]time.Time{},
	}
}

// established says whether there is a session.
func (n *neighbour) established() bool { return !n.up.IsZero() }

// sessionUp begins a session. Without graceful restart the neighbour starts
// from an empty table, so all that was told before is gone there.
func (n *neighbour) sessionUp(now time.Time) {
	n.up = now
	clear(n.sent)
	clear(n.left)
	clear(n.stale)
	n.gotNote, n.sentNote = nil, nil
	n.forgetSession()
}

// forgetSession drops what was learnt of a session.
func (n *neighbour) forgetSession() {
	n.lookAt = time.Time{}
	n.learnt, n.has4, n.has6, n.extended, n.fourOctet, n.refresh, n.hold = false, false, false, false, false, false, 0
	n.received4, n.received6, n.arrivals, n.counted, n.flooding = 0, 0, 0, true, false
	n.listed, n.listedAt, n.restUntil = nil, time.Time{}, time.Time{}
}

// sessionDown ends the session, if there is one, for the reason d.
func (n *neighbour) sessionDown(now time.Time, d Down) {
	if !n.established() {
		return
	}
	d.At = now
	n.ended = &d
	n.flaps++
	if d.Kind != DownReceived { // who ended the session itself has dropped the routes
		for p := range n.sent {
			n.stale[p] = now
		}
		for p := range n.left {
			n.stale[p] = now
		}
	}
	clear(n.sent)
	clear(n.left)
	if now.Sub(n.up) > lastingSession {
		n.attempts = 0
	}
	if now.Sub(n.up) > calmSession {
		n.floods = 0
	}
	n.up = time.Time{}
	n.forgetSession()
}

// setDown records why there is no session.
func (n *neighbour) setDown(now time.Time, d Down) {
	d.At = now
	n.down = &d
}

// wroteUpdate records an UPDATE written to the session and says whether it
// holds the first withdraw in a while that needs a confirmation.
func (n *neighbour) wroteUpdate(now time.Time, u sentUpdate) (first bool) {
	for _, p := range u.announced {
		n.sent[p] = sentRoute{sum: u.sum, at: now}
		delete(n.left, p)
		delete(n.stale, p)
	}
	for _, p := range u.withdrawn {
		if _, ok := n.sent[p]; !ok {
			continue // never told: GoBGP also withdraws what its filter kept back
		}
		delete(n.sent, p)
		n.left[p] = leftRoute{at: now}
		if n.lookAt.IsZero() {
			n.lookAt, first = now.Add(travelTime), true
		}
	}
	return first
}

// heardOf takes the count of received messages, read between before and now,
// and returns how many withdraws it confirmed.
func (n *neighbour) heardOf(before time.Time, count uint64) (confirmed int) {
	n.heard = count
	n.lookAt = time.Time{}
	for p, l := range n.left {
		switch {
		case l.looked && count > l.heard:
			delete(n.left, p)
			confirmed++
		case l.looked:
		case before.Sub(l.at) >= travelTime:
			n.left[p] = leftRoute{at: l.at, heard: count, looked: true}
		case n.lookAt.IsZero() || l.at.Add(travelTime).Before(n.lookAt):
			n.lookAt = l.at.Add(travelTime)
		}
	}
	return confirmed
}

// lookDue is when the counters should be read, because a session is new, much
// arrived, or a withdraw has no count to compare with; zero: nothing of that.
func (n *neighbour) lookDue() time.Time {
	if n.established() && (!n.learnt || !n.counted) {
		return n.up
	}
	if n.lookAt.IsZero() {
		return n.lookAt
	}
	return later(n.lookAt, n.restUntil)
}

// rests says whether n sent so much that it must not be looked at again yet.
// What arrived since then may be above the limit, and is looked at in any case.
func (n *neighbour) rests(now time.Time) bool { return n.counted && now.Before(n.restUntil) }

// backOff is how long to wait before n is added anew after it went to idle. A
// session that lasted comes back at once; one that fails again and again, and
// one whose router sent too many routes, must not keep both sides busy.
func (n *neighbour) backOff() time.Duration {
	n.attempts++
	switch {
	case n.down != nil && n.down.Kind == DownPrefixes:
		n.floods++
		return tooManyRoutesPause << min(n.floods-1, 5)
	case n.attempts == 1:
		return 0
	default:
		return min(firstPause<<min(n.attempts-2, 8), longestPause)
	}
}

// giveUpSetup has n added anew when a router took the connection and then said
// nothing, where GoBGP would wait for four minutes and refuse what the router
// dials meanwhile. The patience grows, so that a slow router gets its time.
func (n *neighbour) giveUpSetup(now time.Time) {
	patience := min(setupPatience<<min(n.attempts, 4), longestPatience)
	if n.state != stateOpenSent && n.state != stateOpenConfirm || now.Sub(n.since) < patience || !n.addAt.IsZero() {
		return
	}
	n.setDown(now, Down{Kind: DownSetup, Text: "the neighbour took the connection and does not answer"})
	n.attempts++
	n.addAt = now
}

// renewDue says whether it is time to add n anew. A state machine that is
// deleted in the moment it is handed a connection may leave that open, and the
// router would wait minutes for an OPEN on it; so it is given time to close it.
func (n *neighbour) renewDue(now time.Time) bool {
	if n.addAt.IsZero() || now.Before(n.addAt) {
		return false
	}
	if now.Sub(n.offered) < offerTime {
		n.addAt = n.offered.Add(offerTime)
		return false
	}
	return true
}

// restarted records that GoBGP's state machine of n was replaced by a new one,
// whose counters start at zero.
func (n *neighbour) restarted(now time.Time) {
	n.heardOld += n.heard
	n.wroteOld += n.wrote
	n.heard, n.wrote = 0, 0
	n.state, n.since = stateIdle, now
	n.addAt, n.offered = time.Time{}, time.Time{}
}
