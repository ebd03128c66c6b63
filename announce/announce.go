// Package announce puts VIPs into the network and takes them out. It is given
// the whole wanted set and makes it so: a reconciler for each target compares
// what is wanted with what is really there, acts, retries and reads back. It
// does not know why a VIP is wanted.
//
// The order is the promise of this package. Up: the VIP is local on the host
// before any route leads to it. Down: the route is out and was read back, then
// vip.linger passes, then the VIP goes.
package announce

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"time"
)

// LargeCommunity is an RFC 8092 large community.
type LargeCommunity struct {
	Global, Local1, Local2 uint32
}

// Attrs go with a route into the network.
type Attrs struct {
	Rank             int              `json:"rank"`                       // 0 is best
	Metric           uint32           `json:"metric"`                     // MED in BGP, metric of the kernel route
	Prepend          int              `json:"prepend,omitempty"`          // own ASN this many times more (eBGP)
	LocalPref        uint32           `json:"local_preference,omitempty"` // iBGP only; 0 leaves it out
	Communities      []uint32         `json:"communities,omitempty"`      // RFC 1997, sorted
	LargeCommunities []LargeCommunity `json:"large_communities,omitempty"`
	Origin           Origin           `json:"origin,omitempty"`
	Bandwidth        uint32           `json:"link_bandwidth,omitempty"` // Mbit/s, a link-bandwidth community for weighted ECMP; 0 leaves it out
}

// Origin is BGP's ORIGIN attribute (RFC 4271, 5.1.1).
type Origin uint8

// The values of ORIGIN, as on the wire.
const (
	OriginIGP Origin = iota
	OriginEGP
	OriginIncomplete
)

// Equal says whether a and b are the same in every attribute.
func (a Attrs) Equal(b Attrs) bool {
	return a.Rank == b.Rank && a.Metric == b.Metric && a.Prepend == b.Prepend && a.LocalPref == b.LocalPref &&
		a.Origin == b.Origin && a.Bandwidth == b.Bandwidth &&
		slices.Equal(a.Communities, b.Communities) && slices.Equal(a.LargeCommunities, b.LargeCommunities)
}

// Towards is what differs from a route's Attrs at some places. Neither map nor
// attributes are changed once made.
type Towards struct {
	Attrs  map[string]Attrs // by Place.Name: these instead
	Except []string         // places that are not told at all, sorted
}

// Equal says whether both ask for the same.
func (t Towards) Equal(o Towards) bool {
	return slices.Equal(t.Except, o.Except) && maps.EqualFunc(t.Attrs, o.Attrs, Attrs.Equal)
}

// Route is one prefix wanted in one target.
type Route struct {
	Prefix  netip.Prefix
	Service string
	Local   LocalMode // how the VIP is local; only the address target looks at it
	Attrs   Attrs
	Towards Towards // only the BGP target has places that may differ
}

// LocalMode is how a VIP is made local on the host.
type LocalMode uint8

// The ways to make a VIP local.
const (
	LocalNone    LocalMode = iota // rhid leaves it to somebody else (vip.bind: never)
	LocalAddress                  // an address on lo
	LocalAnyIP                    // a route of type local in table local
)

// PlaceState is how far a route has come at one place: a neighbour, a kernel
// table, an interface.
type PlaceState uint8

// The states at a place. Only Present and Gone were read back.
const (
	Pending     PlaceState = iota // wanted, and not there yet
	Present                       // there: read back
	Leaving                       // to be withdrawn, and the withdraw has not left this host
	Unconfirmed                   // the withdraw has left, and the neighbour was not heard since
	Gone                          // not there: read back
)

var placeNames = [...]string{"pending", "present", "leaving", "unconfirmed", "gone"}

// String returns the state in one word.
func (s PlaceState) String() string { return placeNames[s] }

// MarshalText makes a PlaceState readable in JSON.
func (s PlaceState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText is the inverse of MarshalText; an unknown word is Pending.
func (s *PlaceState) UnmarshalText(b []byte) error {
	*s = Pending
	for i, n := range placeNames {
		if n == string(b) {
			*s = PlaceState(i)
		}
	}
	return nil
}

// Place is the state of a route at one place, and why.
type Place struct {
	Name  string     `json:"name"` // "10.1.0.1", "table 254", "lo"
	State PlaceState `json:"state"`
	Why   string     `json:"why,omitempty"` // one sentence where the state is not what one would wish
	Since time.Time  `json:"since"`
	Host  bool       `json:"-"` // on this host only: another place says whether the network has the route
}

// Seen is what a target found of one prefix.
type Seen struct {
	Here   bool    // rhid's own object for the prefix exists in the target
	Route  Route   // as far as the target can tell; meaningful when Here
	Places []Place // sorted by name
}

// Later is the error of a Put or Remove that would come too soon after the last
// one for the same prefix. Nothing was done, and nothing failed.
type Later struct {
	At time.Time // when to ask again
}

// Error implements error.
func (l *Later) Error() string {
	return "waits for " + l.At.Format("15:04:05.0") + ": changes of one prefix keep a distance"
}

// Target is one thing that a Reconciler keeps as wanted: the BGP speaker's
// table, the kernel's announcement routes, the VIPs that are local. All
// methods but Changes are called from one goroutine, one at a time.
type Target interface {
	// Name is "bgp", "kernel" or "address".
	Name() string
	// Read returns all of rhid's own objects that are really there, and the
	// prefixes whose withdraw is not yet confirmed everywhere. An error means
	// nothing is known; a partial answer is an error.
	Read(ctx context.Context) (map[netip.Prefix]Seen, error)
	// Put makes r present in the place of what rhid had there for the same
	// prefix, and never in the place of what is somebody else's. Put and Remove
	// may ask for more time with a Later.
	Put(ctx context.Context, r Route) error
	// Remove takes rhid's own object for p out; that there is none is no error.
	Remove(ctx context.Context, p netip.Prefix) error
	// Same says whether s is what r asks for.
	Same(r Route, s Seen) bool
	// Changes receives a value, never more than one at a time, when what Read
	// returns may have changed other than by Put and Remove.
	Changes() <-chan struct{}
}
