package bgp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"rhid/announce"

	api "github.com/osrg/gobgp/v3/api"
)

// list compares the books with GoBGP's global table and the Adj-RIB-Out of
// each established neighbour. GoBGP's listings take no context: they would end
// with a part and no error.
func (s *Speaker) list(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s.mu.Lock()
	s.dirty = false
	var up []*neighbour
	for _, n := range s.neighbours {
		if n.established() {
			up = append(up, n)
		}
	}
	s.mu.Unlock()
	err := s.call(ctx, s.lookOps, "listing the tables", func() error {
		if err := s.listTable(); err != nil {
			return err
		}
		for _, n := range up {
			if err := s.listExported(n); err != nil {
				// It may have been removed, or be renewed right now.
				s.log.Debug("cannot list what a neighbour is sent", "neighbour", n.place, "error", err)
			}
		}
		return nil
	})
	if err != nil {
		s.log.Error("cannot list the tables", "error", err)
	}
}

// listTable corrects the book of the global table where it differs from what
// GoBGP has. When either changed meanwhile, that comes a second later.
func (s *Speaker) listTable() error {
	s.mu.Lock()
	began, busy := s.seq, s.changing > 0
	s.mu.Unlock()
	found := map[netip.Prefix]foundPath{}
	for _, f := range []*api.Family{family4(), family6()} {
		var bad error
		err := s.bgp.ListPath(context.Background(), &api.ListPathRequest{TableType: api.TableType_GLOBAL, Family: f}, func(d *api.Destination) {
			if err := take(found, d); err != nil {
				bad = err
			}
		})
		if err == nil {
			err = bad
		}
		if err != nil {
			return fmt.Errorf("global table: %w", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if busy || s.changing > 0 || s.seq != began {
		s.dirty = true
		return nil
	}
	s.correctLocked(found)
	return nil
}

// foundPath is a path of the global table.
type foundPath struct {
	attrs announce.Attrs
	mark  int
}

// take adds a destination of the global table to found. Nothing but rhid's own
// paths gets into the table, one for each prefix.
func take(found map[netip.Prefix]foundPath, d *api.Destination) error {
	p, err := netip.ParsePrefix(d.GetPrefix())
	if err != nil {
		return fmt.Errorf("destination: %w", err)
	}
	for _, path := range d.GetPaths() {
		a, mark, err := decode(path)
		if err != nil {
			return fmt.Errorf("destination %v: %w", p, err)
		}
		found[p] = foundPath{a, mark}
	}
	return nil
}

// correctLocked makes the book say what was found.
func (s *Speaker) correctLocked(found map[netip.Prefix]foundPath) {
	wrong := 0
	for p, e := range s.table {
		f, ok := found[p]
		f.attrs.Prepend = e.route.Attrs.Prepend // which the mark stands for
		if ok && f.mark == e.mark && sameAttrs(f.attrs, e.route.Attrs) {
			delete(found, p)
			continue
		}
		wrong++
		delete(s.table, p)
	}
	for p, f := range found {
		wrong++
		s.table[p] = newEntry(s.special.route(p, f.attrs, f.mark), f.mark)
	}
	if wrong > 0 {
		s.log.Error("the table of GoBGP was not as rhid left it", "prefixes", wrong)
		s.changed()
	}
}

// listExported reads the Adj-RIB-Out of n, as GoBGP's filter has it.
func (s *Speaker) listExported(n *neighbour) error {
	at := time.Now()
	listed := map[netip.Prefix]bool{}
	for _, f := range n.conf.families() {
		err := s.bgp.ListPath(context.Background(), &api.ListPathRequest{TableType: api.TableType_ADJ_OUT, Name: n.key, Family: f}, func(d *api.Destination) {
			if p, err := netip.ParsePrefix(d.GetPrefix()); err == nil {
				listed[p] = true
			}
		})
		if err != nil {
			return fmt.Errorf("what %s is sent: %w", n.place, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n.established() && at.After(n.up) {
		n.listed, n.listedAt = listed, at
		for p, sent := range n.sent {
			if _, here := s.table[p]; here && !listed[p] && sent.at.Before(at) {
				s.changed()
				break
			}
		}
	}
	return nil
}

// Exportable returns the prefixes that GoBGP's export filter lets out, sorted.
// It asks GoBGP, not the settings.
func (s *Speaker) Exportable(ctx context.Context) ([]netip.Prefix, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var out []netip.Prefix
	var bad error
	err := s.call(ctx, s.lookOps, "reading the filter", func() error {
		req := &api.ListDefinedSetRequest{DefinedType: api.DefinedType_PREFIX}
		return s.bgp.ListDefinedSet(context.Background(), req, func(set *api.DefinedSet) {
			for _, entry := range set.GetPrefixes() {
				p, err := netip.ParsePrefix(entry.GetIpPrefix())
				bad = errors.Join(bad, err)
				out = append(out, p)
			}
		})
	})
	if err = errors.Join(err, bad); err != nil {
		return nil, err
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return out, nil
}
