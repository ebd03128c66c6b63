package services

import (
	"fmt"
	"math"
	"time"
)

// Health is what the checks of a service say.
type Health uint8

// The healths of a service.
const (
	HealthUnknown Health = iota
	HealthDown
	HealthLimited // can serve, but better nodes come first: maintenance, degraded
	HealthUp
)

// FailbackMode is when a node that failed takes a service back.
type FailbackMode uint8

// The modes of failback.
const (
	FailbackAuto   FailbackMode = iota // after it was healthy for the delay
	FailbackManual                     // when an operator says so
	FailbackNever                      // at once usable, but a healthy holder keeps the service
)

// Rules are a Tracker's settings.
type Rules struct {
	Failback FailbackMode
	Delay    time.Duration // of FailbackAuto
	Damping  Damping
}

// Damping keeps a service that goes up and down too often from moving each
// time: each loss adds Penalty, which halves every HalfLife. From Suppress on
// the node is Standby, until the sum is below Reuse. Zero is off.
type Damping struct {
	Penalty, Suppress, Reuse float64
	HalfLife                 time.Duration
}

// Tracker turns the health of one service on this node into readiness: a node
// that failed, or that has just started, is Standby until it has been healthy
// for the delay. So no healthy node is displaced early, and where nobody is
// ready nobody waits.
type Tracker struct {
	rules   Rules
	health  Health
	reason  Reason
	since   time.Time // when it last became able to serve
	trusted bool      // it was healthy for the delay, it serves, or an operator said so
	penalty float64   // at the time penalAt
	penalAt time.Time
	damped  bool
}

// NewTracker returns a Tracker that knows nothing yet.
func NewTracker(r Rules) *Tracker {
	return &Tracker{rules: r, reason: Reason{CodeNotChecked, "no check has come to an answer yet"}}
}

// Configure changes the rules and keeps what is known.
func (t *Tracker) Configure(r Rules) { t.rules = r }

// Observe takes over what the checks say at time now.
func (t *Tracker) Observe(h Health, r Reason, now time.Time) {
	if h >= HealthLimited && t.health < HealthLimited {
		t.since = now
		t.trusted = false
	}
	if h == HealthDown && t.health >= HealthLimited {
		t.punish(now)
	}
	t.health, t.reason = h, r
}

// Trust makes a healthy node Ready without waiting: it serves already, or an
// operator said so. It says whether the node is healthy; else nothing changes.
func (t *Tracker) Trust() bool {
	t.trusted = t.health >= HealthLimited
	return t.trusted
}

// Distrust puts a healthy node on trial as if it had just come up: it stood
// still, and others may have taken over meanwhile.
func (t *Tracker) Distrust(now time.Time) {
	t.trusted, t.since = false, now
}

// State returns the readiness at time now, and when it will change by time
// alone; zero when it will not.
func (t *Tracker) State(now time.Time) (State, time.Time) {
	switch t.health {
	case HealthUnknown:
		return State{Readiness: Unknown, Reason: t.reason}, time.Time{}
	case HealthDown:
		return State{Readiness: Down, Reason: t.reason}, time.Time{}
	case HealthLimited:
		return State{Readiness: Standby, Reason: t.reason}, time.Time{}
	}
	if until := t.dampedUntil(now); !until.IsZero() {
		why := fmt.Sprintf("%s; it went down too often, damped until %s", t.reason.Evidence, until.Format(time.TimeOnly))
		return State{Readiness: Standby, Reason: Reason{CodeDamped, why}}, until
	}
	ready := t.since.Add(t.rules.Delay)
	switch mode := t.rules.Failback; {
	case t.trusted, mode == FailbackNever, mode == FailbackAuto && !now.Before(ready):
		t.trusted = true
		return State{Readiness: Ready, Reason: t.reason}, time.Time{}
	case mode == FailbackManual:
		why := t.reason.Evidence + "; fail-back waits for an operator"
		return State{Readiness: Standby, Reason: Reason{CodeFailback, why}}, time.Time{}
	default:
		why := fmt.Sprintf("%s; healthy since %s, ready after %s", t.reason.Evidence, t.since.Format(time.TimeOnly), t.rules.Delay)
		return State{Readiness: Standby, Reason: Reason{CodeFailback, why}}, ready
	}
}

func (t *Tracker) punish(now time.Time) {
	d := t.rules.Damping
	if d.Penalty <= 0 {
		return
	}
	t.penalty = t.left(now) + d.Penalty
	t.penalAt = now
	if t.penalty >= d.Suppress {
		t.damped = true
	}
}

// left is what is left of the penalty at time now.
func (t *Tracker) left(now time.Time) float64 {
	if t.penalty == 0 || t.rules.Damping.HalfLife <= 0 {
		return 0
	}
	return t.penalty * math.Exp2(-float64(now.Sub(t.penalAt))/float64(t.rules.Damping.HalfLife))
}

// dampedUntil returns when damping ends, zero when there is none at time now.
func (t *Tracker) dampedUntil(now time.Time) time.Time {
	d := t.rules.Damping
	if !t.damped || d.Penalty <= 0 {
		return time.Time{}
	}
	if left := t.left(now); left > d.Reuse {
		return now.Add(time.Duration(math.Log2(left/d.Reuse)*float64(d.HalfLife)) + time.Millisecond)
	}
	t.damped = false
	return time.Time{}
}
