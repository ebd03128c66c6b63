package cluster

import (
	"context"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/memberlist"
)

const (
	batchBytes    = 512 << 10 // of bodies in one message
	helloEvery    = 300 * time.Millisecond
	helloAnswered = time.Second
	// startSpread for each configured node is the time over which a node that
	// starts makes its first attempts to reach others.
	startSpread = 2 * time.Millisecond
	// rejoinNodes is from how many nodes on attempts become rarer, so that
	// their sum does not grow with the square.
	rejoinNodes = 16
	// After so many hellos in vain the peer has what this node cannot take.
	helloMany   = 10
	helloRarely = 5 * time.Second
)

// peer is another configured node. All of it is guarded by the Cluster's lock.
type peer struct {
	node    Node
	alive   bool
	seen    bool // was alive since this node started
	since   time.Time
	aliveAt time.Time // monotonic
	meta    meta
	hasMeta bool

	heard   time.Time // monotonic: anything from the node itself
	pong    time.Time // monotonic: an answer over UDP
	rtt     time.Duration
	skew    time.Duration // its clock against this node's
	hasSkew bool
	contact string // the last failure to reach it

	synced bool    // this node has all that the peer had
	digest []stamp // what it had, while this node does not have all of it
	asked  time.Time
	hellos int

	out    outbox
	busy   bool // the worker is sending
	poke   chan struct{}
	cancel context.CancelFunc
}

// outbox is what is to be sent. It names records instead of holding them, so
// that a slow peer is sent the latest and nothing piles up.
type outbox struct {
	hello bool
	echo  []echo
	want  map[recordKey]stamp
	give  map[recordKey]bool
	ops   []*message
}

// echo is a hello to be answered.
type echo struct{ nonce, sum uint64 }

func (o *outbox) empty() bool {
	return !o.hello && len(o.echo)+len(o.want)+len(o.give)+len(o.ops) == 0
}

func (o *outbox) clear() { *o = outbox{} }

func newPeer(n Node) *peer { return &peer{node: n, poke: make(chan struct{}, 1)} }

func (p *peer) rouse() {
	select {
	case p.poke <- struct{}{}:
	default:
	}
}

// give puts a record into the outbox.
func (p *peer) give(k recordKey) {
	if !p.alive {
		return
	}
	if p.out.give == nil {
		p.out.give = map[recordKey]bool{}
	}
	p.out.give[k] = true
	p.rouse()
}

func (p *peer) want(list []stamp) {
	if p.out.want == nil {
		p.out.want = map[recordKey]stamp{}
	}
	for _, s := range list {
		p.out.want[s.key] = s
	}
	p.rouse()
}

// outOfStep says that it is not known what the peer has.
func (p *peer) outOfStep() {
	p.synced, p.digest, p.hellos = false, nil, 0
}

// understands says whether there is a protocol version for both.
func (c *Cluster) understands(p *peer) bool {
	return p.hasMeta && p.meta.low <= c.s.protocolMax && p.meta.high >= c.s.protocolMin
}

// speak is the highest protocol version that all live nodes understand, as far
// as this node can go.
func (c *Cluster) speak() uint8 {
	v := c.s.protocolMax
	for _, p := range c.peers {
		if p.alive && c.understands(p) {
			v = min(v, p.meta.high)
		}
	}
	return v
}

// SetNodes changes the configured nodes, as after a reload. Self must be among
// them with the address it has.
func (c *Cluster) SetNodes(nodes []Node) error {
	nodes = slices.Clone(nodes)
	if err := checkNodes(nodes, c.s.Self); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setNodes(nodes)
	return nil
}

func (c *Cluster) setNodes(nodes []Node) {
	c.nodes = nodes
	c.size.Store(int32(len(nodes)))
	old := c.peers
	c.peers = map[string]*peer{}
	for _, n := range nodes {
		if n.Name == c.s.Self {
			continue
		}
		p := old[n.Name]
		if p == nil || p.node.Address != n.Address {
			p = newPeer(n)
			if c.run != nil {
				c.startWorker(p)
			}
		} else {
			delete(old, n.Name)
		}
		p.node = n
		c.peers[n.Name] = p
	}
	for name, p := range old {
		if p.cancel != nil {
			p.cancel()
		}
		if c.peers[name] == nil {
			delete(c.store.entries, recordKey{recordState, name})
			delete(c.store.entries, recordKey{recordSight, name})
		}
	}
	c.poke()
	c.rouse()
}

func (c *Cluster) startWorker(p *peer) {
	if c.ended {
		return
	}
	ctx, cancel := context.WithCancel(c.run)
	p.cancel = cancel
	c.workers.Add(1)
	go func() {
		defer c.workers.Done()
		defer cancel()
		c.work(ctx, p)
	}()
}

// work is the peer's worker: it sends what is in the outbox, and as long as
// the peer is not alive it tries to reach it, for ever. memberlist forgets the
// dead and never calls again.
func (c *Cluster) work(ctx context.Context, p *peer) {
	// The first that is reached tells of the others, so not all at once.
	again := time.NewTimer(rand.N(time.Duration(c.size.Load()) * startSpread))
	defer again.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-p.poke:
			c.flush(p)
		case <-again.C:
			c.rejoin(p)
			again.Reset(c.prof.rejoin * max(1, time.Duration(c.size.Load())/rejoinNodes))
		}
	}
}

func (c *Cluster) rejoin(p *peer) {
	c.mu.Lock()
	skip := p.alive || c.left || c.ended
	node := p.node
	c.mu.Unlock()
	if skip {
		return
	}
	_, err := c.list.Join([]string{node.Name + "/" + net.JoinHostPort(node.Address.String(), strconv.Itoa(c.s.Port))})
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		p.contact = ""
		return
	}
	p.contact = reasonOf(err)
	if code, text := classify(p.contact); code != "" {
		c.problem(code, node.Name, node.Address.String(), text)
	}
}

// reasonOf is the last line of memberlist's list of errors.
func reasonOf(err error) string {
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	text := strings.TrimLeft(lines[len(lines)-1], "\t *")
	if strings.HasSuffix(text, ": EOF") {
		text += " (it closes the connection: another cluster's name?)"
	}
	return cut(text, maxErrorText)
}

// flush sends what is in the outbox. An error is no more than noted: what was
// lost is found by comparing digests.
func (c *Cluster) flush(p *peer) {
	c.mu.Lock()
	if !p.alive {
		// A hello is answered all the same: it may be here before the news
		// that the peer is alive.
		p.out = outbox{echo: p.out.echo}
	}
	if c.ended || p.out.empty() {
		p.out.clear()
		c.mu.Unlock()
		c.signalFlushed()
		return
	}
	list := c.compose(p)
	p.out.clear()
	p.busy = true
	reliable := c.udpLost(p, time.Now())
	to := c.memberOf(p)
	c.mu.Unlock()
	var failed error
	for _, m := range list {
		if err := c.send(to, m.b, reliable || m.reliable); err != nil {
			failed = err
		}
	}
	c.mu.Lock()
	p.busy = false
	if failed != nil {
		p.contact = reasonOf(failed)
		p.outOfStep()
	}
	c.mu.Unlock()
	c.signalFlushed()
}

// memberOf is a peer as memberlist knows it.
func (c *Cluster) memberOf(p *peer) *memberlist.Node {
	return &memberlist.Node{Name: p.node.Name, Addr: p.node.Address.Unmap().AsSlice(), Port: uint16(c.s.Port)}
}

func (c *Cluster) signalFlushed() {
	select {
	case c.flushed <- struct{}{}:
	default:
	}
}

func (c *Cluster) send(to *memberlist.Node, b []byte, reliable bool) error {
	if reliable || len(b) > c.packetLimit() {
		return c.list.SendReliable(to, b)
	}
	return c.list.SendBestEffort(to, b)
}

// udpLost says that the peer is alive but has not answered over UDP for much
// longer than it should take. Then everything goes over TCP.
func (c *Cluster) udpLost(p *peer, now time.Time) bool {
	if !p.alive || len(c.peers) == 0 {
		return false
	}
	round := c.prof.probe*time.Duration(len(c.peers))*3 + time.Second
	last := p.aliveAt
	if p.pong.After(last) {
		last = p.pong
	}
	return now.Sub(last) > round || p.hellos > 2
}

// outgoing is a message as it goes to memberlist.
type outgoing struct {
	b        []byte
	reliable bool // over TCP, even if it fits a packet
}

// compose makes messages of the outbox.
func (c *Cluster) compose(p *peer) []outgoing {
	v, now := c.speak(), time.Now()
	var list []outgoing
	add := func(m *message) {
		m.from = c.s.Self
		list = append(list, outgoing{m.encode(v), m.kind.answered()})
	}
	// The records first: they are what is waited for.
	m, size := &message{kind: messageRecords}, 0
	for _, k := range slices.SortedFunc(maps.Keys(p.out.give), recordKey.compare) {
		r, ok := c.store.get(k, now)
		if !ok {
			continue
		}
		if size > 0 && size+len(r.body) > batchBytes {
			add(m)
			m, size = &message{kind: messageRecords}, 0
		}
		m.records = append(m.records, r)
		size += len(r.body) + minRecordBytes
	}
	if len(m.records) > 0 {
		add(m)
	}
	for _, op := range p.out.ops {
		add(op)
	}
	var sum uint64
	if p.out.hello || len(p.out.echo) > 0 {
		sum = c.store.sum()
	}
	for _, e := range p.out.echo {
		if e.sum == sum {
			add(&message{kind: messageSame, nonce: e.nonce, clock: c.s.Wall()})
		} else {
			add(c.digest(e.nonce))
		}
	}
	if len(p.out.want) > 0 {
		add(&message{kind: messageWant, stamps: slices.Collect(maps.Values(p.out.want))})
	}
	if p.out.hello {
		add(&message{kind: messageHello, nonce: c.sync.nonce, sum: sum})
	}
	return list
}

// digest is all that this node has.
func (c *Cluster) digest(nonce uint64) *message {
	return &message{
		kind: messageDigest, from: c.s.Self, nonce: nonce,
		clock: c.s.Wall(), stamps: c.store.stamps(),
	}
}
