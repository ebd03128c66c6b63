package cluster

import (
	"fmt"
	"slices"
	"time"
)

// Liveness is whether a node is there.
type Liveness string

// The livenesses.
const (
	Unknown Liveness = "unknown" // not seen since this node started
	Alive   Liveness = "alive"
	Left    Liveness = "left" // said that it goes
	Dead    Liveness = "dead" // fell silent
)

// clockTolerance is how far clocks may be apart.
const clockTolerance = 5 * time.Second

// View is what is known of the cluster. Maps and slices in it are never
// changed after; they may be shared with other Views and must not be written
// to.
type View struct {
	Self      string     `json:"self"`
	Certainty Certainty  `json:"certainty"`
	Since     time.Time  `json:"since"` // of the certainty
	Protocol  int        `json:"protocol"`
	Encrypted bool       `json:"encrypted"`
	Keys      []string   `json:"keys,omitempty"` // see KeyID; the first encrypts
	Nodes     []NodeView `json:"nodes"`          // in configured order, this one too
	Intents   []Intent   `json:"intents"`        // that hold, as they were set
	Problems  []Problem  `json:"problems"`
	Dropped   uint64     `json:"dropped,omitempty"` // messages that were not read
}

// NodeView is what is known of one node.
type NodeView struct {
	Node
	Liveness Liveness      `json:"liveness"`
	Since    time.Time     `json:"since"`             // of the liveness; zero when Unknown
	Leaving  string        `json:"leaving,omitempty"` // it said that it goes, and why
	Silent   time.Duration `json:"silent"`            // since the last sign of life from the node itself
	RTT      time.Duration `json:"rtt"`
	Skew     time.Duration `json:"skew"` // its wall clock against this node's
	Contact  string        `json:"contact,omitempty"`
	Synced   bool          `json:"synced"` // all that it knew is known here

	Incarnation uint64 `json:"incarnation"` // of State
	Sequence    uint64 `json:"sequence"`
	// State is what it says of itself, the last word of a node that is gone;
	// nil before it has said anything in its present life.
	State *State `json:"state"`

	Sees      []string  `json:"sees,omitempty"` // live nodes, as it says
	Certainty Certainty `json:"certainty,omitempty"`
	Keys      []string  `json:"keys,omitempty"`
}

// View returns what is known now.
func (c *Cluster) View() View {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	v := View{
		Self: c.s.Self, Certainty: c.sync.certainty, Since: c.sync.changedAt,
		Protocol: int(c.speak()), Encrypted: c.keyring != nil, Keys: c.keyIDs(),
		Intents: c.intents(now), Dropped: c.dropped,
	}
	if c.behind(now) {
		v.Certainty = Settling
	}
	for _, n := range c.nodes {
		v.Nodes = append(v.Nodes, c.nodeView(n, now))
	}
	v.Problems = append(c.problems.all(), c.derived(v.Nodes, now)...)
	slices.SortStableFunc(v.Problems, compareProblems)
	return v
}

func (c *Cluster) nodeView(n Node, now time.Time) NodeView {
	v := NodeView{Node: n, Liveness: Alive, Synced: true}
	if p := c.peers[n.Name]; p != nil {
		v.Liveness, v.Since = c.liveness(p), p.since
		v.RTT, v.Skew = p.rtt, p.skew
		if !p.heard.IsZero() {
			v.Silent = now.Sub(p.heard)
		}
		v.Contact, v.Synced = p.contact, p.alive && p.synced
	}
	if e := c.current(recordKey{recordState, n.Name}); e != nil {
		v.Incarnation, v.Sequence = e.ver.hi, e.ver.lo
		if b, ok := e.value.(*stateBody); ok {
			v.State, v.Leaving = &b.State, b.Leaving
		}
	}
	if s := c.sightOf(n.Name); s != nil && v.Liveness == Alive {
		v.Sees, v.Certainty, v.Keys = s.Sees, s.Certainty, s.Keys
	}
	return v
}

// liveness: memberlist tells of a farewell and of a death in the same way. A
// node that goes says so in its state before.
func (c *Cluster) liveness(p *peer) Liveness {
	if p.alive {
		return Alive
	}
	if e := c.current(recordKey{recordState, p.node.Name}); e != nil {
		if b, ok := e.value.(*stateBody); ok && b.Leaving != "" {
			return Left
		}
	}
	if !p.seen {
		return Unknown
	}
	return Dead
}

// derived are problems that follow from what the nodes say.
func (c *Cluster) derived(nodes []NodeView, now time.Time) []Problem {
	var list []Problem
	wall := c.s.Wall()
	add := func(code ProblemCode, n NodeView, text string) {
		address := ""
		if n.Address.IsValid() {
			address = n.Address.String()
		}
		list = append(list, Problem{Code: code, Node: n.Name, Address: address, Evidence: text, Last: wall, Count: 1})
	}
	alive, off := 0, 0
	for _, n := range nodes {
		p := c.peers[n.Name]
		if p == nil || n.Liveness != Alive {
			continue
		}
		alive++
		if p.hasSkew && p.skew.Abs() > clockTolerance {
			off++
		}
		if c.udpLost(p, now) {
			add(ProblemUDP, n, "it answers over TCP but not over UDP")
		}
		if n.State != nil && c.own.Digest != "" && n.State.Digest != c.own.Digest {
			add(ProblemDigest, n, fmt.Sprintf("its configuration has digest %q, this node's %q", n.State.Digest, c.own.Digest))
		}
	}
	self := off > 1 && off*2 > alive
	if self {
		add(ProblemClock, c.selfView(nodes), fmt.Sprintf("the clock of this node differs from those of %d of %d others", off, alive))
	}
	for _, n := range nodes {
		p := c.peers[n.Name]
		if p == nil || n.Liveness != Alive || self || !p.hasSkew || p.skew.Abs() <= clockTolerance {
			continue
		}
		add(ProblemClock, n, fmt.Sprintf("its clock is %s off this node's", p.skew.Round(time.Second)))
	}
	return list
}

func (c *Cluster) selfView(nodes []NodeView) NodeView {
	i := slices.IndexFunc(nodes, func(n NodeView) bool { return n.Name == c.s.Self })
	return nodes[max(0, i)]
}
