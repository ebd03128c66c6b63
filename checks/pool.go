package checks

import (
	"fmt"
	"strings"
)

// poolNames bounds how many servers PoolState.Detail names.
const poolNames = 5

// Member is one server of a pool.
type Member struct {
	ID    string // how people know it: "10.9.1.1:9100"
	State State
	Why   string // what its last failed probe said, empty where there is none
}

// Quorum is how many members of a pool must be up: N of them, or a percentage
// of all when Percent is not 0.
type Quorum struct {
	N       int
	Percent int // 1 to 100
}

// Need returns the number of members out of total that must be up. A
// percentage is rounded up, and at least one is always needed.
func (q Quorum) Need(total int) int {
	n := q.N
	if q.Percent > 0 {
		n = (total*q.Percent + 99) / 100
	}
	return max(n, 1)
}

// PoolState is the one answer that the members of a pool give together.
type PoolState struct {
	State   State  `json:"state"`
	Up      int    `json:"up"`      // members that are up
	Down    int    `json:"down"`    // members that are down
	Unknown int    `json:"unknown"` // members of which nothing is known yet
	Need    int    `json:"need"`    // members that must be up
	Detail  string `json:"detail"`  // one sentence with the members that are not up
}

// PoolOf joins the states of members, given in the order in which people list
// them. The pool is Up as soon as enough members are up, whatever is still
// unknown; Down as soon as the unknown ones could no longer make it up; and
// Unknown in between. A pool without members is Down.
func PoolOf(members []Member, q Quorum) PoolState {
	p := PoolState{Need: q.Need(len(members))}
	for _, m := range members {
		switch m.State {
		case Up:
			p.Up++
		case Down:
			p.Down++
		default:
			p.Unknown++
		}
	}
	switch {
	case p.Up >= p.Need:
		p.State = Up
	case p.Up+p.Unknown < p.Need:
		p.State = Down
	}
	p.Detail = p.describe(members)
	return p
}

// describe makes the sentence of Detail.
func (p *PoolState) describe(members []Member) string {
	var b strings.Builder
	noun := "servers"
	if len(members) == 1 {
		noun = "server"
	}
	fmt.Fprintf(&b, "%d of %d %s up, %d needed", p.Up, len(members), noun, p.Need)
	named := 0
	for _, m := range members {
		if m.State == Up {
			continue
		}
		if named == poolNames {
			fmt.Fprintf(&b, "; and %d more", p.Down+p.Unknown-named)
			break
		}
		named++
		fmt.Fprintf(&b, "; %s: %s", m.ID, m.reason())
	}
	return b.String()
}

// reason says why a member is not up.
func (m Member) reason() string {
	switch {
	case m.Why != "":
		return m.Why
	case m.State == Down:
		return "down"
	default:
		return "not known yet"
	}
}
