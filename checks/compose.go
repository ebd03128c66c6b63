package checks

import (
	"reflect"
	"time"
)

// Op is how a Term joins others.
type Op uint8

// The ways to join.
const (
	OpCheck   Op = iota // none: one check of this node
	OpAll               // up when all are
	OpAny               // up when one is
	OpAtLeast           // up when enough are
	OpScore             // up and down by the weight of what is up, with two thresholds
	OpPool              // Of[0] judged for each server, and the servers by the pool
)

// Dependency is what fails when a check fails.
type Dependency uint8

// The kinds of dependency.
const (
	DependsAuto   Dependency = iota // not said: it shows in whether others fail, too
	DependsLocal                    // something of this node only
	DependsShared                   // something that all nodes use
)

// Term is a composition of checks by name: one check, or terms joined. Each
// state below is what is left when those that abstain are taken away; when all
// do, so does the term.
type Term struct {
	Op         Op
	Check      string     // OpCheck: its name
	Silent     bool       // OpCheck: evidence that may pull down and not raise, so that it abstains where it is not Down
	Dependency Dependency // OpCheck
	Of         []Term
	Need       Quorum // OpAtLeast
	Up, Down   int    // OpScore: percent of the weight from which on it is up, and below which it is down
	Weight     int    // within an OpScore; 0 is 1
}

// Outcome is what a Composition says.
type Outcome struct {
	State       State
	Maintenance bool       // it is Down only because of maintenance, and could still serve
	Degraded    bool       // Up, but somebody should look
	Blame       Dependency // what is to blame when it is Down
	Detail      string     // one sentence
	Next        time.Time  // when it changes by time alone; zero when it will not
}

// Composition joins the checks of one service. It remembers what its
// thresholds and its pool need: both have hysteresis.
type Composition struct {
	term Term
	pool Pool
	root *node
	mem  poolMemory
	last State
}

// node is a Term at work.
type node struct {
	*Term
	of   []*node
	last map[int]State // OpScore: by server, noServer for the node's own
}

// noServer stands for what is not asked of each server.
const noServer = -1

// NewComposition returns a Composition that remembers nothing. pool is for the
// term's OpPool.
func NewComposition(t Term, pool Pool) *Composition {
	c := &Composition{term: t, pool: pool}
	c.root = newNode(&c.term)
	return c
}

func newNode(t *Term) *node {
	n := &node{Term: t}
	if t.Op == OpScore {
		n.last = map[int]State{}
	}
	for i := range t.Of {
		n.of = append(n.of, newNode(&t.Of[i]))
	}
	return n
}

// Inherit takes over what another Composition remembers, as far as it is about
// the same. It is for a reload.
func (c *Composition) Inherit(old *Composition) {
	c.mem, c.last = old.mem, old.last
	if reflect.DeepEqual(c.term, old.term) && reflect.DeepEqual(c.pool, old.pool) {
		c.root = old.root
	}
}

// Look tells what is known of a check: of one of the pool's servers, by its
// place, or of the node's own where that is below 0.
type Look func(check string, server int) Member

// Judge says how the service stands at time now.
func (c *Composition) Judge(look Look, now time.Time) Outcome {
	v := &view{c: c, look: look, now: now, learn: true, mind: true}
	said := v.ask(c.root, noServer)
	out := Outcome{State: said.State, Degraded: said.State == Up && said.Degraded, Detail: said.Why, Next: v.next}
	if c.root.Op == OpCheck {
		out.Detail = "check " + said.ID + " is " + said.State.String() + ": " + said.reason()
	}
	if out.State == Down {
		out.Maintenance = c.would(look, now, false) == Up
		out.Blame = c.blame(look, now)
	}
	c.last = out.State
	return out
}

// would says what the state would be with excuses, and where maintenance is
// not minded. Nothing is remembered of it.
func (c *Composition) would(look Look, now time.Time, mind bool, excused ...Dependency) State {
	v := &view{c: c, look: look, now: now, mind: mind}
	for _, d := range excused {
		v.excuse[d] = true
	}
	return v.ask(c.root, noServer).State
}

// blame says whose fault it is that the service is Down: of local checks when
// they suffice for it, of shared ones when it would not be Down without them.
func (c *Composition) blame(look Look, now time.Time) Dependency {
	switch {
	case c.would(look, now, true, DependsAuto, DependsShared) == Down:
		return DependsLocal
	case c.would(look, now, true, DependsShared) != Down:
		return DependsShared
	default:
		return DependsAuto
	}
}
