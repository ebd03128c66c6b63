package config

import "rhid/services"

// DecisionNodes returns the nodes as the decision sees them.
func (cfg *Config) DecisionNodes() []services.Node {
	out := make([]services.Node, len(cfg.Nodes))
	for i, n := range cfg.Nodes {
		out[i] = services.Node{Name: n.Name, Site: n.Site, Capacity: n.Capacity}
	}
	return out
}

// DecisionServices returns the services as the decision sees them.
func (cfg *Config) DecisionServices() []services.Service {
	parts := cfg.Parts()
	out := make([]services.Service, len(parts))
	for i := range parts {
		s := &parts[i]
		out[i] = services.Service{
			Name: s.Name, PartOf: s.PartOf, Order: s.Order, Announcers: s.AnnouncersN(), PerSite: s.Scope == "site", Priority: s.Priority,
			Sticky: s.Failback.Mode == "never", KeepDown: s.AllDown == "keep",
		}
	}
	return out
}
