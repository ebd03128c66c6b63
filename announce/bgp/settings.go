package bgp

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// ErrNeedsRestart is returned by Configure for a change that a running speaker
// cannot make: its own ASN, router id, port or listen addresses.
var ErrNeedsRestart = errors.New("bgp: the change needs a restart")

// Defaults of Neighbour and Settings.
const (
	DefaultPort         = 179
	DefaultHold         = 9 * time.Second
	DefaultConnectRetry = time.Second
	DefaultMaxPrefixes  = 50_000
)

const (
	maxPassword = 80 // TCP_MD5SIG_MAXKEYLEN of Linux
	maxPrepend  = 31 // five bits, see prependStatements
)

// Settings of the speaker. A zero Port is 179, -1 does not listen. Without
// ListenAddresses it listens on all addresses of the families its neighbours
// are reached by.
type Settings struct {
	ASN             uint32
	RouterID        netip.Addr // IPv4 form
	Port            int
	ListenAddresses []netip.Addr
	NodeID          uint32 // this node in large communities; the caller puts it there
	Neighbours      []Neighbour
	Allowed         []netip.Prefix // all VIPs: only these can ever be exported
}

// Neighbour is a router to hold a session with.
type Neighbour struct {
	Name         string // for people; the address when empty
	Address      netip.Addr
	ASN          uint32     // the speaker's own makes it iBGP
	Port         int        // 0 is 179
	Passive      bool       // never dial
	Multihop     int        // TTL of eBGP packets; 0 is a direct neighbour
	TTLSecurity  bool       // GTSM (RFC 5082): TTL 255 sent and required
	Password     string     // TCP MD5 (RFC 2385), at most 80 bytes
	Source       netip.Addr // local address of the session
	Hold         time.Duration
	Keepalive    time.Duration // 0 is a third of Hold
	ConnectRetry time.Duration
	IPv4, IPv6   bool       // families to exchange
	NextHop      netip.Addr // of IPv4 VIPs; IPv6 needs RFC 8950 on both sides
	NextHop6     netip.Addr // of IPv6 VIPs
	// MaxPrefixes bounds the Adj-RIB-In for each family. A router should send
	// VIPs only; one that sends a full table must not eat the host's memory, so
	// above this the session is ended (cease 6/2, with the reason).
	MaxPrefixes int
}

// withDefaults returns a copy with every default filled in and lists sorted.
func (st Settings) withDefaults() Settings {
	if st.Port == 0 {
		st.Port = DefaultPort
	}
	st.RouterID = st.RouterID.Unmap()
	st.Neighbours = slices.Clone(st.Neighbours)
	for i := range st.Neighbours {
		n := &st.Neighbours[i]
		n.Address = n.Address.Unmap()
		if n.Name == "" {
			n.Name = n.Address.String()
		}
		if n.Port == 0 {
			n.Port = DefaultPort
		}
		if n.Hold == 0 {
			n.Hold = DefaultHold
		}
		if n.Keepalive == 0 {
			n.Keepalive = max(n.Hold/3, time.Second).Truncate(time.Second)
		}
		if n.ConnectRetry == 0 {
			n.ConnectRetry = DefaultConnectRetry
		}
		if n.MaxPrefixes == 0 {
			n.MaxPrefixes = DefaultMaxPrefixes
		}
	}
	st.Allowed = slices.Clone(st.Allowed)
	for i := range st.Allowed {
		st.Allowed[i] = st.Allowed[i].Masked()
	}
	slices.SortFunc(st.Allowed, netip.Prefix.Compare)
	st.Allowed = slices.Compact(st.Allowed)
	if len(st.ListenAddresses) == 0 {
		st.ListenAddresses = st.listenDefault()
	}
	return st
}

// listenDefault is the unspecified address of each family that a neighbour is
// reached by, so that a host without IPv6 can start.
func (st Settings) listenDefault() []netip.Addr {
	var v4, v6 bool
	for _, n := range st.Neighbours {
		v4 = v4 || n.Address.Is4()
		v6 = v6 || n.Address.Is6()
	}
	var all []netip.Addr
	if v4 || !v6 {
		all = append(all, netip.IPv4Unspecified())
	}
	if v6 {
		all = append(all, netip.IPv6Unspecified())
	}
	return all
}

// listens says whether the speaker has a listening socket.
func (st Settings) listens() bool { return st.Port > 0 }

// validate reports everything that GoBGP would accept and then fail on, or
// would refuse without saying why. st has its defaults.
func (st Settings) validate() error {
	var errs []error
	add := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if st.ASN == 0 {
		add("no ASN")
	}
	if !st.RouterID.Is4() || st.RouterID.IsUnspecified() {
		add("router id %v is not of IPv4 form", st.RouterID)
	}
	if st.Port < -1 || st.Port > 65535 {
		add("port %d is out of range", st.Port)
	}
	for _, p := range st.Allowed {
		switch {
		case !p.IsValid():
			add("an allowed prefix is not valid")
		case p.Bits() == 0:
			add("the default route %v can never be allowed", p)
		}
	}
	bare := map[netip.Addr]Neighbour{}
	for _, n := range st.Neighbours {
		for _, err := range n.validate(st) {
			errs = append(errs, fmt.Errorf("neighbour %s: %w", n.Name, err))
		}
		// Export statements match the address without its zone.
		if o, ok := bare[n.Address.WithZone("")]; ok {
			if o.Address == n.Address {
				add("neighbour %s: address %v is given twice", n.Name, n.Address)
			} else {
				add("neighbours %s (%v) and %s (%v) have the same link-local address, and GoBGP's export policy cannot tell them apart; give one of them another", o.Name, o.Address, n.Name, n.Address)
			}
		}
		bare[n.Address.WithZone("")] = n
	}
	if len(errs) > 0 {
		return fmt.Errorf("bgp settings: %w", errors.Join(errs...))
	}
	return nil
}

// linkLocal says whether n is reached by an IPv6 link-local address.
func (n Neighbour) linkLocal() bool { return n.Address.Is6() && n.Address.IsLinkLocalUnicast() }

// resolve fills in the own address of link-local sessions. GoBGP would take
// the first of the interface as well, but loses it because of its zone, and
// could then not set it as next hop.
func (st Settings) resolve() error {
	for i := range st.Neighbours {
		n := &st.Neighbours[i]
		if !n.linkLocal() {
			continue
		}
		if n.Source.IsValid() {
			n.Source = n.Source.WithZone(n.Address.Zone())
			continue
		}
		own, err := linkLocalOf(n.Address.Zone())
		if err != nil {
			return fmt.Errorf("bgp: neighbour %s: %w", n.Name, err)
		}
		n.Source = own
	}
	return nil
}

// linkLocalOf returns the first IPv6 link-local address of an interface, with
// its zone.
func linkLocalOf(zone string) (netip.Addr, error) {
	ifi, err := net.InterfaceByName(zone)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("interface %s: %w", zone, err)
	}
	addrs, err := ifi.Addrs()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("addresses of interface %s: %w", zone, err)
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is6() && p.Addr().IsLinkLocalUnicast() {
			return p.Addr().WithZone(zone), nil
		}
	}
	return netip.Addr{}, fmt.Errorf("interface %s has no IPv6 link-local address", zone)
}

// validate returns what is wrong with one neighbour.
func (n Neighbour) validate(st Settings) []error {
	var errs []error
	bad := func(when bool, format string, a ...any) {
		if when {
			errs = append(errs, fmt.Errorf(format, a...))
		}
	}
	linkLocal := n.linkLocal()
	bad(!n.Address.IsValid() || n.Address.IsUnspecified() || n.Address.IsMulticast(), "address %v is not of a host", n.Address)
	bad(linkLocal && n.Address.Zone() == "", "link-local address %v needs a zone (%v%%eth0)", n.Address, n.Address)
	bad(n.ASN == 0, "no ASN")
	bad(n.Port < 1 || n.Port > 65535, "port %d is out of range", n.Port)
	bad(!n.IPv4 && !n.IPv6, "no address family")
	bad(n.Hold < 3*time.Second || n.Hold > 65535*time.Second, "hold time %v is not between 3s and 65535s (RFC 4271)", n.Hold)
	bad(n.Keepalive < time.Second || n.Keepalive >= n.Hold, "keepalive %v is not between 1s and the hold time %v", n.Keepalive, n.Hold)
	bad(n.ConnectRetry < time.Second, "connect retry %v is below 1s", n.ConnectRetry)
	for _, d := range []time.Duration{n.Hold, n.Keepalive, n.ConnectRetry} {
		bad(d%time.Second != 0, "%v is not a number of whole seconds", d)
	}
	bad(n.MaxPrefixes < 1 || n.MaxPrefixes > math.MaxInt32, "a limit of %d prefixes makes no sense", n.MaxPrefixes)
	bad(n.Multihop < 0 || n.Multihop > 255, "multihop %d is not a TTL", n.Multihop)
	bad(n.TTLSecurity && n.Multihop > 1, "TTL security and multihop exclude each other")
	bad(len(n.Password) > maxPassword, "the password is longer than %d bytes", maxPassword)
	bad(strings.ContainsRune(n.Password, 0), "the password contains a NUL byte")
	bad(n.Password != "" && linkLocal, "GoBGP cannot use a password with a link-local address")
	bad(n.Source.IsValid() && n.Source.Is4() != n.Address.Is4(), "source %v and address %v are of different families", n.Source, n.Address)
	bad(linkLocal && n.Source.IsValid() && !n.Source.IsLinkLocalUnicast(), "source %v of a link-local session is not link-local", n.Source)
	bad(n.NextHop6.IsValid() && !n.NextHop6.Is6(), "next hop %v of IPv6 routes is not IPv6", n.NextHop6)
	bad(n.Passive && !st.listens(), "passive, and the speaker does not listen")
	return errs
}

// sameSession says whether a session of n can go on as one of m.
func (n Neighbour) sameSession(m Neighbour) bool {
	n.Name, m.Name = "", ""
	return n == m
}

// needsRestart returns ErrNeedsRestart with what differs, or nil.
func (st Settings) needsRestart(to Settings) error {
	what := ""
	switch {
	case st.ASN != to.ASN:
		what = fmt.Sprintf("ASN %d → %d", st.ASN, to.ASN)
	case st.RouterID != to.RouterID:
		what = fmt.Sprintf("router id %v → %v", st.RouterID, to.RouterID)
	case st.Port != to.Port:
		what = fmt.Sprintf("port %d → %d", st.Port, to.Port)
	case st.listens() && !slices.Equal(st.ListenAddresses, to.ListenAddresses):
		what = fmt.Sprintf("listen addresses %v → %v", st.ListenAddresses, to.ListenAddresses)
	default:
		return nil
	}
	return fmt.Errorf("%w: %s", ErrNeedsRestart, what)
}
