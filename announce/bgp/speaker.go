package bgp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"rhid/announce"

	api "github.com/osrg/gobgp/v3/api"
	"github.com/osrg/gobgp/v3/pkg/server"
)

// errStopped is returned for calls after Stop.
var errStopped = errors.New("bgp: the speaker is stopped")

// Speaker is a BGP speaker. It is an announce.Target.
type Speaker struct {
	log *slog.Logger
	bgp *server.BgpServer

	// One call at a time of each kind: calls that time out while GoBGP is
	// stuck must not pile up or overtake each other.
	tableOps, peerOps, lookOps, filterOps chan struct{}

	seen    sightings
	changes chan struct{} // for announce.Target
	wake    chan struct{} // for Run

	mu         sync.Mutex
	set        Settings
	allowed    map[netip.Prefix]bool // those of set, nil until they are needed
	neighbours []*neighbour          // sorted by place
	byKey      map[string]*neighbour
	table      map[netip.Prefix]*entry
	special    *specials
	seq        uint64 // counts changes of table
	changing   int    // calls that change GoBGP's table right now
	removed    map[netip.Prefix]time.Time
	dirty      bool          // something changed since the last listing
	changedAt  time.Time     // when table last changed
	news       chan struct{} // closed and replaced at every change of a session
	stopping   bool
	failure    error

	nextLook, lastLook, nextList time.Time // of Run's goroutine alone
}

var _ announce.Target = (*Speaker)(nil)

// entry is one of rhid's routes in the global table.
type entry struct {
	route announce.Route // attributes normalised
	mark  int            // in GoBGP's table, see markAddr
	at    time.Time
	sums  sums            // of what neighbours should get
	own   map[string]sums // the same at places with attributes of their own
}

// sums are fingerprints of what the two kinds of neighbours get.
type sums struct{ ebgp, ibgp uint64 }

func sumsOf(a announce.Attrs) sums { return sums{wanted(a, false).sum(), wanted(a, true).sum()} }

// told says whether the route is meant for a place.
func (e *entry) told(place string) bool { return !slices.Contains(e.route.Towards.Except, place) }

// sum is the fingerprint of what a neighbour should get.
func (e *entry) sum(n *neighbour) uint64 {
	s, ok := e.own[n.place]
	if !ok {
		s = e.sums
	}
	if n.ibgp {
		return s.ibgp
	}
	return s.ebgp
}

// Start starts GoBGP, listens and begins the sessions. Sessions are kept up
// only while Run runs. Only one Speaker should live in a process at a time:
// GoBGP's own goroutine does not end.
func Start(ctx context.Context, st Settings, log *slog.Logger) (*Speaker, error) {
	st = st.withDefaults()
	if err := st.validate(); err != nil {
		return nil, err
	}
	if err := st.resolve(); err != nil {
		return nil, err
	}
	if err := checkListener(st); err != nil {
		return nil, err
	}
	s := &Speaker{
		log:      log,
		tableOps: make(chan struct{}, 1), peerOps: make(chan struct{}, 1), lookOps: make(chan struct{}, 1), filterOps: make(chan struct{}, 1),
		changes: make(chan struct{}, 1), wake: make(chan struct{}, 1),
		set: st, byKey: map[string]*neighbour{},
		table: map[netip.Prefix]*entry{}, special: newSpecials(), removed: map[netip.Prefix]time.Time{},
		news: make(chan struct{}),
		seen: sightings{at: map[netip.Prefix]map[string]Sighting{}, changed: make(chan struct{}, 1)},
	}
	s.seen.observe(st.Allowed)
	s.bgp = server.NewBgpServer(server.LoggerOption(&bridge{s: s, log: log}))
	go s.bgp.Serve()
	if err := s.begin(ctx); err != nil {
		_ = s.call(context.WithoutCancel(ctx), s.peerOps, "stopping", func() error {
			return s.bgp.StopBgp(context.Background(), &api.StopBgpRequest{})
		})
		return nil, fmt.Errorf("starting the BGP speaker: %w", err)
	}
	return s, nil
}

// begin opens the listeners, sets the filter and only then adds neighbours.
func (s *Speaker) begin(ctx context.Context) error {
	global := &api.Global{Asn: s.set.ASN, RouterId: s.set.RouterID.String(), ListenPort: -1}
	if s.set.listens() {
		global.ListenPort = int32(s.set.Port)
		for _, a := range s.set.ListenAddresses {
			global.ListenAddresses = append(global.ListenAddresses, a.String())
		}
	}
	return s.call(ctx, s.peerOps, "start", func() error {
		if err := s.bgp.StartBgp(ctx, &api.StartBgpRequest{Global: global}); err != nil {
			return err
		}
		if err := s.refilter(ctx); err != nil {
			return err
		}
		if err := s.assignPolicies(ctx); err != nil {
			return err
		}
		for _, conf := range s.set.Neighbours {
			if err := s.addPeer(ctx, newNeighbour(conf, s.set.ASN)); err != nil {
				return err
			}
		}
		return nil
	})
}

// addPeer registers n before GoBGP begins its session, so that no event of it
// is missed.
func (s *Speaker) addPeer(ctx context.Context, n *neighbour) error {
	s.mu.Lock()
	s.byKey[n.key] = n
	s.sortLocked()
	s.mu.Unlock()
	if err := s.bgp.AddPeer(ctx, &api.AddPeerRequest{Peer: n.conf.peer()}); err != nil {
		return fmt.Errorf("adding neighbour %s: %w", n.place, err)
	}
	return nil
}

// sortLocked rebuilds the sorted list of neighbours from byKey.
func (s *Speaker) sortLocked() {
	s.neighbours = s.neighbours[:0:0]
	for _, n := range s.byKey {
		s.neighbours = append(s.neighbours, n)
	}
	slices.SortFunc(s.neighbours, func(a, b *neighbour) int { return strings.Compare(a.place, b.place) })
}

// peer is n in GoBGP's terms. Graceful restart stays off: a crash must not
// leave a stale VIP in the network. Paths with the own ASN in them, which is that
// of the other hosts too, are let in: GoBGP would not tell of them, and they are
// what Sightings are made of. The import policy refuses them like all others.
func (n Neighbour) peer() *api.Peer {
	p := &api.Peer{
		Conf: &api.PeerConf{
			NeighborAddress: n.Address.String(), PeerAsn: n.ASN, AuthPassword: n.Password, Description: n.Name,
			AllowOwnAsn: math.MaxUint8,
		},
		Transport: &api.Transport{RemotePort: uint32(n.Port), PassiveMode: n.Passive},
		Timers: &api.Timers{Config: &api.TimersConfig{
			HoldTime:          uint64(n.Hold / time.Second),
			KeepaliveInterval: uint64(n.Keepalive / time.Second),
			ConnectRetry:      uint64(n.ConnectRetry / time.Second),
		}},
	}
	if n.Source.IsValid() {
		p.Transport.LocalAddress = n.Source.String()
	}
	if n.TTLSecurity {
		p.TtlSecurity = &api.TtlSecurity{Enabled: true, TtlMin: 255}
	} else if n.Multihop > 1 {
		p.EbgpMultihop = &api.EbgpMultihop{Enabled: true, MultihopTtl: uint32(n.Multihop)}
	}
	for _, f := range n.families() {
		p.AfiSafis = append(p.AfiSafis, &api.AfiSafi{
			Config: &api.AfiSafiConfig{Family: f, Enabled: true},
		})
	}
	return p
}

func (n Neighbour) families() []*api.Family {
	var out []*api.Family
	if n.IPv4 {
		out = append(out, family4())
	}
	if n.IPv6 {
		out = append(out, family6())
	}
	return out
}

// call runs f, which calls GoBGP, in its turn, and returns early when ctx ends.
// GoBGP's calls take no notice of a context, and can block for the hold time
// of a neighbour that takes no data; f then still runs to its end, and the
// next call of its kind waits for it.
func (s *Speaker) call(ctx context.Context, turn chan struct{}, what string, f func() error) error {
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("bgp: %s: an earlier call has not returned: %w", what, ctx.Err())
	}
	done := make(chan error, 1)
	go func() {
		err := f()
		<-turn
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("bgp: %s: %w", what, err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("bgp: %s: GoBGP did not return: %w", what, ctx.Err())
	}
}

// fail makes Run return err.
func (s *Speaker) fail(err error) {
	s.mu.Lock()
	if s.failure == nil {
		s.failure = err
	}
	s.mu.Unlock()
	s.wakeUp()
}

// changed tells the reconciler that Read may return something new.
func (s *Speaker) changed() { signal(s.changes) }

// wakeUp makes Run look around.
func (s *Speaker) wakeUp() { signal(s.wake) }

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// newsLocked wakes everyone who waits in await.
func (s *Speaker) newsLocked() {
	close(s.news)
	s.news = make(chan struct{})
}

// await waits until cond, called with mu held, is true, and says whether it
// was before ctx ended.
func (s *Speaker) await(ctx context.Context, cond func() bool) bool {
	for {
		s.mu.Lock()
		ok, news := cond(), s.news
		s.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-news:
		case <-ctx.Done():
			return false
		}
	}
}
