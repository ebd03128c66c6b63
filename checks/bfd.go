package checks

import (
	"context"
)

// Sessions says of a BFD session with a router, by the router's name, whether
// it is up, and where not, why.
type Sessions func(router string) (up bool, why string)

// sessionsKey is under which a Runner hands RunnerOptions.Sessions to probes.
type sessionsKey struct{}

// BFDOptions are the settings of a bfd check.
type BFDOptions struct {
	Router string `yaml:"router" required:"true" doc:"name of a router with a bfd section; on a node without that router the check fails"`
}

// NeedsTarget implements Options.
func (*BFDOptions) NeedsTarget() TargetKind { return TargetNone }

// Problems implements Options. Whether there is such a router is a question of
// the whole configuration.
func (o *BFDOptions) Problems() []Problem {
	if o.Router == "" {
		return []Problem{{"router", "is missing"}}
	}
	return nil
}

// Prober implements Options. It sends nothing: the sessions are the daemon's.
func (o *BFDOptions) Prober(Target) (Prober, error) {
	return timed(func(ctx context.Context) Result { return o.look(ctx).result("BFD session with " + o.Router + " is up") }), nil
}

func (o *BFDOptions) look(ctx context.Context) *failure {
	sessions, ok := ctx.Value(sessionsKey{}).(Sessions)
	if !ok || sessions == nil {
		return failf(CauseInternal, "only the running daemon knows its BFD sessions")
	}
	if up, why := sessions(o.Router); !up {
		return failf(CauseNetwork, "BFD session with %s is down: %s", o.Router, why)
	}
	return nil
}
