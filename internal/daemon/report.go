package daemon

import (
	"context"
	"fmt"
	"time"

	"rhid/checks"
	"rhid/internal/control"
)

// reportChecks are the IDs of the checks that live on what is reported, by
// service and part, and by what these are parts of. Services without such a
// check have none.
func (m *model) reportChecks() map[string][]string {
	fed := map[string]bool{}
	for i := range m.specs {
		if s := &m.specs[i]; s.Passive && s.Prober == nil {
			fed[s.ID] = true
		}
	}
	out := make(map[string][]string, len(m.services))
	for _, s := range m.services {
		ids := []string{}
		for _, id := range s.members {
			if fed[id] {
				ids = append(ids, id)
			}
		}
		out[s.name] = ids
		if of := s.conf.Of(); of != s.name {
			out[of] = append(out[of], ids...)
		}
	}
	return out
}

// Report implements control.Source. It does not go through the event loop,
// which has nothing to do with a report unless a check changes by it.
func (d *Daemon) Report(_ context.Context, rs []control.Report) error {
	at := time.Now()
	known := *d.reported.Load()
	for _, r := range rs {
		switch ids, here := known[r.Service]; {
		case !here:
			return fmt.Errorf("service %q on this node: %w", r.Service, control.ErrNotFound)
		case len(ids) == 0:
			return fmt.Errorf("%w: service %q has no check of type report, so nothing would come of it", control.ErrRefused, r.Service)
		}
	}
	for _, r := range rs {
		c := checks.Counts{OK: r.OK, Fail: r.Fail, Latency: r.Latency(), Detail: r.Detail}
		for _, id := range known[r.Service] {
			d.runner.Feed(id, c, at)
		}
	}
	return nil
}
