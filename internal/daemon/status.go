package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"rhid/announce"
	"rhid/announce/bgp"
	"rhid/announce/kernel"
	"rhid/internal/control"
)

// alarmAfter is how long wanted and actual may differ before it is an alarm.
const alarmAfter = 3 * time.Second

// established is the only state of a neighbour in which routes are exchanged.
const established = "established"

var errEnded = errors.New("the daemon is ending")

// inLoop runs f in the event loop and waits for it.
func (d *Daemon) inLoop(ctx context.Context, f func(*loop)) error {
	done := make(chan struct{})
	select {
	case d.loop.ask <- func() { f(d.loop); close(done) }:
		<-done
		return nil
	case <-d.loop.stopped:
		return errEnded
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Status implements control.Source.
func (d *Daemon) Status(ctx context.Context) (control.Status, error) {
	var s control.Status
	err := d.inLoop(ctx, func(l *loop) { s = l.status(time.Now()) })
	if err != nil || d.speaker == nil {
		return s, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if s.Exportable, err = d.speaker.Exportable(ctx); err != nil {
		d.log.Warn("the status lacks the export filter", "error", err)
	}
	return s, nil
}

// Explain implements control.Source.
func (d *Daemon) Explain(ctx context.Context, name string) (control.Explanation, error) {
	var e control.Explanation
	var missing error
	err := d.inLoop(ctx, func(l *loop) { e, missing = l.explain(name) })
	return e, cmp.Or(err, missing)
}

// Events implements control.Source.
func (d *Daemon) Events(ctx context.Context, since uint64) ([]control.Event, error) {
	return d.journal.after(ctx, since), nil
}

// Reload implements control.Source.
func (d *Daemon) Reload(ctx context.Context) error {
	var refused error
	err := d.inLoop(ctx, func(l *loop) { refused = l.reload() })
	return cmp.Or(err, refused)
}

func (l *loop) status(now time.Time) control.Status {
	s := control.Status{
		Node: l.m.self.Name, Site: l.m.self.Site, Version: l.d.opts.Version,
		State: l.phase.String(), Started: l.started,
		Config:     control.ConfigState{File: l.d.opts.File, Digest: l.m.digest, Loaded: l.loaded, LastError: l.lastErr},
		Services:   []control.Service{},
		Parts:      l.m.parts(),
		Neighbours: []control.Neighbour{},
		Alarms:     []control.Alarm{},
	}
	if l.phase == phaseRunning && !l.decided {
		s.State = "starting"
	}
	vips := map[string][]announce.VIPStatus{}
	for _, v := range l.d.announcer.Status() {
		vips[v.Service] = append(vips[v.Service], v)
		s.Alarms = append(s.Alarms, vipAlarms(v, now)...)
	}
	for _, svc := range l.m.services {
		s.Services = append(s.Services, l.serviceStatus(svc, vips[svc.name]))
		delete(vips, svc.name)
	}
	for name, left := range vips { // no longer configured, on their way out
		s.Services = append(s.Services, control.Service{Name: name, VIPs: left})
	}
	s.Neighbours, s.Alarms = l.neighbours(s.Alarms, now)
	s.Alarms = append(s.Alarms, l.strangers.list()...)
	s.Alarms = append(s.Alarms, l.hostAlarms()...)
	s.Alarms = append(s.Alarms, l.d.endpoint.alarms(now)...)
	s.Links, s.Overload = l.linkStatus(nil), l.overloadStatus()
	s.Alarms = append(s.Alarms, l.linkAlarms()...)
	s.Alarms = append(s.Alarms, l.degradedAlarms()...)
	var of []control.Alarm
	s.Cluster, of = l.clusterStatus()
	s.Alarms = append(s.Alarms, of...)
	return s
}

func (l *loop) serviceStatus(svc *service, vips []announce.VIPStatus) control.Service {
	d := l.plan[svc.name]
	if vips == nil {
		vips = []announce.VIPStatus{}
	}
	return control.Service{
		Name: svc.name, Verdict: d.Verdict, Rank: d.Rank, Readiness: l.states[svc.name].Readiness,
		Since: l.changed[svc.name], Reason: d.Reason, VIPs: vips, Holders: l.holders(svc.name),
		Degraded: l.outcomes[svc.name].Degraded, Maintenance: l.outcomes[svc.name].Maintenance,
	}
}

// vipAlarms says what of a VIP is not as wanted for too long.
func vipAlarms(v announce.VIPStatus, now time.Time) []control.Alarm {
	var out []control.Alarm
	add := func(target string, st announce.RouteStatus) {
		if st.Differs.IsZero() || now.Sub(st.Differs) < alarmAfter {
			return
		}
		want := "withdrawn"
		if st.Wanted {
			want = "announced"
		}
		detail := fmt.Sprintf("wanted %s, and not so for %s: %s", want, now.Sub(st.Differs).Round(time.Second), why(st))
		out = append(out, control.Alarm{Code: "wanted-not-actual", What: v.Prefix.String() + " " + target, Since: st.Differs, Detail: detail})
	}
	add(announce.AddressTarget, v.Local)
	for target, st := range v.Routes {
		add(target, st)
	}
	slices.SortFunc(out, func(a, b control.Alarm) int { return cmp.Compare(a.What, b.What) })
	return out
}

// why is the reason for a difference as one sentence.
func why(st announce.RouteStatus) string {
	out := st.Err
	for _, p := range st.Places {
		if p.Why == "" {
			continue
		}
		if out != "" {
			out += "; "
		}
		out += p.Name + ": " + p.Why
	}
	if out == "" {
		return "not read back yet"
	}
	return out
}

func (l *loop) neighbours(alarms []control.Alarm, now time.Time) ([]control.Neighbour, []control.Alarm) {
	out := []control.Neighbour{}
	if l.d.speaker == nil {
		return out, alarms
	}
	sessions := l.bfdStatus()
	for _, n := range l.d.speaker.Neighbours() {
		c := neighbourStatus(n)
		c.BFD = sessions[n.Address]
		alarms = append(alarms, bfdAlarm(c, now)...)
		out = append(out, c)
		if !c.Established && now.Sub(n.Since) >= alarmAfter {
			alarms = append(alarms, control.Alarm{Code: "neighbour-down", What: n.Name, Since: n.Since, Detail: or(c.Why, "no session yet")})
		}
		alarms = append(alarms, l.m.floodAlarm(n)...)
	}
	more, silent := l.unheard(now)
	return append(out, more...), append(alarms, silent...)
}

// floodAlarm is raised long before a neighbour's session would end for what it
// sends.
func (m *model) floodAlarm(n bgp.NeighbourStatus) []control.Alarm {
	i := slices.IndexFunc(m.routers, func(r *teller) bool { return r.place == n.Address })
	if i < 0 || n.State != established || n.Received <= min(m.routers[i].conf.WarnPrefixes, n.MaxReceived*3/4) {
		return nil
	}
	return []control.Alarm{{Code: "neighbour-floods", What: n.Name, Since: n.Since, Detail: fmt.Sprintf(
		"it has sent %d prefixes, and the session ends above %d (max_prefixes); it should send VIPs only", n.Received, n.MaxReceived)}}
}

func neighbourStatus(n bgp.NeighbourStatus) control.Neighbour {
	c := control.Neighbour{
		Name: n.Name, Address: n.Address, ASN: n.ASN, State: n.State, Established: n.State == established,
		Since: n.Since, HoldSeconds: n.HoldSeconds, Families: n.Families, Missing: n.Missing,
		Lacks: n.Lacks, Received: n.Received, MaxReceived: n.MaxReceived, Exported: n.Exported, Flaps: n.Flaps,
	}
	if n.LastDown != nil && (!c.Established || n.Flaps > 0) {
		c.Why = n.LastDown.Text
	}
	return c
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// hostAlarms are about the host and the configuration.
func (l *loop) hostAlarms() []control.Alarm {
	var out []control.Alarm
	if l.lastErr != "" {
		out = append(out, control.Alarm{Code: "config", What: l.d.opts.File, Since: l.loaded, Detail: l.lastErr})
	}
	for _, problem := range kernel.CheckSysctls() {
		out = append(out, control.Alarm{Code: "host", What: "sysctl", Since: l.started, Detail: problem})
	}
	return out
}

// explain explains a service, or each of its parts.
func (l *loop) explain(name string) (control.Explanation, error) {
	var own []*service
	for _, n := range l.m.called(name) {
		if s := l.byName[n]; s != nil {
			own = append(own, s)
		}
	}
	switch {
	case len(own) == 0:
		return control.Explanation{}, fmt.Errorf("service %q on node %s: %w", name, l.m.self.Name, control.ErrNotFound)
	case own[0].name == name:
		return l.explainOne(own[0]), nil
	}
	e := control.Explanation{Service: control.Service{Name: name, Holders: []control.Holder{}, VIPs: []announce.VIPStatus{}}}
	for _, s := range own {
		e.Parts = append(e.Parts, l.explainOne(s))
	}
	return e, nil
}

func (l *loop) explainOne(svc *service) control.Explanation {
	var vips []announce.VIPStatus
	for _, v := range l.d.announcer.Status() {
		if v.Service == svc.name {
			vips = append(vips, v)
		}
	}
	e := control.Explanation{
		Service: l.serviceStatus(svc, vips), Decision: l.plan[svc.name], Pool: l.outcomes[svc.name].Detail, Links: l.linkStatus(svc),
	}
	for _, id := range svc.members {
		if st, ok := l.d.runner.StatusOf(id); ok {
			e.Checks = append(e.Checks, st)
		}
	}
	return e
}
