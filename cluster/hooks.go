package cluster

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"
)

// hooks are memberlist's callbacks. Most are called with its lock held: they
// copy what they are given, take the Cluster's lock for a moment, and never
// call memberlist.
type hooks struct{ c *Cluster }

var (
	_ memberlist.Delegate         = (*hooks)(nil)
	_ memberlist.EventDelegate    = (*hooks)(nil)
	_ memberlist.ConflictDelegate = (*hooks)(nil)
	_ memberlist.AliveDelegate    = (*hooks)(nil)
	_ memberlist.PingDelegate     = (*hooks)(nil)
)

// metaMagic begins a node's meta data: protocol versions, incarnation and
// flags. It has at most 14 bytes; memberlist panics above 512. Bytes after the
// last known field are ignored, and fields that are not there are 0.
const metaMagic = 'R'

// Flags of meta data: what a node can do besides its protocol version.
const metaAnswers = 1 << iota // it answers questions, see Ask

type meta struct {
	low, high   uint8
	incarnation uint64
	flags       uint8
}

func (m meta) encode() []byte {
	return append(binary.AppendUvarint([]byte{metaMagic, m.low, m.high}, m.incarnation), m.flags)
}

func parseMeta(b []byte) (meta, bool) {
	if len(b) < 4 || b[0] != metaMagic || b[1] > b[2] {
		return meta{}, false
	}
	inc, n := binary.Uvarint(b[3:])
	if n <= 0 {
		return meta{}, false
	}
	m := meta{low: b[1], high: b[2], incarnation: inc}
	if rest := b[3+n:]; len(rest) > 0 {
		m.flags = rest[0]
	}
	return m, true
}

// NodeMeta implements memberlist.Delegate.
func (h *hooks) NodeMeta(int) []byte {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	m := meta{low: h.c.s.protocolMin, high: h.c.s.protocolMax, incarnation: h.c.incarnation}
	if h.c.s.Answer != nil {
		m.flags |= metaAnswers
	}
	return m.encode()
}

// NotifyMsg implements memberlist.Delegate. The bytes may change after it
// returns. What does not fit is lost here and found by the next digest.
func (h *hooks) NotifyMsg(b []byte) { h.take(b) }

// MergeRemoteState implements memberlist.Delegate.
func (h *hooks) MergeRemoteState(b []byte, _ bool) { h.take(b) }

func (h *hooks) take(b []byte) {
	if len(b) > maxMessage {
		b = b[:1] // is refused, and counted, like anything else that cannot be read
	}
	select {
	case h.c.inbox <- append([]byte(nil), b...):
	default:
		h.c.mu.Lock()
		defer h.c.mu.Unlock()
		h.c.dropped++
		h.c.problem(ProblemOverflow, "", "", "messages come faster than they are read; the next digests make up for them")
	}
}

// GetBroadcasts implements memberlist.Delegate.
func (h *hooks) GetBroadcasts(overhead, limit int) [][]byte {
	return h.c.queue.GetBroadcasts(overhead, limit)
}

// LocalState implements memberlist.Delegate: what this node has, not the
// things themselves. Whoever lacks something asks for it.
func (h *hooks) LocalState(bool) []byte {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	return h.c.digest(0).encode(h.c.speak())
}

// NotifyAlive implements memberlist.AliveDelegate: only configured names at
// their configured addresses are admitted.
func (h *hooks) NotifyAlive(n *memberlist.Node) error {
	c := h.c
	addr, err := toAddr(n.Addr)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		err = c.admit(n.Name, netip.AddrPortFrom(addr, n.Port))
	}
	return err
}

func (c *Cluster) admit(name string, at netip.AddrPort) error {
	for _, n := range c.nodes {
		if n.Name != name {
			continue
		}
		want := netip.AddrPortFrom(n.Address.Unmap(), uint16(c.s.Port))
		if want == at {
			return nil
		}
		err := fmt.Errorf("node %s is at %s, by the configuration at %s", name, at, want)
		c.problem(ProblemNameConflict, name, at.String(), err.Error())
		return err
	}
	err := fmt.Errorf("node %s at %s is not in the configuration", name, at)
	c.problem(ProblemUnknownNode, name, at.String(), err.Error())
	return err
}

// NotifyConflict implements memberlist.ConflictDelegate.
func (h *hooks) NotifyConflict(old, other *memberlist.Node) {
	text := fmt.Sprintf("node %s is at %s and at %s", old.Name, old.Address(), other.Address())
	at, name := other.Address(), old.Name
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	h.c.problem(ProblemNameConflict, name, at, text)
}

// NotifyJoin implements memberlist.EventDelegate.
func (h *hooks) NotifyJoin(n *memberlist.Node) { h.here(n) }

// NotifyUpdate implements memberlist.EventDelegate: a node that was started
// again before its end was noticed shows as an update.
func (h *hooks) NotifyUpdate(n *memberlist.Node) { h.here(n) }

func (h *hooks) here(n *memberlist.Node) {
	c := h.c
	m, ok := parseMeta(n.Meta)
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.peers[n.Name]
	if p == nil || c.ended {
		return
	}
	again := p.alive && p.meta.incarnation != m.incarnation
	if !p.alive || again {
		p.since = c.s.Wall()
		c.noted(slog.LevelInfo, "cluster node is alive", "node", n.Name, "restarted", again)
	}
	p.alive, p.seen = true, true
	p.aliveAt = time.Now()
	p.meta, p.hasMeta = m, ok
	p.outOfStep()
	if !ok || m.low > c.s.protocolMax || m.high < c.s.protocolMin {
		c.problem(ProblemProtocol, n.Name, n.Address(), fmt.Sprintf(
			"it speaks protocol versions %d to %d, this node %d to %d", m.low, m.high, c.s.protocolMin, c.s.protocolMax))
	}
	for _, r := range c.store.entries {
		if r.ver.origin == c.s.Self {
			p.give(r.key)
		}
	}
	p.out.hello = true
	p.rouse()
	c.poke()
	c.rouse()
}

// NotifyLeave implements memberlist.EventDelegate. It comes for a death and
// for a farewell alike, and, from timers that were pending, after Shutdown.
func (h *hooks) NotifyLeave(n *memberlist.Node) {
	c := h.c
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.peers[n.Name]
	if p == nil || c.ended || !p.alive {
		return
	}
	p.alive = false
	p.since = c.s.Wall()
	p.outOfStep()
	p.out.clear()
	c.unask(n.Name)
	level := slog.LevelWarn
	if c.liveness(p) == Left {
		level = slog.LevelInfo
	}
	c.noted(level, "cluster node is gone", "node", n.Name, "how", c.liveness(p), "silent", time.Since(p.heard).Round(time.Millisecond))
	c.poke()
	c.rouse()
}

// AckPayload implements memberlist.PingDelegate.
func (h *hooks) AckPayload() []byte { return nil }

// NotifyPingComplete implements memberlist.PingDelegate: an answer over UDP,
// from the node itself.
func (h *hooks) NotifyPingComplete(n *memberlist.Node, rtt time.Duration, _ []byte) {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	if p := h.c.peers[n.Name]; p != nil {
		p.pong, p.rtt = time.Now(), rtt
		p.heard = p.pong
	}
}

// broadcast is a message in memberlist's gossip. A later one about the same
// thing replaces it.
type broadcast struct {
	key recordKey
	b   []byte
}

// Invalidates implements memberlist.Broadcast.
func (b *broadcast) Invalidates(o memberlist.Broadcast) bool {
	other, ok := o.(*broadcast)
	return ok && other.key == b.key
}

// Name implements memberlist.NamedBroadcast, which saves the search.
func (b *broadcast) Name() string { return string('0'+rune(b.key.kind)) + b.key.name }

// Message implements memberlist.Broadcast.
func (b *broadcast) Message() []byte { return b.b }

// Finished implements memberlist.Broadcast.
func (b *broadcast) Finished() {}
