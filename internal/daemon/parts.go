package daemon

import (
	"fmt"
	"slices"
	"strings"

	"rhid/cluster"
	"rhid/internal/control"
	"rhid/services"
)

// called returns the names of what is decided on that somebody means by a
// name: the service or part of that name, or all parts of the service.
func (m *model) called(name string) []string {
	var out []string
	for i := range m.decide {
		if m.decide[i].Is(name) {
			out = append(out, m.decide[i].Name)
		}
	}
	return out
}

// parts are the services that are decided on in parts, each with these.
func (m *model) parts() map[string][]string {
	var out map[string][]string
	for _, s := range m.decide {
		if s.PartOf == "" || s.PartOf == s.Name {
			continue
		}
		if out == nil {
			out = map[string][]string{}
		}
		out[s.PartOf] = append(out[s.PartOf], s.Name)
	}
	return out
}

// intentsOf makes of what operators asked for what it means for each service
// and part. A pin of a part comes before that of the whole.
func (m *model) intentsOf(all []cluster.Intent) services.Intents {
	out := services.Intents{
		DrainNodes: map[string]bool{}, DrainSites: map[string]bool{},
		DrainServices: map[string]bool{}, Pins: map[string]string{},
	}
	for _, i := range all {
		what, name, _ := strings.Cut(i.Subject, ":")
		switch i.Kind + " " + what {
		case intentDrain + " node":
			out.DrainNodes[name] = true
		case intentDrain + " site":
			out.DrainSites[name] = true
		case intentDrain + " service":
			service, node, onNode := strings.Cut(name, "@")
			for _, s := range m.called(service) {
				if onNode {
					s += "@" + node
				}
				out.DrainServices[s] = true
			}
		case intentPin + " service":
			for _, s := range m.called(name) {
				if _, pinned := out.Pins[s]; !pinned || s == name {
					out.Pins[s] = i.Arg
				}
			}
		case intentFreeze + " " + everything:
			out.Frozen = true
		}
	}
	return out
}

// cleared returns the subjects of all that an intent takes back: its own, and
// those of the service's parts that somebody asked for apart. What holds for the
// whole cannot be taken back for a part.
func (m *model) cleared(i control.Intent, all []cluster.Intent) ([]string, error) {
	asked := func(subject string) bool {
		return slices.ContainsFunc(all, func(x cluster.Intent) bool { return x.Kind == i.Kind && x.Subject == subject })
	}
	subjects := []string{i.Subject}
	name, ofService := strings.CutPrefix(i.Subject, "service:")
	if !ofService {
		return subjects, nil
	}
	name, node, onNode := strings.Cut(name, "@")
	subject := func(service string) string {
		if onNode {
			service += "@" + node
		}
		return "service:" + service
	}
	for _, s := range m.decide {
		switch {
		case s.PartOf == s.Name:
		case s.PartOf == name && asked(subject(s.Name)):
			subjects = append(subjects, subject(s.Name))
		case s.Name == name && s.PartOf != "" && !asked(i.Subject) && asked(subject(s.PartOf)):
			return nil, fmt.Errorf("%w: %s is a part of %s, and the %s is of all of it; take that of %s back",
				control.ErrRefused, s.Name, s.PartOf, i.Kind, subject(s.PartOf))
		}
	}
	return subjects, nil
}
