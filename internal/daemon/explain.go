package daemon

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"rhid/checks"
	"rhid/internal/config"
	"rhid/internal/control"
)

// Checks implements control.Source.
func (d *Daemon) Checks(ctx context.Context, of, node string) ([]control.CheckState, error) {
	var wrong error
	err := d.inLoop(ctx, func(l *loop) { node, of, wrong = l.asked(of, node) })
	switch {
	case err != nil || wrong != nil:
		return nil, cmp.Or(err, wrong)
	case node != "":
		return d.askForChecks(ctx, node, of)
	default:
		return d.ownChecks(ctx, of)
	}
}

// ownChecks returns the checks of this node, or those of a service on it,
// ordered by ID.
func (d *Daemon) ownChecks(ctx context.Context, of string) ([]control.CheckState, error) {
	var users map[string][]string
	var missing error
	if err := d.inLoop(ctx, func(l *loop) { users, missing = l.usersOf(of) }); err != nil || missing != nil {
		return nil, cmp.Or(err, missing)
	}
	out := []control.CheckState{}
	for _, st := range d.runner.Status() {
		if names, wanted := users[st.ID]; wanted {
			out = append(out, control.CheckState{Status: st, Services: names, Recent: d.runner.Recent(st.ID)})
		}
	}
	return out, nil
}

// usersOf returns the checks of a service, or of this node, each with the
// services that use it.
func (l *loop) usersOf(of string) (map[string][]string, error) {
	out := map[string][]string{}
	add := func(id string) {
		out[id] = []string{}
		for _, s := range l.byCheck[id] {
			out[id] = append(out[id], s.name)
		}
	}
	switch called := l.m.called(of); {
	case slices.ContainsFunc(called, func(n string) bool { return l.byName[n] != nil }):
		for _, n := range called {
			for _, id := range l.membersOf(n) {
				add(id)
			}
		}
	case of == "":
		for i := range l.m.specs {
			add(l.m.specs[i].ID)
		}
	case l.m.hasService(of) == nil:
		return nil, fmt.Errorf("%w: node %s has no part in service %s, ask a node of its order (--node)", control.ErrNotFound, l.m.self.Name, of)
	default:
		return nil, fmt.Errorf("%w: there is no service %q on node %s, nor a node of that name", control.ErrNotFound, of, l.m.self.Name)
	}
	return out, nil
}

// membersOf are the checks of a service that this node has.
func (l *loop) membersOf(service string) []string {
	if s := l.byName[service]; s != nil {
		return s.members
	}
	return nil
}

// TestCheck implements control.Source.
func (d *Daemon) TestCheck(ctx context.Context, name string) ([]control.CheckTest, error) {
	var m *model
	if err := d.inLoop(ctx, func(l *loop) { m = l.m }); err != nil {
		return nil, err
	}
	return m.test(ctx, name)
}

// TestCheck runs a check of a configuration file once now, as the daemon of a
// node would. It needs no daemon.
func TestCheck(ctx context.Context, file, node, name string) ([]control.CheckTest, error) {
	cfg, err := config.Load(file)
	if err != nil {
		return nil, err
	}
	m, err := newModel(cfg, node, nil)
	if err != nil {
		return nil, err
	}
	return m.test(ctx, name)
}

// maxTests is how many targets of a check are probed at once by a test.
const maxTests = 64

// test runs a check once, for all its targets or, where name is an ID, for one.
// The probers are made anew: those that run at their times must not run twice.
func (m *model) test(ctx context.Context, name string) ([]control.CheckTest, error) {
	var specs []checks.Spec
	for _, r := range m.wantedRecipes(name) {
		spec, err := r.make()
		if err != nil {
			return nil, err
		}
		named := spec.ID == name || r.name == name
		if named && !slices.ContainsFunc(specs, func(s checks.Spec) bool { return s.ID == spec.ID }) {
			specs = append(specs, spec)
		}
	}
	if len(specs) == 0 {
		return nil, fmt.Errorf("check %q on node %s: %w", name, m.self.Name, control.ErrNotFound)
	}
	out := make([]control.CheckTest, len(specs))
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxTests)
	for i, s := range specs {
		out[i] = control.CheckTest{ID: s.ID, Name: s.Name, Type: s.Type, Target: s.Target, Timeout: s.Timing.Timeout, Fed: s.Prober == nil}
		if s.Prober == nil {
			continue
		}
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			out[i].Result = checks.ProbeOnce(ctx, s.Prober, s.Timing.Timeout)
		})
	}
	wg.Wait()
	return out, nil
}

// wantedRecipes are those that may be meant by a name; a named check that
// nothing uses yet is one of them.
func (m *model) wantedRecipes(name string) []recipe {
	out := slices.DeleteFunc(slices.Clone(m.recipes), func(r recipe) bool {
		return r.name != name && !(len(name) > len(r.name) && name[:len(r.name)+1] == r.name+"@")
	})
	if c := m.cfg.Checks[name]; len(out) == 0 && c != nil {
		out = append(out, recipe{name, c, m.ownTarget(c.Address), ""})
	}
	return out
}
