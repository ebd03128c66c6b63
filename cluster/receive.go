package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"
)

const (
	// lateAfter is how long a record that was only named may take to arrive
	// by itself, before it is asked for.
	lateAfter  = 50 * time.Millisecond
	refuteGap  = time.Second
	refuteMany = 3 // in a minute: more than a restart explains
	maxEchoes  = 8
	sightEvery = 500 * time.Millisecond
)

// late is a record that is known to exist.
type late struct {
	stamp stamp
	from  string
	at    time.Time
}

// receive reads what memberlist's callbacks put into the inbox.
func (c *Cluster) receive(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case b := <-c.inbox:
			c.handle(ctx, b)
		}
	}
}

func (c *Cluster) handle(ctx context.Context, b []byte) {
	m, err := decode(b, c.s.protocolMin, c.s.protocolMax)
	if err != nil {
		c.refuse(err)
		return
	}
	now := time.Now()
	c.mu.Lock()
	p := c.peers[m.from]
	if p == nil {
		if m.from != c.s.Self {
			c.problem(ProblemUnknownNode, cut(m.from, maxName), "", fmt.Sprintf("a message from %q, which is not in the configuration", m.from))
		}
		c.mu.Unlock()
		return
	}
	p.heard = now
	c.mu.Unlock()
	switch m.kind {
	case messageRecords:
		c.takeRecords(m, now)
	case messageDigest:
		c.takeDigest(p, m, now)
	case messageHello:
		c.takeHello(p, m)
	case messageSame:
		c.takeSame(p, m, now)
	case messageWant:
		c.takeWant(p, m)
	case messageNotice:
		c.takeNotice(m, now)
	case messageKeyChange:
		c.takeKeyChange(p, m)
	case messageKeyAnswer:
		c.takeKeyAnswer(m)
	case messageAsk:
		c.takeAsk(p, m)
	case messageAnswer:
		c.takeAnswer(m)
	default:
		c.log.DebugContext(ctx, "cluster message of an unknown kind", "node", m.from, "kind", int(m.kind))
	}
}

func (c *Cluster) refuse(err error) {
	code := ProblemBadMessage
	var v *versionError
	if errors.As(err, &v) {
		code = ProblemProtocol
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.problem(code, "", "", cut(err.Error(), maxErrorText))
}

// takeRecords reads bodies without the lock, and only those that are news.
func (c *Cluster) takeRecords(m *message, now time.Time) {
	news := false
	for i := range m.records {
		r := &m.records[i]
		c.mu.Lock()
		use := c.admitRecord(r, now)
		c.mu.Unlock()
		if !use {
			continue
		}
		value, err := c.codec.readBody(r)
		if err != nil {
			c.refuse(fmt.Errorf("record %q from %s: %w", r.key.name, m.from, err))
			continue
		}
		c.mu.Lock()
		if r.key.kind != recordIntent || c.roomForIntent(r.key) {
			c.accept(*r, value, now)
			news = true
		}
		c.mu.Unlock()
	}
	if news {
		c.mu.Lock()
		c.checkSync(now)
		c.mu.Unlock()
	}
}

// admitRecord says whether a record is to be looked at.
func (c *Cluster) admitRecord(r *record, now time.Time) bool {
	switch {
	case !r.key.kind.known():
		return false
	case r.key.kind.ofNode():
		if r.ver.origin != r.key.name || r.ver.hi>>lifeBits >= maxLifeSeen {
			return false
		}
		if r.key.name == c.s.Self {
			c.refute(r.stamp, now)
			return false
		}
		if c.peers[r.key.name] == nil {
			return false
		}
	case r.ver.hi > maxLamport || r.ver.hi > c.lamport+maxLeap:
		return false
	}
	if c.store.wants(r.stamp) {
		return true
	}
	if c.store.correct(*r, now) {
		c.dirty = true
		c.poke()
	}
	// Equal versions with other bytes: the larger bytes win, everywhere.
	e := c.store.entries[r.key]
	return e.ver == r.ver && r.newer(e.record)
}

// refute answers somebody who knows something later of this node than it said
// itself in this life. The state directory was lost, or there are two of this
// name; the latter shows by not ending.
func (c *Cluster) refute(s stamp, now time.Time) {
	own := c.store.entries[s.key]
	if s.ver.hi < c.incarnation || own != nil && s.ver.compare(own.ver) <= 0 {
		return
	}
	if s.ver.hi>>lifeBits+1 >= maxLifeSeen || now.Sub(c.refutedAt) < refuteGap {
		return
	}
	if now.Sub(c.refutedAt) > time.Minute {
		c.refutes = 0
	}
	c.refutes++
	c.refutedAt = now
	if c.refutes >= refuteMany {
		c.problem(ProblemNameConflict, c.s.Self, "", "another node goes on publishing under the name of this one")
	}
	life := s.ver.hi>>lifeBits + 1
	c.noted(slog.LevelWarn, "cluster incarnation raised", "seen", s.ver.hi>>lifeBits, "now", life)
	c.incarnation = life<<lifeBits | uint64(rand.Uint32())
	c.sequence, c.ownSight = 0, nil
	if c.ownText != nil {
		c.ownText = nil
		if err := c.publish(c.own); err != nil {
			c.noted(slog.LevelError, "cluster state not published", "error", err)
		}
	}
	c.spawn(func() {
		if err := c.disk.saveLife(life); err != nil {
			c.refuseDisk(err)
		}
		// It queues the new meta data and then waits, which nobody needs.
		if err := c.list.UpdateNode(time.Millisecond); err != nil {
			c.log.Debug("cluster meta data is on its way", "error", err)
		}
	})
}

func (c *Cluster) refuseDisk(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.problem(ProblemDisk, "", filepath.Join(c.s.Dir, incarnationFile), err.Error())
}

// spawn runs what must not run under the lock. It is only called by the
// receiver, so there is one more in the group when it is.
func (c *Cluster) spawn(f func()) {
	if c.ended || c.run == nil {
		return
	}
	c.workers.Add(1)
	go func() {
		defer c.workers.Done()
		f()
	}()
}

func (c *Cluster) takeDigest(p *peer, m *message, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.nonce != 0 {
		// Only an answer is young enough to compare clocks by.
		p.skew, p.hasSkew = m.clock.Sub(c.s.Wall()), true
	}
	has := make(map[recordKey]version, len(m.stamps))
	for _, s := range m.stamps {
		has[s.key] = s.ver
	}
	list := c.concerning(m.stamps, now)
	if m.nonce == c.sync.nonce {
		p.digest = slices.DeleteFunc(slices.Clone(list), func(s stamp) bool { return !s.key.kind.vital() })
		c.checkPeer(p, now)
	}
	c.await(list, m.from, now)
	for _, e := range c.store.entries {
		s := e.stamp
		// What others made they can tell as well; with intents nothing is
		// left to chance.
		if s.ver.origin != c.s.Self && s.key.kind != recordIntent {
			continue
		}
		if v, ok := has[s.key]; !ok || s.ver.compare(v) > 0 {
			p.give(s.key)
		}
	}
}

// takeSame: what the peer had when it answered, this node had when it asked.
func (c *Cluster) takeSame(p *peer, m *message, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.skew, p.hasSkew = m.clock.Sub(c.s.Wall()), true
	if m.nonce == c.sync.nonce {
		p.digest = []stamp{}
		c.checkPeer(p, now)
	}
}

func (c *Cluster) takeHello(p *peer, m *message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(p.out.echo) < maxEchoes {
		p.out.echo = append(p.out.echo, echo{m.nonce, m.sum})
	}
	p.rouse()
}

func (c *Cluster) takeWant(p *peer, m *message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range m.stamps {
		if c.store.entries[s.key] != nil {
			p.give(s.key)
		}
	}
}

func (c *Cluster) takeNotice(m *message, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.await(c.concerning(m.stamps, now), m.from, now)
}

// concerning are those of the stamps that this node may be told of. What is
// said of itself it answers.
func (c *Cluster) concerning(list []stamp, now time.Time) []stamp {
	keep := make([]stamp, 0, len(list))
	for _, s := range list {
		switch {
		case !s.key.kind.known():
		case !s.key.kind.ofNode():
			keep = append(keep, s)
		case s.key.name == c.s.Self:
			c.refute(s, now)
		case c.peers[s.key.name] != nil:
			keep = append(keep, s)
		}
	}
	return keep
}

// await remembers what is missing. Most of it comes by itself, from those who
// made it; if it were asked for at once, a node that starts among many would
// be sent everything by each of them.
func (c *Cluster) await(list []stamp, from string, now time.Time) {
	for _, s := range c.store.missing(list) {
		if d, ok := c.due[s.key]; (!ok || s.ver.compare(d.stamp.ver) > 0) && len(c.due) < maxStamps {
			c.due[s.key] = late{s, from, now}
		}
	}
}

// askForLate asks for records that were named and did not come.
func (c *Cluster) askForLate(now time.Time) {
	for k, d := range c.due {
		switch {
		case !c.store.wants(d.stamp):
			delete(c.due, k)
		case now.Sub(d.at) >= lateAfter:
			delete(c.due, k)
			if p := c.peers[d.from]; p != nil && p.alive {
				p.want([]stamp{d.stamp})
			}
		}
	}
}

// publishSight tells the others whom this node sees, when that has changed, but
// not too often: when nodes come and go, the sights of all change.
func (c *Cluster) publishSight(now time.Time) {
	if now.Sub(c.sightAt) < sightEvery*max(1, time.Duration(len(c.nodes))/rejoinNodes) || c.left {
		return
	}
	s := &sight{Certainty: c.sync.certainty, Keys: c.keyIDs()}
	for _, n := range c.nodes {
		if p := c.peers[n.Name]; p != nil && p.alive {
			s.Sees = append(s.Sees, n.Name)
		}
	}
	text, err := json.Marshal(s)
	if err != nil || string(text) == string(c.ownSight) {
		return
	}
	if err := c.put(recordSight, text, s); err != nil {
		c.problem(ProblemBadMessage, c.s.Self, "", err.Error())
		return
	}
	c.ownSight, c.sightAt = text, now
}

func (c *Cluster) keyIDs() []string {
	if c.keyring == nil {
		return nil
	}
	var ids []string
	for _, k := range c.keyring.GetKeys() {
		ids = append(ids, KeyID(k))
	}
	return ids
}
