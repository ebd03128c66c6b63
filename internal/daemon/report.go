package daemon

import (
	"context"
	"fmt"
	"net"
	"os"
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

// reportRetry is how long the daemon waits before it tries again to open the
// endpoint for reports: that it cannot is no reason to announce nothing.
const reportRetry = 5 * time.Second

// serveReports keeps the endpoint for reports open until ctx ends.
func (d *Daemon) serveReports(ctx context.Context, m *model) error {
	said := ""
	for ctx.Err() == nil {
		err := d.serveReportsOnce(ctx, m)
		if err != nil && err.Error() != said {
			said = err.Error()
			d.log.Error("reports of applications are not taken", "error", err, "retry", reportRetry)
		}
		select {
		case <-ctx.Done():
		case <-time.After(reportRetry):
		}
	}
	return nil
}

func (d *Daemon) serveReportsOnce(ctx context.Context, m *model) error {
	r := m.cfg.Control.Report
	token, err := r.Token(os.ReadFile)
	if err != nil {
		return fmt.Errorf("control.report: %w", err)
	}
	l, err := net.Listen("tcp", m.ownTarget(r.Listen))
	if err != nil {
		return fmt.Errorf("control.report: %w", err)
	}
	return control.ServeReports(ctx, l, token, d, d.log)
}
