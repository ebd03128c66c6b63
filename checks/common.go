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
		p = inverted{p}
	}
	if c.MaintenanceFile != "" {
		p = maintained{p, c.MaintenanceFile}
	}
	return p, nil
}

// inverted makes a success of a failure and the other way round.
type inverted struct{ Prober }

// Probe implements Prober. That this host could not probe is no success.
func (i inverted) Probe(ctx context.Context) Result {
	res := i.Prober.Probe(ctx)
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

// maintained looks for a maintenance file before each probe. The probe is made
// all the same, so that people see when the work is done.
type maintained struct {
	Prober
	file string
}

// Probe implements Prober.
func (m maintained) Probe(ctx context.Context) Result {
	_, err := os.Stat(m.file)
	res := m.Prober.Probe(ctx)
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
