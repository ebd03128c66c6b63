package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"rhid/cluster"
	"rhid/internal/control"
	"rhid/services"
)

var errAlone = fmt.Errorf("%w: the configuration has one node, and so nobody to hand over to", control.ErrRefused)

// failbackFor is how long a failback intent stays, so that a node that is away
// for a moment learns of it, and one that comes back next week does not.
const failbackFor = time.Minute

// Intend implements control.Source.
func (d *Daemon) Intend(ctx context.Context, i control.Intent) error {
	if d.cluster == nil {
		return errAlone
	}
	var subjects []string
	var wrong error
	if err := d.inLoop(ctx, func(l *loop) { subjects, wrong = l.subjects(i) }); err != nil || wrong != nil {
		return cmp.Or(wrong, err)
	}
	for _, i.Subject = range subjects {
		if err := d.intend(i); err != nil {
			return fmt.Errorf("%s of %s: %w", i.Kind, i.Subject, err)
		}
	}
	return nil
}

// subjects are those of all intents that follow from one.
func (l *loop) subjects(i control.Intent) ([]string, error) {
	if err := l.m.checkIntent(i); err != nil {
		return nil, err
	}
	if i.Clear {
		return l.m.cleared(i, l.d.cluster.View().Intents)
	}
	return []string{i.Subject}, nil
}

// intend makes one intent known, or clears it.
func (d *Daemon) intend(i control.Intent) error {
	if i.Kind == intentFailback {
		i.For = failbackFor
	}
	var err error
	what := "set"
	if i.Clear {
		what, err = "cleared", d.cluster.ClearIntent(i.Kind, i.Subject, i.Who, i.Why)
	} else {
		err = d.cluster.SetIntent(cluster.Intent{Kind: i.Kind, Subject: i.Subject, Arg: i.Arg, Who: i.Who, Why: i.Why, For: i.For})
	}
	if err != nil {
		return err
	}
	detail := "by " + i.Who
	if i.Arg != "" {
		detail = i.Arg + " " + detail
	}
	if i.Why != "" {
		detail += ": " + i.Why
	}
	d.journal.add(control.Event{Kind: "intent", Subject: i.Subject, What: i.Kind + " " + what, Detail: detail})
	return nil
}

// checkIntent makes sure that an intent is about something there is.
func (m *model) checkIntent(i control.Intent) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", control.ErrRefused, fmt.Sprintf(format, args...))
	}
	if i.For < 0 {
		return refuse("the duration %s is negative", i.For)
	}
	what, name, _ := strings.Cut(i.Subject, ":")
	service, node, onNode := strings.Cut(name, "@")
	switch i.Kind + " " + what {
	case intentDrain + " node":
		return m.hasNode(name)
	case intentDrain + " site":
		if !slices.ContainsFunc(m.nodes, func(n services.Node) bool { return n.Site == name && name != "" }) {
			return refuse("there is no node in a site %q", name)
		}
	case intentDrain + " service":
		if onNode {
			return cmp.Or(m.hasService(service), m.hasNode(node))
		}
		return m.hasService(name)
	case intentPin + " service":
		if i.Clear {
			return m.hasService(name)
		}
		return cmp.Or(m.hasService(name), m.inOrder(name, i.Arg))
	case intentFailback + " service":
		return m.hasService(name)
	case intentFreeze + " " + everything, intentFailback + " " + everything:
	default:
		return refuse("%s of %q is not known", i.Kind, i.Subject)
	}
	return nil
}

func (m *model) hasNode(name string) error {
	if !slices.ContainsFunc(m.nodes, func(n services.Node) bool { return n.Name == name }) {
		return fmt.Errorf("%w: there is no node %q", control.ErrRefused, name)
	}
	return nil
}

func (m *model) hasService(name string) error {
	if len(m.called(name)) == 0 {
		return fmt.Errorf("%w: there is no service %q", control.ErrRefused, name)
	}
	return nil
}

func (m *model) inOrder(service, node string) error {
	for _, s := range m.decide {
		if s.Is(service) && !slices.Contains(s.Order, node) {
			return fmt.Errorf("%w: the order of %s is %s; it does not name %q", control.ErrRefused, service, strings.Join(s.Order, ", "), node)
		}
	}
	return nil
}

// Foresee implements control.Source.
func (d *Daemon) Foresee(ctx context.Context, failures []string) (services.Outlook, error) {
	var out services.Outlook
	var wrong error
	err := d.inLoop(ctx, func(l *loop) {
		in := l.inputs(time.Now(), nil)
		var parsed []services.Failure
		for _, text := range failures {
			f, err := services.ParseFailure(text, in)
			if err != nil {
				wrong = fmt.Errorf("%w: %w", control.ErrRefused, err)
				return
			}
			parsed = append(parsed, f)
		}
		out = services.Foresee(in, failures, parsed...)
	})
	return out, cmp.Or(err, wrong)
}

// RotateKey implements control.Source.
func (d *Daemon) RotateKey(ctx context.Context, key []byte) error {
	if d.cluster == nil {
		return errAlone
	}
	err := d.cluster.RotateKey(ctx, key)
	ev := control.Event{Kind: "daemon", Subject: "gossip key", What: "rotated", Detail: cluster.KeyID(key)}
	if err != nil {
		ev.What, ev.Detail = "rotation failed", err.Error()
	}
	d.journal.add(ev)
	if err != nil {
		return errors.Join(errors.New("the key was not rotated on every node; the cluster goes on, and it may be tried again"), err)
	}
	return nil
}

// clusterStatus is the cluster for `rhid status`.
func (l *loop) clusterStatus() (*control.Cluster, []control.Alarm) {
	if l.d.cluster == nil {
		return nil, nil
	}
	v := l.d.cluster.View()
	out := &control.Cluster{
		Name: l.m.cfg.Cluster.Name, Certainty: string(v.Certainty), Since: v.Since, Encrypted: v.Encrypted, Keys: v.Keys,
		Nodes: []control.Node{}, Intents: []control.Intent{},
	}
	var alarms []control.Alarm
	for _, n := range v.Nodes {
		out.Nodes = append(out.Nodes, nodeStatus(n))
		if n.Liveness == cluster.Dead {
			alarms = append(alarms, control.Alarm{Code: "node-dead", What: n.Name, Since: n.Since, Detail: "it fell silent"})
		}
	}
	for _, i := range v.Intents {
		out.Intents = append(out.Intents, control.Intent{
			Kind: i.Kind, Subject: i.Subject, Arg: i.Arg, Who: i.Who, Why: i.Why, For: i.For, Node: i.Node, Set: i.Set, Until: i.Until,
		})
	}
	for _, p := range v.Problems {
		what := cmp.Or(p.Node, p.Address, out.Name)
		alarms = append(alarms, control.Alarm{Code: string(p.Code), What: what, Since: p.Since, Detail: p.Evidence})
	}
	if v.Certainty == cluster.Isolated {
		alarms = append(alarms, control.Alarm{Code: "isolated", What: l.m.self.Name, Since: v.Since, Detail: "several nodes are configured, and none is heard"})
	}
	return out, alarms
}

func nodeStatus(n cluster.NodeView) control.Node {
	c := control.Node{
		Name: n.Name, Site: n.Site, Address: n.Address.String(), Liveness: string(n.Liveness), Since: n.Since,
		Sees: n.Sees, Announcing: []string{},
	}
	if n.State == nil {
		return c
	}
	c.Version, c.Digest, c.Load, c.Capacity = n.State.Version, n.State.Digest, n.State.Load, n.State.Capacity
	for name, s := range n.State.Services {
		if s.Announcing && n.Liveness == cluster.Alive {
			c.Announcing = append(c.Announcing, name)
		}
	}
	slices.Sort(c.Announcing)
	return c
}

// holders are the nodes that announce a service, as they say themselves.
func (l *loop) holders(service string) []control.Holder {
	out := []control.Holder{}
	if l.d.cluster == nil {
		if act, ex := l.acts[service], l.exported[service]; act.announcing() {
			out = append(out, control.Holder{Node: l.m.self.Name, Rank: act.rank, Exported: ex.places, Of: ex.of})
		}
		return out
	}
	for _, n := range l.d.cluster.View().Nodes {
		if n.State == nil || n.Liveness != cluster.Alive {
			continue
		}
		if s := n.State.Services[service]; s.Announcing {
			out = append(out, control.Holder{Node: n.Name, Rank: s.Rank, Exported: s.Exported, Of: s.Of})
		}
	}
	slices.SortFunc(out, func(a, b control.Holder) int { return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Node, b.Node)) })
	return out
}
