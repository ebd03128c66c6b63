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
}

// Prober makes one probe of one target. Probe is never called twice at once
// for one Prober. It must return soon after ctx ends; whoever calls it copes
// with one that does not.
type Prober interface {
	Probe(ctx context.Context) Result
}

// State is what a check says after rise and fall were applied.
type State uint8

// The states of a check. A check is Unknown until its first rise or fall.
const (
	Unknown State = iota
	Up
	Down
)

// String returns "unknown", "up" or "down".
func (s State) String() string {
	switch s {
	case Up:
		return "up"
	case Down:
		return "down"
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
	default:
		*s = Unknown
	}
	return nil
}

// Timing is when a check runs and how many results change its state.
type Timing struct {
	Interval     time.Duration // between the starts of two probes
	FastInterval time.Duration // the same while the state is in doubt; 0 is Interval
	Timeout      time.Duration // of one probe, end to end; shorter than both intervals
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
	Prober Prober
}

// Event tells that a check changed its state.
type Event struct {
	ID     string
	State  State
	At     time.Time // end of the probe that decided
	Result Result    // of that probe
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
	NextRun time.Time `json:"next_run"`
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
	TargetNone TargetKind = iota // the check knows by itself what to look at
	TargetHost                   // an address or name
	TargetPort                   // an address or name, and a port
)

// Problem is one thing wrong with Options, at one key.
type Problem struct {
	Key string // the yaml key, "" for the whole
	Msg string // what is wrong and what would be right
}

// Target is what a prober is aimed at, with the options that all types share.
type Target struct {
	Host   string        // address or name, without brackets
	Port   uint16        // 0 where the kind has none
	Source netip.Addr    // local address to leave from; zero lets the kernel choose
	Limit  time.Duration // the check's timeout, for types that divide it
}

// Type describes a check type.
type Type struct {
	Name string
	Doc  string // one sentence
	New  func() Options
}
