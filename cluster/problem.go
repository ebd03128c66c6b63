package cluster

import (
	"cmp"
	"slices"
	"time"
)

// ProblemCode is what is wrong, in a word that alarms match on.
type ProblemCode string

// The problems. All of them are harmless to the cluster: what causes them is
// refused, or only shown.
const (
	ProblemWrongKey     ProblemCode = "wrong-key"        // somebody sends what no key of the ring opens
	ProblemWrongCluster ProblemCode = "wrong-cluster"    // somebody sends under another cluster's name
	ProblemUnknownNode  ProblemCode = "unknown-node"     // a node that is not configured
	ProblemNameConflict ProblemCode = "name-conflict"    // two nodes with one name
	ProblemProtocol     ProblemCode = "protocol-version" // a node that no common version is found with
	ProblemBadMessage   ProblemCode = "bad-message"      // a message that cannot be read
	ProblemDigest       ProblemCode = "digest-differs"   // another configuration
	ProblemClock        ProblemCode = "clock-off"        // another wall clock
	ProblemUDP          ProblemCode = "udp-lost"         // reached over TCP only
	ProblemDisk         ProblemCode = "disk"             // the state directory cannot be read or written
	ProblemOverflow     ProblemCode = "overflow"         // messages came faster than they were read
)

// Problem is something that people should look at.
type Problem struct {
	Code     ProblemCode `json:"code"`
	Node     string      `json:"node,omitempty"`    // whom it is about, where that is known
	Address  string      `json:"address,omitempty"` // where it was seen
	Evidence string      `json:"evidence"`
	Since    time.Time   `json:"since,omitzero"`
	Last     time.Time   `json:"last"`
	Count    int         `json:"count"`
}

const (
	problemFor  = time.Minute // shown for so long after it was last seen
	maxProblems = 64
)

type problemID struct {
	code          ProblemCode
	node, address string
}

type seenProblem struct {
	Problem
	at time.Time // monotonic
}

// problems are those that were seen as events. Those that follow from the
// state of things are made by the view.
type problems struct {
	list map[problemID]*seenProblem
}

// note remembers a problem and says whether it is new. A flood of different
// ones is cut off: what matters is that there is one.
func (p *problems) note(code ProblemCode, node, address, evidence string, wall, now time.Time) bool {
	id := problemID{code, node, address}
	if q := p.list[id]; q != nil {
		q.Last, q.Evidence, q.at = wall, evidence, now
		q.Count++
		return false
	}
	if len(p.list) >= maxProblems {
		return false
	}
	p.list[id] = &seenProblem{Problem{code, node, address, evidence, wall, wall, 1}, now}
	return true
}

// expire forgets what was not seen for a while.
func (p *problems) expire(now time.Time) bool {
	n := len(p.list)
	for id, q := range p.list {
		if now.Sub(q.at) > problemFor {
			delete(p.list, id)
		}
	}
	return len(p.list) != n
}

func (p *problems) all() []Problem {
	list := make([]Problem, 0, len(p.list))
	for _, q := range p.list {
		list = append(list, q.Problem)
	}
	slices.SortFunc(list, compareProblems)
	return list
}

func compareProblems(a, b Problem) int {
	return cmp.Or(cmp.Compare(a.Code, b.Code), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Address, b.Address))
}
