package checks

import (
	"context"
	"net/netip"
	"time"
)

// Cause says in one word why a probe failed. It is stable and documented, so
// that alarms and tests can match on it; Result.Detail is for people.
type Cause string

// The causes of a failed probe.
const (
	CauseNone     Cause = ""         // the probe succeeded
	CauseTimeout  Cause = "timeout"  // no answer within the timeout
	CauseRefused  Cause = "refused"  // the target refused the connection
	CauseNetwork  Cause = "network"  // unreachable, reset, no route
	CauseAnswer   Cause = "answer"   // it answered, but not what was expected
	CauseTLS      Cause = "tls"      // handshake or certificate
	CauseResolve  Cause = "resolve"  // the name has no address
	CauseExec     Cause = "exec"     // the command could not be run, or died
	CauseInternal Cause = "internal" // this host lacks something: descriptors, permission
)

// Result is the outcome of one probe.
type Result struct {
	OK       bool
	Degraded bool          // OK, but somebody should look: a certificate near its end, slow answers
	Cause    Cause         // why not, CauseNone when OK
	Detail   string        // one sentence an operator understands, without the target's name
	Start    time.Time     // when the probe began
	Took     time.Duration // how long it took, end to end

	// Counts is what a probe of a passive type saw. It is judged in place of
	// OK, which then says only that there was something to look at.
	Counts *Counts `json:",omitempty"`
	// Maintenance says that the check's maintenance file is there. The result
	// counts all the same.
	Maintenance bool `json:",omitempty"`
}

// Prober makes one probe of one target. Probe is never called twice at once
// for one Prober. It must return soon after ctx ends; whoever calls it copes
// with one that does not.
type Prober interface {
	Probe(ctx context.Context) Result
}

// State is what a check says after its rules were applied.
type State uint8

// The states of a check. An active check is Unknown until its rules decide for
// the first time; a passive one abstains until there is enough evidence.
const (
	Unknown State = iota
	Up
	Down
	Abstains // too little evidence: whoever joins checks leaves it out
)

// String returns "unknown", "up", "down" or "abstains".
func (s State) String() string {
	switch s {
	case Up:
		return "up"
	case Down:
		return "down"
	case Abstains:
		return "abstains"
	default:
		return "unknown"
	}
}

// MarshalText makes a State readable in JSON.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText is the inverse of MarshalText; anything else is Unknown.
func (s *State) UnmarshalText(b []byte) error {
	switch string(b) {
	case "up":
		*s = Up
	case "down":
		*s = Down
	case "abstains":
		*s = Abstains
	default:
		*s = Unknown
	}
	return nil
}

// Timing is when a check runs and how many results change its state.
type Timing struct {
	Interval     time.Duration // between the starts of two probes
	FastInterval time.Duration // the same while the state is in doubt; 0 is Interval
	Jitter       time.Duration // each probe starts up to this much later, at random
	Timeout      time.Duration // of one probe, end to end; with Jitter shorter than both intervals
	Rise         int           // successes in a row that make it Up
	Fall         int           // failures in a row that make it Down
}

// Spec is one check of one target, ready to run.
type Spec struct {
	ID     string // unique, stable across reloads: "atm-echo@10.9.1.1:9100"
	Name   string // of the check
	Type   string // "tcp", "http", …
	Target string // as configured; empty where the type has none
	Key    string // two Specs with the same ID and Key are the same check: it keeps its state at a reload
	Timing Timing
	Rules  Rules
	Prober Prober // may be nil for a passive check: then it lives on Runner.Feed

	// Passive says that the check is judged by counted evidence, with
	// Rules.Rate: by Result.Counts of its probes, or by Runner.Feed.
	Passive bool
}

// Event tells that a check changed: its state, or whether it is degraded or
// under maintenance.
type Event struct {
	ID          string
	State       State
	Degraded    bool      // Up, but somebody should look
	Maintenance bool      // its maintenance file is there
	At          time.Time // end of the probe that decided, or when the evidence was judged
	Why         string    // one sentence: what the rules saw
	Result      Result    // of the last probe
}

// Status is what is known of one check, for people.
type Status struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Type    string    `json:"type"`
	Target  string    `json:"target,omitempty"`
	State   State     `json:"state"`
	Since   time.Time `json:"since"`
	Streak  int       `json:"streak"` // results in a row against the state, towards Rise or Fall
	Last    Result    `json:"last"`
	Runs    uint64    `json:"runs"`
	Fails   uint64    `json:"fails"`
	NextRun time.Time `json:"next_run,omitzero"` // zero where nothing is run: evidence is fed

	Interval    time.Duration `json:"interval"` // nanoseconds; as things stand
	Why         string        `json:"why"`      // what the rules say, as one sentence
	Passive     bool          `json:"passive,omitempty"`
	Degraded    bool          `json:"degraded,omitempty"`
	Maintenance bool          `json:"maintenance,omitempty"`
	Rate        *RateStatus   `json:"rate,omitempty"` // with a rate rule
	Link        *LinkStatus   `json:"link,omitempty"` // of a link
}

// Options are the type-specific settings of a check, as written in the
// configuration. Each type is a struct with yaml tags for its keys and doc
// tags for one line of description; a `default` tag gives the default. The
// configuration, the JSON schema and the manual are all made from them.
type Options interface {
	// Problems lists what is wrong with the settings on their own.
	Problems() []Problem
	// NeedsTarget says whether the check is of a server (address:port or
	// address); exec is not.
	NeedsTarget() TargetKind
	// Prober makes the prober for one target.
	Prober(t Target) (Prober, error)
}

// TargetKind is what form of target a check type needs.
type TargetKind uint8

// The kinds of target.
const (
	TargetNone  TargetKind = iota // the check knows by itself what to look at
	TargetHost                    // an address or name
	TargetPort                    // an address or name, and a port
	TargetMaybe                   // either, or none: the check is told where there is one
)

// Problem is one thing wrong with Options, at one key.
type Problem struct {
	Key string // the yaml key, "" for the whole
	Msg string // what is wrong and what would be right
}

// Target is what a prober is aimed at, with the options that all types share.
type Target struct {
	Host   string        // address or name, without brackets
	Addr   netip.Addr    // what Host stands for, where it need not be looked up
	Port   uint16        // 0 where the kind has none
	Source netip.Addr    // local address to leave from; zero lets the kernel choose
	Device string        // interface to leave by (SO_BINDTODEVICE); empty lets the routing table choose
	Mark   uint32        // of the packets, for ip rule and nftables (SO_MARK); 0 is none
	Limit  time.Duration // the check's timeout, for types that divide it
}

// Type describes a check type.
type Type struct {
	Name string
	Doc  string // one sentence
	New  func() Options

	// Passive says that the type watches traffic instead of making some: it is
	// judged by Result.Counts with the rate rule. Where its Prober returns nil
	// it has none, and what it is fed (Runner.Feed) is all it knows.
	Passive bool
	// PerService says that each service that uses the check has one of its
	// own, whose ID is NAME@SERVICE.
	PerService bool
}
