// Package control is how people and programs talk to the daemon: HTTP and
// JSON over a unix socket. It holds no state; every answer comes from the
// daemon through Source. The JSON is stable: fields are added, never renamed
// or given another meaning.
package control

import (
	"context"
	"encoding/json"
	"net/netip"
	"time"

	"rhid/announce"
	"rhid/checks"
	"rhid/services"
)

// Source answers for the daemon. Its methods may be called from many
// goroutines at once.
type Source interface {
	Status(ctx context.Context) (Status, error)
	Explain(ctx context.Context, service string) (Explanation, error)
	// Events returns the events after the one numbered since, oldest first.
	// With none it waits for one until ctx ends, and then returns none.
	Events(ctx context.Context, since uint64) ([]Event, error)
	Reload(ctx context.Context) error
	// Intend makes an intent known to the whole cluster, or clears it.
	Intend(ctx context.Context, i Intent) error
	// Foresee says what failures would do, as things are now. Each is
	// node:NAME, site:NAME or service:NAME@NODE.
	Foresee(ctx context.Context, failures []string) (services.Outlook, error)
	// Report counts what applications say of their results. It counts all of
	// them or none; errors.Is ErrNotFound for a service that this node does not
	// have.
	Report(ctx context.Context, rs []Report) error
	// RotateKey makes a new gossip key the only one, on every node.
	RotateKey(ctx context.Context, key []byte) error
	CheckSource
}

// Intent is what an operator asks for.
type Intent struct {
	Kind    string        `json:"kind"`    // drain, pin, freeze, failback
	Subject string        `json:"subject"` // node:NAME, site:NAME, service:NAME, service:NAME@NODE or cluster
	Arg     string        `json:"arg,omitempty"`
	Why     string        `json:"why,omitempty"`
	For     time.Duration `json:"for,omitempty"` // nanoseconds; 0 is until cleared
	Clear   bool          `json:"clear,omitempty"`
	Who     string        `json:"who,omitempty"` // filled in by the daemon from the socket's peer
	Node    string        `json:"node,omitempty"`
	Set     time.Time     `json:"set,omitzero"`
	Until   time.Time     `json:"until,omitzero"`
}

// Cluster is the cluster as this node sees it.
type Cluster struct {
	Name      string    `json:"name"`
	Certainty string    `json:"certainty"` // single, settling, settled, isolated
	Since     time.Time `json:"since"`
	Encrypted bool      `json:"encrypted"`
	Keys      []string  `json:"keys,omitempty"` // short names of them, the first encrypts
	Nodes     []Node    `json:"nodes"`
	Intents   []Intent  `json:"intents"`
}

// Node is one node as this one sees it.
type Node struct {
	Name       string    `json:"name"`
	Site       string    `json:"site,omitempty"`
	Address    string    `json:"address"`
	Liveness   string    `json:"liveness"` // unknown, alive, left, dead
	Since      time.Time `json:"since"`
	Version    string    `json:"version,omitempty"`
	Digest     string    `json:"digest,omitempty"`
	Load       int       `json:"load"`
	Capacity   int       `json:"capacity"`
	Announcing []string  `json:"announcing"` // services
	Sees       []string  `json:"sees"`       // live nodes, as it says
}

// Holder is a node that announces a service.
type Holder struct {
	Node     string `json:"node"`
	Rank     int    `json:"rank"`
	Exported int    `json:"exported"` // routers that have its route
	Of       int    `json:"of"`
}

// Status is everything the daemon knows, for `rhid status`.
type Status struct {
	Node       string      `json:"node"`
	Site       string      `json:"site,omitempty"`
	Version    string      `json:"version"`
	State      string      `json:"state"` // starting, running, draining, stopping
	Started    time.Time   `json:"started"`
	Config     ConfigState `json:"config"`
	Services   []Service   `json:"services"`
	Neighbours []Neighbour `json:"neighbours"`
	Links      []Link      `json:"links"`
	Overload   *Overload   `json:"overload,omitempty"` // where a check looks at it
	Alarms     []Alarm     `json:"alarms"`

	Exportable []netip.Prefix `json:"exportable,omitempty"` // what the BGP speaker's filter lets out, read back from it
	Cluster    *Cluster       `json:"cluster,omitempty"`    // with several nodes

	Parts map[string][]string `json:"parts,omitempty"` // of services that are decided on in parts, the names of these
}

// ConfigState says which configuration runs.
type ConfigState struct {
	File      string    `json:"file"`
	Digest    string    `json:"digest"`
	Loaded    time.Time `json:"loaded"`
	LastError string    `json:"last_error,omitempty"` // of a reload that was refused
}

// Service is one service on this node.
type Service struct {
	Name      string             `json:"name"`
	Verdict   services.Verdict   `json:"verdict"`
	Rank      int                `json:"rank"`
	Readiness services.Readiness `json:"readiness"`
	Since     time.Time          `json:"since"` // of the verdict
	Reason    services.Reason    `json:"reason"`

	Degraded    bool `json:"degraded,omitempty"`    // its checks say that it is up, and that somebody should look
	Maintenance bool `json:"maintenance,omitempty"` // it would be up, but for maintenance files

	Holders []Holder             `json:"holders"` // on all nodes, best first
	VIPs    []announce.VIPStatus `json:"vips"`
}

// Neighbour is one BGP neighbour.
type Neighbour struct {
	Name        string    `json:"name"`
	Address     string    `json:"address"`
	ASN         uint32    `json:"asn"`
	State       string    `json:"state"` // of RFC 4271, in small letters
	Established bool      `json:"established"`
	Since       time.Time `json:"since"`
	Why         string    `json:"why,omitempty"` // why there is no session, or why the last one ended
	HoldSeconds int       `json:"hold_seconds,omitempty"`
	Families    []string  `json:"families"`                   // negotiated
	Missing     []string  `json:"missing_families,omitempty"` // wanted, and not negotiated
	Lacks       []string  `json:"lacks,omitempty"`            // what its OPEN did not offer, in words
	Received    int       `json:"received"`                   // prefixes it sent, of the family with more of them
	MaxReceived int       `json:"max_received"`               // above it the session is ended
	Exported    int       `json:"exported"`                   // prefixes
	Flaps       int       `json:"flaps"`                      // established sessions that ended
	BFD         *BFD      `json:"bfd,omitempty"`              // where it is configured
}

// BFD is the BFD session with a neighbour.
type BFD struct {
	State       string    `json:"state"` // of RFC 5880: up, init, down, admin-down
	Since       time.Time `json:"since"`
	Why         string    `json:"why,omitempty"` // why it is not up
	Hops        string    `json:"hops"`          // single or multi
	IntervalMS  float64   `json:"interval_ms"`   // negotiated, between two packets to it
	DetectionMS float64   `json:"detection_ms"`  // after which it counts as silent
	Diag        string    `json:"diag"`
	RemoteDiag  string    `json:"remote_diag"`
	Flaps       int       `json:"flaps"`   // sessions that were lost
	Refused     uint64    `json:"refused"` // packets that were not taken
}

// Link is a path that this node depends on.
type Link struct {
	Name     string       `json:"name"`
	Effect   string       `json:"effect"`             // alarm, standby, down
	Backends []string     `json:"backends,omitempty"` // of the services that depend on it; all where there are none
	State    checks.State `json:"state"`
	Since    time.Time    `json:"since,omitzero"`
	Probes   []LinkProbe  `json:"probes"`
}

// LinkProbe is one address along a link.
type LinkProbe struct {
	Target string             `json:"target,omitempty"`
	State  checks.State       `json:"state"`
	Detail string             `json:"detail"`
	Window *checks.LinkStatus `json:"window,omitempty"`
}

// Overload is whether the node has so much to do that it takes nothing more
// over: State is down then.
type Overload struct {
	State  checks.State `json:"state"`
	Since  time.Time    `json:"since,omitzero"`
	Detail string       `json:"detail"`
}

// Alarm is something that a person should look at.
type Alarm struct {
	Code   string    `json:"code"` // docs/control.md lists them
	What   string    `json:"what"`
	Since  time.Time `json:"since"`
	Detail string    `json:"detail"`
}

// Explanation is one service with everything that led to its verdict.
type Explanation struct {
	Service  Service           `json:"service"`
	Decision services.Decision `json:"decision"`
	Pool     string            `json:"pool"` // the pool's state as one sentence
	Checks   []checks.Status   `json:"checks"`
	Links    []Link            `json:"links"` // that the service depends on

	Parts []Explanation `json:"parts,omitempty"` // of a service decided on in parts; of the rest only its name is set then
}

// Event is something that happened.
type Event struct {
	Seq     uint64          `json:"seq"`
	Time    time.Time       `json:"time"`
	Kind    string          `json:"kind"` // check, service, route, neighbour, bfd, link, node, daemon
	Subject string          `json:"subject"`
	What    string          `json:"what"` // "up", "down", "announce", "withdraw", …
	Code    string          `json:"code,omitempty"`
	Detail  string          `json:"detail,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Problem is the body of every answer that is not 2xx.
type Problem struct {
	Error string `json:"error"`
}
