package checks

import (
	"fmt"
	"strings"
	"time"
)

// view is one way to look at what is known.
type view struct {
	c      *Composition
	look   Look
	now    time.Time
	learn  bool      // remember, and make sentences
	mind   bool      // maintenance is as good as down
	excuse [3]bool   // failures of these dependencies do not count
	next   time.Time // when something changes by time alone
}

// ask returns what a node says of a server, or of this node.
func (v *view) ask(n *node, server int) Member {
	switch n.Op {
	case OpCheck:
		return v.check(n, server)
	case OpPool:
		return v.servers(n)
	case OpScore:
		return v.score(n, server)
	default:
		return v.count(n, server)
	}
}

// check returns what one check says.
func (v *view) check(n *node, server int) Member {
	m := v.look(n.Check, server)
	if n.Silent && m.State != Down {
		m.State = Abstains
	}
	if v.mind && m.Maintenance && m.State != Abstains {
		m.State, m.Why = Down, "under maintenance; "+m.reason()
	}
	if m.State == Down && v.excuse[n.Dependency] {
		m.State = Up
	}
	return m
}

// servers asks for each server of the pool, and joins them.
func (v *view) servers(n *node) Member {
	p := &v.c.pool
	said := make([]Member, len(p.Servers))
	degraded := false
	for i := range said {
		said[i] = v.ask(n.of[0], i)
		said[i].ID = p.Servers[i].ID
		degraded = degraded || said[i].Degraded && said[i].State == Up
	}
	st := p.judge(said, &v.c.mem, v.now, v.learn)
	v.next = sooner(v.next, st.next)
	return Member{ID: "servers", State: st.state, Why: st.detail, Degraded: degraded || st.backup}
}

// count joins terms by how many are up: all, any, or at least so many.
func (v *view) count(n *node, server int) Member {
	var up, down, unknown int
	said := make([]Member, len(n.of))
	degraded := false
	for i, of := range n.of {
		said[i] = v.ask(of, server)
		switch said[i].State {
		case Up:
			up++
			degraded = degraded || said[i].Degraded
		case Down:
			down++
		case Unknown:
			unknown++
		}
	}
	total := up + down + unknown
	need := 1
	switch n.Op {
	case OpAll:
		need = total
	case OpAtLeast:
		if need = n.Need.Need(total); total < len(n.of) {
			need = min(need, total)
		}
	}
	out := Member{State: Unknown, Degraded: degraded}
	switch {
	case total == 0:
		out.State = Abstains
	case up >= need:
		out.State = Up
	case up+unknown < need:
		out.State = Down
	}
	if v.learn {
		out.ID = n.label()
		out.Why = v.sentence(fmt.Sprintf("%d of %d checks up, %d needed", up, total, need), said)
	}
	return out
}

// score joins terms by their weight. Between its thresholds it stays what it
// was; of what it was nobody knows at the start, and it is up there.
func (v *view) score(n *node, server int) Member {
	var up, unknown, total int
	said := make([]Member, len(n.of))
	degraded := false
	for i, of := range n.of {
		said[i] = v.ask(of, server)
		w := max(of.Weight, 1)
		switch said[i].State {
		case Up:
			up += w
			degraded = degraded || said[i].Degraded
		case Unknown:
			unknown += w
		case Abstains:
			continue
		}
		total += w
	}
	out := Member{State: Abstains, Degraded: degraded}
	if total > 0 {
		out.State = v.between(n, server, 100*up, 100*(up+unknown), total)
	}
	if v.learn {
		n.last[server] = out.State
		out.ID = n.label()
		out.Why = v.sentence(fmt.Sprintf("score %d of 100, down below %d and up from %d on", 100*up/max(total, 1), n.Down, n.Up), said)
	}
	return out
}

// between applies two thresholds to a score that lies from low to high, as what
// is unknown turns out.
func (v *view) between(n *node, server, low, high, total int) State {
	was, known := n.last[server]
	if !known || was == Abstains {
		was = Unknown
	}
	switch {
	case low >= n.Up*total:
		return Up
	case high < n.Down*total:
		return Down
	case low < high: // it depends on what is unknown
		return was
	case was != Unknown:
		return was
	case v.c.last == Down:
		return Down
	default:
		return Up
	}
}

// sentence names what is not up.
func (v *view) sentence(head string, said []Member) string {
	var b strings.Builder
	b.WriteString(head)
	var rest []string
	for _, m := range said {
		if m.State == Down || m.State == Unknown {
			rest = append(rest, m.ID+": "+m.reason())
		}
	}
	listed(&b, rest)
	return b.String()
}

// label is what a joined term is called in the sentence of another.
func (n *node) label() string {
	names := make([]string, len(n.of))
	for i, of := range n.of {
		if of.Op == OpCheck {
			names[i] = of.Check
		} else {
			names[i] = of.label()
		}
	}
	return [...]string{OpAll: "all", OpAny: "any", OpAtLeast: "enough", OpScore: "score", OpPool: "servers"}[n.Op] +
		" of (" + strings.Join(names, ", ") + ")"
}
