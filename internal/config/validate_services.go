package config

import (
	"math"
	"net/netip"
	"strconv"

	"rhid/internal/config/strict"
)

// maxKernelMetric keeps the top byte free, which FRR takes for the distance.
const maxKernelMetric = 1<<24 - 1

// The metrics of the routes that routing daemons put into the kernel: zebra's
// is fixed, BIRD's the default of its kernel protocol.
const (
	frrMetric  = 20
	birdMetric = 32
)

func (v *validator) services() {
	names := map[string]strict.Path{}
	vips := &vipsSeen{all: map[netip.Prefix]vipAt{}}
	for i := range v.cfg.Services {
		s := &v.cfg.Services[i]
		p := strict.Path{"services", i}
		v.name(p.With("name"), s.Name)
		unique(v, names, p.With("name"), s.Name, "there is a service %q already", s.Name)
		v.serviceVIPs(p, s, vips)
		v.parts(p, s, names)
		v.order(p, s)
		v.damping(p, s)
		v.announcers(p, s)
		v.serviceCheck(p, s)
		v.via(p, s)
		v.metric(p, s)
		v.communityList(p.With("communities"), s.Communities)
		v.bandwidths(p.With("link_bandwidth"), s)
	}
}

func (v *validator) order(p strict.Path, s *Service) {
	at := p.With("order")
	if len(v.cfg.Nodes) == 0 { // reported already
		return
	}
	if len(s.Order) == 0 {
		v.fail(at, "must not be empty")
		return
	}
	v.main(p, s)
	seen := map[string]strict.Path{}
	for i, name := range s.Order {
		if _, ok := v.cfg.Node(name); !ok {
			v.noSuch(at.With(i), "node", name, nodeNames(v.cfg))
		}
		unique(v, seen, at.With(i), name, "node %q is in the order twice", name)
	}
}

// main is for services without an order of their own; elsewhere it must agree
// with it.
func (v *validator) main(p strict.Path, s *Service) {
	if s.Main == "" {
		return
	}
	if _, ok := v.cfg.Node(s.Main); !ok {
		v.noSuch(p.With("main"), "node", s.Main, nodeNames(v.cfg))
	} else if s.Order[0] != s.Main {
		v.fail(p.With("main"), "is %s, but the order begins with %s; leave one of them out", s.Main, s.Order[0])
	}
}

// damping must be able to begin and to end.
func (v *validator) damping(p strict.Path, s *Service) {
	if d := s.Damping; d.Penalty > 0 && d.Reuse >= d.Suppress {
		v.fail(p.With("damping", "reuse"), "%d must be below suppress, %d", d.Reuse, d.Suppress)
	}
}

func (v *validator) announcers(p strict.Path, s *Service) {
	if s.Announcers == announcersAll {
		return
	}
	at := p.With("announcers")
	switch n, err := strconv.Atoi(s.Announcers); {
	case err != nil || n < 1:
		v.fail(at, "%q is neither a number from 1 nor all", s.Announcers)
	case len(s.Order) > 0 && n > len(s.Order):
		v.fail(at, "%d is more than the %d of the order", n, len(s.Order))
	}
}

// metric validates the metrics of all ranks; one more than there are nodes,
// because a draining node goes behind all others.
func (v *validator) metric(p strict.Path, s *Service) {
	worst := uint64(s.Metric.Base) + uint64(s.Metric.Step)*uint64(max(1, len(s.Order)))
	at := p.With("metric")
	switch {
	case s.HasVia(ViaKernel) && worst > maxKernelMetric:
		v.fail(at, "the worst rank would have metric %d; a kernel metric must be below %d, or FRR takes part of it for the distance", worst, maxKernelMetric+1)
	case s.HasVia(ViaKernel) && s.Metric.Base == 0:
		v.fail(at.With("base"), "must be at least 1 for the kernel, which takes 0 for 1024 in IPv6")
	case worst > math.MaxUint32:
		v.fail(at, "the worst rank would have metric %d, more than a MED can hold", worst)
	case s.HasVia(ViaKernel) && v.cfg.Kernel.Table == tableMain:
		v.metricOfDaemon(at, s)
	}
}

// metricOfDaemon refuses a metric that a routing daemon gives to its own routes.
// Its route to another node that announces the VIP holds the place then: the
// kernel has one route for a prefix, a metric and a table, and rhid never takes
// somebody else's.
func (v *validator) metricOfDaemon(p strict.Path, s *Service) {
	for rank := range max(1, len(s.Order)) + 1 {
		metric := s.Metric.Base + s.Metric.Step*uint32(rank)
		owner, taken := map[uint32]string{frrMetric: "FRR", birdMetric: "BIRD"}[metric]
		if taken {
			v.fail(p, "rank %d would have metric %d, which %s gives to its own routes: beside one to another node the kernel takes none of rhid's", rank, metric, owner)
			return
		}
	}
}
