package announce

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Action is what is wanted of a VIP.
type Action uint8

// The actions.
const (
	Leave    Action = iota // not decided yet: whatever is there stays as it is
	Withdraw               // out of the network
	Announce               // in the network
)

var actionNames = [...]string{"leave", "withdraw", "announce"}

// String returns the action in one word.
func (a Action) String() string { return actionNames[a] }

// MarshalText makes an Action readable in JSON.
func (a Action) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText is the inverse of MarshalText; an unknown word is Leave.
func (a *Action) UnmarshalText(b []byte) error {
	*a = Action(max(0, slices.Index(actionNames[:], string(b))))
	return nil
}

// Bind is when rhid makes a VIP local on the host.
type Bind uint8

// The values of vip.bind.
const (
	BindAnnouncing Bind = iota // from before the announcement until linger after it
	BindAlways
	BindNever // somebody else does
)

// VIP is one VIP with all that is wanted of it.
type VIP struct {
	Prefix  netip.Prefix
	Service string
	Action  Action
	Bind    Bind
	Local   LocalMode     // how it is made local; LocalNone with BindNever
	Linger  time.Duration // how long it stays local after the route is out
	Via     []string      // names of the targets that announce it
	Attrs   Attrs
	Towards Towards // what differs at some BGP neighbours
}

// VIPStatus is what is known of one VIP.
type VIPStatus struct {
	Prefix  netip.Prefix           `json:"prefix"`
	Service string                 `json:"service"`
	Action  Action                 `json:"action"`
	Attrs   Attrs                  `json:"attrs"`
	Towards map[string]Attrs       `json:"towards,omitempty"`  // by place: attributes that differ there
	Except  []string               `json:"not_told,omitempty"` // places that are not told of it
	Local   RouteStatus            `json:"local"`
	Routes  map[string]RouteStatus `json:"routes"` // by target
}

// blindFor is how long a route stays although its VIP is not local on the
// host, so that a repair of the address does not take the route out.
const blindFor = 2 * time.Second

// AddressTarget is the name of the target that makes VIPs local.
const AddressTarget = "address"

// Announcer keeps all VIPs as wanted, in the order the package promises.
type Announcer struct {
	log     *slog.Logger
	address *aimed
	routes  map[string]*aimed
	all     map[string]*aimed // both
	wanted  *latest[wanted]
	changed chan struct{}

	mu      sync.Mutex
	status  map[netip.Prefix]VIPStatus
	updates map[netip.Prefix]VIPStatus // not yet collected

	// Owned by the goroutine of loop.
	adopted   []*VIP // the wanted set taken over last
	vips      map[netip.Prefix]*vip
	dirty     map[netip.Prefix]bool // to be worked out anew
	undecided map[netip.Prefix]bool // Leave is wanted
	timed     map[netip.Prefix]*vip // those that have a due
	complete  bool
}

// aimed is a reconciler with the goal it is to be given and what is known of
// the outcome.
type aimed struct {
	*Reconciler
	goal     map[netip.Prefix]Wish // none is Leave
	complete bool                  // as it was given last
	moved    map[netip.Prefix]bool // changed in goal since it was given last
	waiting  map[netip.Prefix]bool // changed in a goal whose outcome is not known
	held     map[netip.Prefix]bool // not in goal although it is decided
	n        uint64                // number of the goal given last
	done     uint64                // number of the newest goal whose outcome was collected
	status   map[netip.Prefix]RouteStatus
}

func newAimed(t Target, pace Pace, log *slog.Logger) *aimed {
	return &aimed{
		Reconciler: NewReconciler(t, pace, log),
		goal:       map[netip.Prefix]Wish{},
		moved:      map[netip.Prefix]bool{},
		waiting:    map[netip.Prefix]bool{},
		held:       map[netip.Prefix]bool{},
		status:     map[netip.Prefix]RouteStatus{},
	}
}

type wanted struct {
	vips     []*VIP
	complete bool
}

// vip is one VIP on its way. The maps are by target.
type vip struct {
	want     VIP
	removed  bool              // no longer in the wanted set; forgotten once it is gone
	local    bool              // it is to be local
	localAt  time.Time         // when it was last seen so, since it is to be
	up       map[string]bool   // it is to be there
	asked    map[string]uint64 // number of the goal that last changed for it
	released time.Time         // since when no route of it is left, zero while there is one
	due      time.Time         // when it must be looked at by time alone
}

func newVIP() *vip {
	return &vip{up: map[string]bool{}, asked: map[string]uint64{}}
}

// New returns an Announcer over the address target and the route targets.
// None of them may be used by anybody else.
func New(address Target, routes []Target, pace Pace, log *slog.Logger) *Announcer {
	a := &Announcer{
		log:       log,
		address:   newAimed(address, pace, log),
		routes:    map[string]*aimed{},
		wanted:    newLatest[wanted](),
		changed:   make(chan struct{}, 1),
		status:    map[netip.Prefix]VIPStatus{},
		updates:   map[netip.Prefix]VIPStatus{},
		vips:      map[netip.Prefix]*vip{},
		dirty:     map[netip.Prefix]bool{},
		undecided: map[netip.Prefix]bool{},
		timed:     map[netip.Prefix]*vip{},
	}
	for _, t := range routes {
		a.routes[t.Name()] = newAimed(t, pace, log)
	}
	a.all = maps.Clone(a.routes)
	a.all[AddressTarget] = a.address
	return a
}

// Set gives the whole wanted set. Until complete, what earlier lives of the
// daemon left behind stays. The VIPs must not change after; one that is the same
// pointer as before costs next to nothing. Set never waits.
func (a *Announcer) Set(vips []*VIP, complete bool) {
	a.wanted.put(wanted{vips: slices.Clone(vips), complete: complete})
}

// Changed receives a value when Collect has something new.
func (a *Announcer) Changed() <-chan struct{} { return a.changed }

// Collect returns the status of the VIPs whose status may have changed since
// the last call. One with neither Service nor Routes has been forgotten.
func (a *Announcer) Collect() map[netip.Prefix]VIPStatus {
	a.mu.Lock()
	defer a.mu.Unlock()
	u := a.updates
	a.updates = map[netip.Prefix]VIPStatus{}
	return u
}

// Status returns what is known of every VIP, sorted by service and prefix.
func (a *Announcer) Status() []VIPStatus {
	a.mu.Lock()
	out := make([]VIPStatus, 0, len(a.status))
	for _, s := range a.status {
		out = append(out, s)
	}
	a.mu.Unlock()
	slices.SortFunc(out, func(x, y VIPStatus) int {
		return cmp.Or(cmp.Compare(x.Service, y.Service), x.Prefix.Compare(y.Prefix))
	})
	return out
}

// Run works until ctx ends. It takes nothing out by itself: for that, Set
// withdraws and wait for Gone first.
func (a *Announcer) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return a.address.Run(ctx) })
	signals := make(chan struct{}, 1)
	for _, r := range a.routes {
		g.Go(func() error { return r.Run(ctx) })
	}
	for _, r := range a.all {
		g.Go(func() error { return forward(ctx, r.Changed(), signals) })
	}
	g.Go(func() error { return a.loop(ctx, signals) })
	return g.Wait()
}

// forward joins several signals into one.
func forward(ctx context.Context, from <-chan struct{}, to chan<- struct{}) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-from:
			signal(to)
		}
	}
}

func (a *Announcer) loop(ctx context.Context, signals <-chan struct{}) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.wanted.ready:
			if w, ok := a.wanted.take(); ok {
				a.adopt(w)
			}
		case <-signals:
		case <-timer.C:
		}
		a.collect(time.Now())
		if next := a.aim(time.Now()); !next.IsZero() {
			timer.Reset(time.Until(next))
		}
	}
}

// adopt takes the wanted set over.
func (a *Announcer) adopt(w wanted) {
	last := a.adopted
	a.complete, a.adopted = w.complete, w.vips
	if !slices.EqualFunc(last, w.vips, func(x, y *VIP) bool { return x == y || x.Prefix == y.Prefix }) {
		a.adoptAll(w.vips)
		return
	}
	for i, want := range w.vips {
		if want != last[i] {
			a.adoptOne(want)
		}
	}
}

// adoptAll takes over a set of other VIPs. One that is no longer in it is
// withdrawn in the usual order and forgotten when gone.
func (a *Announcer) adoptAll(vips []*VIP) {
	for _, v := range a.vips {
		v.removed = true
	}
	for _, want := range vips {
		a.adoptOne(want)
	}
	for p, v := range a.vips {
		if !v.removed {
			continue
		}
		a.dirty[p] = true
		v.want.Action = Withdraw
		if v.want.Bind == BindAlways {
			v.want.Bind = BindAnnouncing
		}
	}
}

func (a *Announcer) adoptOne(want *VIP) {
	v := a.vips[want.Prefix]
	if v == nil {
		v = newVIP()
		a.vips[want.Prefix] = v
		a.dirty[want.Prefix] = true
	}
	if !sameVIP(v.want, *want) {
		a.dirty[want.Prefix] = true
	}
	v.want, v.removed = *want, false
}

func sameVIP(a, b VIP) bool {
	route := func(v VIP) Route {
		return Route{Service: v.Service, Local: v.Local, Attrs: v.Attrs, Towards: v.Towards}
	}
	return a.Action == b.Action && a.Bind == b.Bind && a.Linger == b.Linger &&
		slices.Equal(a.Via, b.Via) && sameRoute(route(a), route(b))
}

// publish makes the status of the marked VIPs readable by others.
func (a *Announcer) publish() {
	if len(a.dirty) == 0 {
		return
	}
	a.mu.Lock()
	for p := range a.dirty {
		v := a.vips[p]
		if v == nil {
			if _, known := a.status[p]; known {
				delete(a.status, p)
				a.updates[p] = VIPStatus{Prefix: p}
			}
			continue
		}
		st := VIPStatus{
			Prefix: p, Service: v.want.Service, Action: v.want.Action, Attrs: v.want.Attrs,
			Towards: v.want.Towards.Attrs, Except: v.want.Towards.Except,
			Local: a.address.status[p], Routes: make(map[string]RouteStatus, len(a.routes)),
		}
		for name, r := range a.routes {
			if rs, ok := r.status[p]; ok {
				st.Routes[name] = rs
			}
		}
		a.status[p], a.updates[p] = st, st
	}
	a.mu.Unlock()
	signal(a.changed)
}
