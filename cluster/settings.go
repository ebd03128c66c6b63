package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"
)

// maxNodes is how many nodes a cluster may have.
const maxNodes = 256

// maxKeys is how many keys a ring may have.
const maxKeys = 16

// Node is a configured node.
type Node struct {
	Name    string
	Site    string
	Address netip.Addr
}

// Settings are what a Cluster needs to know. Cluster, Self, Nodes and Port
// must be given.
type Settings struct {
	Cluster string // the cluster's name: others are refused
	Self    string // one of Nodes
	Nodes   []Node // all that are configured; nobody else is admitted
	Port    int    // UDP and TCP, the same on every node

	// BindAddress is where to listen and where connections come from; by
	// default the address of Self. With the address of Self a daemon that was
	// started under the name of another host fails here.
	BindAddress netip.Addr

	// Keys of 16, 24 or 32 bytes (AES-GCM), see LoadKeys; the first encrypts.
	// Without keys the traffic is neither secret nor authenticated.
	Keys [][]byte
	// SaveKeys, when set, keeps the ring whenever RotateKey changes it, on
	// every node. A node that cannot save refuses the change.
	SaveKeys func(keys [][]byte) error

	// Answer, when set, makes the JSON that answers a question of another node
	// (Ask), or an error whose text is sent. It is called for up to four
	// questions at a time, each in a goroutine of its own, and must return soon
	// after ctx ends, which is in 3 s.
	Answer func(ctx context.Context, from, subject, argument string) ([]byte, error)

	// Detection is how soon a silent node is declared dead: fast (default),
	// lan or wan. The figures are in DESIGN.md.
	Detection string
	// SettleTimeout is how long a starting node waits for those it has not
	// heard of; by default 3 s, 10 s or 20 s with the three detections.
	SettleTimeout time.Duration

	// Dir is the state directory for the incarnation and the intents; with ""
	// nothing is kept over a restart.
	Dir string

	// Wall is the wall clock. It is only shown and compared, never decided
	// by; nil is time.Now.
	Wall func() time.Time

	// Transport replaces UDP and TCP, for tests.
	Transport memberlist.Transport

	protocolMin, protocolMax uint8 // for tests of an upgrade; 0 is the constant
}

// profile is what a detection means.
type profile struct {
	probe, timeout, gossip  time.Duration
	suspicion, suspicionMax int
	awareness               int
	pushPull                time.Duration
	tcp                     time.Duration // to connect, and to exchange a message
	rejoin                  time.Duration // between attempts to reach a node that is not alive
	settle                  time.Duration
	stall                   time.Duration // not run for so long: others may have gone on without this node
}

// profileOf: the times are measured, see DESIGN.md.
func profileOf(detection string) (profile, bool) {
	switch detection {
	case "", "fast":
		return profile{
			probe: 100 * time.Millisecond, timeout: 50 * time.Millisecond, gossip: 20 * time.Millisecond,
			suspicion: 3, suspicionMax: 2, awareness: 3, pushPull: 5 * time.Second,
			tcp: time.Second, rejoin: time.Second, settle: 3 * time.Second, stall: 500 * time.Millisecond,
		}, true
	case "lan":
		return profile{
			probe: 300 * time.Millisecond, timeout: 150 * time.Millisecond, gossip: 50 * time.Millisecond,
			suspicion: 4, suspicionMax: 3, awareness: 4, pushPull: 5 * time.Second,
			tcp: 3 * time.Second, rejoin: 2 * time.Second, settle: 10 * time.Second, stall: 1500 * time.Millisecond,
		}, true
	case "wan":
		return profile{
			probe: time.Second, timeout: 500 * time.Millisecond, gossip: 100 * time.Millisecond,
			suspicion: 5, suspicionMax: 3, awareness: 4, pushPull: 10 * time.Second,
			tcp: 5 * time.Second, rejoin: 5 * time.Second, settle: 20 * time.Second, stall: 5 * time.Second,
		}, true
	default:
		return profile{}, false
	}
}

// complete fills in the defaults and says what is wrong.
func (s *Settings) complete() (profile, error) {
	p, ok := profileOf(s.Detection)
	if !ok {
		return p, fmt.Errorf("detection %q: must be fast, lan or wan", s.Detection)
	}
	if s.Cluster == "" || len(s.Cluster) > maxName {
		return p, fmt.Errorf("cluster name %.20q: must have 1 to %d bytes", s.Cluster, maxName)
	}
	if s.Port < 1 || s.Port > 65535 {
		return p, fmt.Errorf("port %d: must be 1 to 65535", s.Port)
	}
	if err := checkNodes(s.Nodes, s.Self); err != nil {
		return p, err
	}
	if len(s.Keys) > maxKeys {
		return p, fmt.Errorf("%d keys: at most %d", len(s.Keys), maxKeys)
	}
	if !s.BindAddress.IsValid() {
		s.BindAddress = s.self().Address
	}
	if s.SettleTimeout > 0 {
		p.settle = s.SettleTimeout
	}
	if s.Wall == nil {
		s.Wall = time.Now
	}
	if s.protocolMax == 0 {
		s.protocolMin, s.protocolMax = protocolMin, protocolMax
	}
	return p, nil
}

func (s *Settings) self() Node {
	for _, n := range s.Nodes {
		if n.Name == s.Self {
			return n
		}
	}
	return Node{}
}

func checkNodes(nodes []Node, self string) error {
	if len(nodes) > maxNodes {
		return fmt.Errorf("%d nodes: at most %d", len(nodes), maxNodes)
	}
	names, addrs := map[string]bool{}, map[netip.Addr]string{}
	for _, n := range nodes {
		a := n.Address.Unmap()
		switch {
		case n.Name == "" || len(n.Name) > maxName:
			return fmt.Errorf("node name %.20q: must have 1 to %d bytes", n.Name, maxName)
		case names[n.Name]:
			return fmt.Errorf("node %s is there twice", n.Name)
		case !a.IsValid() || a.IsUnspecified() || a.Zone() != "":
			return fmt.Errorf("node %s: %q is not an address for gossip", n.Name, n.Address)
		case addrs[a] != "":
			return fmt.Errorf("nodes %s and %s have the same address %s", addrs[a], n.Name, a)
		}
		names[n.Name], addrs[a] = true, n.Name
	}
	if !names[self] {
		return fmt.Errorf("this node, %q, is not among the configured nodes", self)
	}
	return nil
}

// memberlistConfig makes memberlist's configuration. Why each value is as it
// is, is told in DESIGN.md.
func (c *Cluster) memberlistConfig() (*memberlist.Config, error) {
	p, self := c.prof, c.s.self()
	m := memberlist.DefaultLANConfig()
	m.Name = c.s.Self
	m.Label = c.s.Cluster
	m.BindAddr, m.BindPort = c.s.BindAddress.String(), c.s.Port
	m.AdvertiseAddr, m.AdvertisePort = self.Address.String(), c.s.Port
	m.ProbeInterval, m.ProbeTimeout, m.GossipInterval = p.probe, p.timeout, p.gossip
	m.SuspicionMult, m.SuspicionMaxTimeoutMult = p.suspicion, p.suspicionMax
	m.AwarenessMaxMultiplier = p.awareness
	m.RetransmitMult = 8
	m.PushPullInterval, m.TCPTimeout = p.pushPull, p.tcp
	m.DeadNodeReclaimTime = time.Millisecond
	m.EnableCompression = false // bodies are deflated already
	m.Keyring = c.keyring
	m.Delegate, m.Events, m.Conflict, m.Alive, m.Ping = c.hooks, c.hooks, c.hooks, c.hooks, c.hooks
	m.Logger = c.libraryLog()
	m.Transport = c.s.Transport
	if m.Transport == nil {
		t, err := listen(c.s.BindAddress, c.s.Port, m.Logger)
		if err != nil {
			return nil, fmt.Errorf("listen on %s port %d (is this host really node %s?): %w",
				c.s.BindAddress, c.s.Port, c.s.Self, err)
		}
		m.Transport = t
	}
	return m, nil
}

// ring makes the key ring. An empty one means no encryption.
func ring(keys [][]byte) (*memberlist.Keyring, error) {
	if len(keys) == 0 {
		return nil, nil //nolint:nilnil // no ring is memberlist's way to say: no encryption
	}
	r, err := memberlist.NewKeyring(keys, keys[0])
	if err != nil {
		return nil, fmt.Errorf("make the key ring: %w", err)
	}
	return r, nil
}

var errAddress = errors.New("not an IP address")

func toAddr(ip net.IP) (netip.Addr, error) {
	a, ok := netip.AddrFromSlice(ip)
	if !ok {
		return netip.Addr{}, errAddress
	}
	return a.Unmap(), nil
}
