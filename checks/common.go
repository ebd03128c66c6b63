package checks

import (
	"context"
	"errors"
	"io/fs"
	"os"
)

// Common are the settings that the probes of all types share, besides those of
// Target and Timing.
type Common struct {
	ResolveAll      bool   // probe every address of a name, in place of the preferred one
	ResolveMin      Quorum // how many of them must answer; zero is all
	Invert          bool   // a failed probe is a success, and the other way round
	MaintenanceFile string // while it exists what is checked is under maintenance
}

// NewProber makes the prober of one target with the common settings. It is nil
// where the type only lives on what it is fed.
func NewProber(o Options, t Target, c Common) (Prober, error) {
	var p Prober
	var err error
	if c.ResolveAll {
		p, err = newEveryAddress(o, t, c.ResolveMin)
	} else {
		p, err = o.Prober(t)
	}
	if err != nil || p == nil {
		return nil, err
	}
	if c.Invert {
		p = amended{p, inverted}
	}
	if c.MaintenanceFile != "" {
		p = amended{p, maintained(c.MaintenanceFile)}
	}
	return p, nil
}

// amended is a prober whose results are amended. It holds what that one holds.
type amended struct {
	Prober
	amend func(Result) Result
}

// Probe implements Prober.
func (a amended) Probe(ctx context.Context) Result { return a.amend(a.Prober.Probe(ctx)) }

// Watch implements Holder.
func (a amended) Watch(broken func(Result)) {
	if h, ok := a.Prober.(Holder); ok {
		h.Watch(func(res Result) { broken(a.amend(res)) })
	}
}

// Inherit implements Holder. Probers of the same check are amended alike.
func (a amended) Inherit(from Holder) {
	to, holds := a.Prober.(Holder)
	if old, ok := from.(amended); ok && holds {
		if h, ok := old.Prober.(Holder); ok {
			to.Inherit(h)
		}
	}
}

// Release implements Holder.
func (a amended) Release() {
	if h, ok := a.Prober.(Holder); ok {
		h.Release()
	}
}

// inverted makes a success of a failure and the other way round. That this
// host could not probe is no success.
func inverted(res Result) Result {
	switch {
	case res.OK:
		res.OK, res.Degraded, res.Cause = false, false, CauseAnswer
		res.Detail = "succeeded, which inverted is a failure: " + res.Detail
	case res.Cause != CauseInternal:
		res.OK, res.Cause = true, CauseNone
		res.Detail = "failed, which inverted is a success: " + res.Detail
	}
	return res
}

// maintained looks for a maintenance file at each probe. The probe is made all
// the same, so that people see when the work is done.
func maintained(file string) func(Result) Result {
	return func(res Result) Result {
		_, err := os.Stat(file)
		switch {
		case err == nil:
			res.Maintenance = true
		case !errors.Is(err, fs.ErrNotExist):
			// Whoever puts the file there would wait in vain for its effect.
			res.Degraded = res.OK
			res.Detail = joined(res.Detail, "the maintenance file cannot be looked for: "+err.Error())
		}
		return res
	}
}
