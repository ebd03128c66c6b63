package services

import "slices"

// Node is a load-balancer host of the configuration.
type Node struct {
	Name     string
	Site     string
	Capacity int // services it may announce besides its main one; 0 is no limit
}

// Service is a business service as the decision sees it.
type Service struct {
	Name       string
	PartOf     string   // what it is a part of, where people know it by another name
	Order      []string // takeover order: node names, the main node first; never empty
	Announcers int      // how many nodes announce at once; 0 is all
	PerSite    bool     // Announcers holds for each site, not for the cluster
	Priority   int      // a higher one is assigned first
	Sticky     bool     // failback never: a ready holder keeps it
	KeepDown   bool     // all_down keep: the last holder goes on when nobody can serve
}

// Is says whether the service, or what it is a part of, has a name.
func (s Service) Is(name string) bool {
	return name != "" && (s.Name == name || s.PartOf == name)
}

// Readiness is what a node says of itself for a service.
type Readiness uint8

// The readinesses, worst first.
const (
	Unknown Readiness = iota // not decided yet: checks have not risen or fallen
	Down                     // cannot serve
	Standby                  // usable only when no node is ready
	Ready
)

var readinessNames = [...]string{"unknown", "down", "standby", "ready"}

// String returns the readiness in one word.
func (r Readiness) String() string { return readinessNames[r] }

// MarshalText makes a Readiness readable in JSON.
func (r Readiness) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText is the inverse of MarshalText; an unknown word is Unknown.
func (r *Readiness) UnmarshalText(b []byte) error {
	*r = Unknown
	for i, n := range readinessNames {
		if n == string(b) {
			*r = Readiness(i)
		}
	}
	return nil
}

// State is what one node says of one service.
type State struct {
	Readiness  Readiness
	Reason     Reason // why it is not Ready, or that it is
	Announcing bool   // its verdict is Announce or Hold
	Rank       int    // at which it announces
	Exported   bool   // enough routers have its route

	// Depends is what failed where it is Down, as far as the checks say; only
	// that of Self matters.
	Depends Dependency
}

// Dependency is what fails with a check, where its configuration says so.
type Dependency uint8

// The kinds of dependency.
const (
	DependsAuto   Dependency = iota // not said: what fails everywhere at once is taken for shared
	DependsLocal                    // something of the node only
	DependsShared                   // something that all nodes use
)

// Witness is what the routers say of a peer's route.
type Witness uint8

// The statements of a witness. One that never saw the route abstains.
const (
	Abstains Witness = iota
	SeesRoute
	RouteGone     // it was seen, and is gone from every router
	RouteDoubtful // it was gone, and whether it is back cannot be seen from here
)

// View is what is known of one node.
type View struct {
	Alive    bool
	Lost     bool               // gossip lost it without a farewell, not longer ago than witness_hold
	Fresh    bool               // it started not longer ago than the settle timeout
	Services map[string]State   // by service name; one that is missing is Unknown
	Witness  map[string]Witness // by service name
}

// Certainty is how much "I know nobody" is worth.
type Certainty uint8

// The certainties.
const (
	Single   Certainty = iota // no other node is configured
	Settling                  // started, and not heard from everybody yet
	Settled
	Isolated // several are configured, and none is heard
)

var certaintyNames = [...]string{"single", "settling", "settled", "isolated"}

// String returns the certainty in one word.
func (c Certainty) String() string { return certaintyNames[c] }

// MarshalText makes a Certainty readable in JSON.
func (c Certainty) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText is the inverse of MarshalText; an unknown word is Single.
func (c *Certainty) UnmarshalText(b []byte) error {
	*c = Certainty(max(0, slices.Index(certaintyNames[:], string(b))))
	return nil
}

// Intents is what operators asked for and what is still in force.
type Intents struct {
	DrainNodes    map[string]bool   // by node name
	DrainSites    map[string]bool   // by site name
	DrainServices map[string]bool   // by service name, or "service@node" for one node
	Pins          map[string]string // node by service name
	Frozen        bool              // nothing moves that need not
}

// Inputs is all that a decision depends on.
type Inputs struct {
	Self      string          // the node that decides for itself
	Nodes     []Node          // all that are configured
	Services  []Service       // all that are configured
	Views     map[string]View // by node name; one that is missing is not alive
	Certainty Certainty
	Quorum    bool // partition quorum: a minority takes over nothing new
	Intents   Intents
	Budget    int             // services that may still leave Self because of what fails everywhere; below 0 is no limit
	Expired   map[string]bool // services whose handover_timeout is over
	Drained   map[string]bool // services whose drain_time is over
}

// Verdict is what the node does for a service now.
type Verdict uint8

// The verdicts.
const (
	Undecided Verdict = iota // nothing changes: what is announced stays so
	Withdraw
	Hold // announce at the worst rank until the others have taken over
	Announce
)

var verdictNames = [...]string{"undecided", "withdraw", "hold", "announce"}

// String returns the verdict in one word.
func (v Verdict) String() string { return verdictNames[v] }

// MarshalText makes a Verdict readable in JSON.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText is the inverse of MarshalText; an unknown word is Undecided.
func (v *Verdict) UnmarshalText(b []byte) error {
	*v = Undecided
	for i, n := range verdictNames {
		if n == string(b) {
			*v = Verdict(i)
		}
	}
	return nil
}

// Code is the one typed reason of a verdict or of a candidate's place. Codes
// are stable: alarms match on them.
type Code string

// The codes.
const (
	CodeChosen      Code = "chosen"        // among the first of the order that can serve
	CodeBetterNode  Code = "better-node"   // enough other nodes come first
	CodeNotInOrder  Code = "not-in-order"  // the service's order does not name this node
	CodeNodeAbsent  Code = "node-absent"   // the node is not there
	CodeRouteGone   Code = "route-gone"    // gossip has the node, the routers lost its route
	CodeRouteSeen   Code = "route-seen"    // gossip lost the node, the routers have its route
	CodeHealthy     Code = "healthy"       // checks say the service is up
	CodeNotChecked  Code = "not-checked"   // checks have not come to an answer yet
	CodeCheckDown   Code = "check-down"    // the service's check is down
	CodePoolDown    Code = "pool-down"     // too few servers of the pool are up
	CodeLinkDown    Code = "link-down"     // a link of the node is down
	CodeOverloaded  Code = "overloaded"    // the node has too much to do already
	CodeMaintenance Code = "maintenance"   // a maintenance file says that it is worked on
	CodeDegraded    Code = "degraded"      // up, but worse than it should be, and the configuration says that others come first
	CodeFailback    Code = "failback-hold" // healthy again, but not for long enough
	CodeDamped      Code = "damped"        // it went down too often
	CodeDrained     Code = "drained"       // an operator asked for it
	CodeNoRouter    Code = "no-router"     // no router has a session with the node
	CodePinned      Code = "pinned"        // an operator asked for it
	CodeHandover    Code = "handover"      // announces until the chosen nodes are exported
	CodeSettling    Code = "settling"      // not heard from everybody yet
	CodeNoQuorum    Code = "no-quorum"     // fewer than half of the nodes are heard
	CodeKeptDown    Code = "kept-down"     // nobody can serve, and the last holder goes on
	CodeBrake       Code = "brake"         // it fails everywhere at once, and too much has left already
)

// Reason is why: a code to match on, and the evidence as one sentence.
type Reason struct {
	Code     Code   `json:"code"`
	Evidence string `json:"evidence"`
}

// Candidate is one node of a service's order, at the place the decision gave it.
type Candidate struct {
	Node      string    `json:"node"`
	Site      string    `json:"site,omitempty"`
	Place     int       `json:"place"` // in the takeover order, 0 is the main node
	Alive     bool      `json:"alive"`
	Readiness Readiness `json:"readiness"` // as the decision takes it
	Chosen    bool      `json:"chosen"`
	Rank      int       `json:"rank"` // among the announcers; meaningful when Chosen
	Reason    Reason    `json:"reason"`

	state    State
	fresh    bool
	pinned   bool
	full     bool
	doubtful bool // its route was lost, and nobody knows whether it is back
	keeps    bool // holds the service, and what holds it goes first
}

// Usable says whether the node could announce the service.
func (c Candidate) Usable() bool { return c.Readiness >= Standby }

// Decision is what was decided for one service.
type Decision struct {
	Service    string      `json:"service"`
	Verdict    Verdict     `json:"verdict"`
	Rank       int         `json:"rank"` // meaningful when Verdict is Announce or Hold
	Reason     Reason      `json:"reason"`
	Degraded   bool        `json:"degraded,omitempty"`   // announced though down
	Draining   bool        `json:"draining,omitempty"`   // held because an operator drains it
	Everywhere bool        `json:"everywhere,omitempty"` // nobody can serve
	Counts     bool        `json:"-"`                    // to leave now is one of max_withdrawals
	Candidates []Candidate `json:"candidates"`           // best first; with PerSite site by site
}

// Plan is the decision for every configured service, in configured order.
type Plan struct {
	Decisions []Decision
}
