package cluster

import (
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"
)

// Certainty is how much this node's view of the cluster can be trusted.
type Certainty string

// The certainties.
const (
	Single   Certainty = "single"   // only this node is configured
	Settling Certainty = "settling" // not all that is known to live nodes is known here yet
	Settled  Certainty = "settled"  // all that live nodes know is known
	Isolated Certainty = "isolated" // nobody is seen although others should be there
)

// syncing is the way from knowing nothing to knowing what the others know. It
// begins anew at the start, after a stall and after an isolation.
type syncing struct {
	certainty Certainty
	changedAt time.Time // wall clock, for people
	since     time.Time // monotonic: when it began
	nonce     uint64    // only digests that answer it count: others may be older
}

func (s *syncing) begin(now time.Time) {
	s.since = now
	s.nonce = rand.Uint64() | 1 // never 0, which is no answer to anything
}

func (c *Cluster) setCertainty(to Certainty) {
	if c.sync.certainty == to {
		return
	}
	c.noted(slog.LevelInfo, "cluster certainty", "from", c.sync.certainty, "to", to)
	c.sync.certainty, c.sync.changedAt = to, c.s.Wall()
	c.poke()
}

// resync makes this node ask everybody again before it trusts its view.
func (c *Cluster) resync(now time.Time) {
	c.sync.begin(now)
	for _, p := range c.peers {
		p.outOfStep()
	}
	c.setCertainty(Settling)
	c.greet(now)
}

// behind says that this process did not run for a while: others may have taken
// over what it holds, and what it knows is old.
func (c *Cluster) behind(now time.Time) bool {
	return c.run != nil && len(c.peers) > 0 && now.Sub(c.steppedAt) > c.prof.stall
}

// stalled begins anew after a while in which the loop did not run.
func (c *Cluster) stalled(now time.Time) {
	if c.behind(now) {
		c.noted(slog.LevelWarn, "cluster stalled", "gap", now.Sub(c.steppedAt).Round(time.Millisecond))
		c.resync(now)
	}
	c.steppedAt = now
}

// greet asks live nodes for their digest until this node has all that is in it.
func (c *Cluster) greet(now time.Time) {
	for _, p := range c.peers {
		wait := helloEvery
		switch {
		case p.hellos >= helloMany:
			wait = helloRarely
		case p.digest != nil:
			// It has answered, and what it has is on its way.
			wait = helloAnswered
		}
		if !p.alive || p.synced || !c.understands(p) || now.Sub(p.asked) < wait {
			continue
		}
		p.asked = now
		p.hellos++
		p.out.hello = true
		p.rouse()
	}
}

// checkPeer marks a peer as synced when nothing of its digest is missing.
func (c *Cluster) checkPeer(p *peer, now time.Time) {
	if p.synced || p.digest == nil || !p.alive {
		return
	}
	if p.digest = c.store.missing(p.digest); len(p.digest) > 0 {
		return
	}
	p.synced, p.digest, p.hellos = true, nil, 0
	c.judge(now)
	c.poke()
}

func (c *Cluster) checkSync(now time.Time) {
	for _, p := range c.peers {
		c.checkPeer(p, now)
	}
}

// judge works out the certainty.
func (c *Cluster) judge(now time.Time) {
	if len(c.peers) == 0 {
		c.setCertainty(Single)
		return
	}
	alive, waiting, gone := c.count()
	switch c.sync.certainty {
	case Settled:
		if alive == 0 && gone < len(c.peers) {
			c.setCertainty(Isolated)
		}
	case Isolated:
		if alive > 0 {
			c.resync(now)
		}
	case Single:
		c.resync(now)
	default:
		over := now.Sub(c.sync.since) >= c.prof.settle
		switch {
		case alive > 0 && (over || waiting == 0 && c.accounted()):
			c.setCertainty(Settled)
		case over:
			c.setCertainty(Isolated)
		}
	}
}

// count counts the others: those that are alive, those of them that have not
// told all yet, and those that said farewell.
func (c *Cluster) count() (alive, waiting, gone int) {
	for _, p := range c.peers {
		switch {
		case p.alive:
			alive++
			// From a node without a common protocol nothing can be learned.
			if !p.synced && c.understands(p) {
				waiting++
			}
		case c.liveness(p) == Left:
			gone++
		}
	}
	return alive, waiting, gone
}

// accounted says whether it is known of every node whether it is there: seen
// by this node, or missed by nodes that have settled. At a cold start nobody
// has, and whoever is missing may be a moment late.
func (c *Cluster) accounted() bool {
	settled := false
	missed := map[string]bool{}
	for name, p := range c.peers {
		if !p.alive && c.liveness(p) != Left {
			missed[name] = true
		}
		if s := c.sightOf(name); p.synced && s != nil && s.Certainty == Settled {
			settled = true
		}
	}
	if len(missed) == 0 {
		return true
	}
	for name, p := range c.peers {
		s := c.sightOf(name)
		if !p.synced || s == nil {
			continue
		}
		if slices.ContainsFunc(s.Sees, func(n string) bool { return missed[n] }) {
			return false
		}
	}
	return settled
}

// sightOf is what a live node says that it sees, nil when it did not say.
func (c *Cluster) sightOf(name string) *sight {
	e := c.current(recordKey{recordSight, name})
	if e == nil {
		return nil
	}
	s, _ := e.value.(*sight)
	return s
}

// current is a node's record, unless it is of an earlier life of the node.
func (c *Cluster) current(k recordKey) *entry {
	e := c.store.entries[k]
	if e == nil {
		return nil
	}
	if p := c.peers[k.name]; p != nil && p.hasMeta && e.ver.hi < p.meta.incarnation {
		return nil
	}
	return e
}
