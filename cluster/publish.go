package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Publish makes this node's state known, whole. It does not wait for anything
// on the network. A state that equals the last one costs nothing.
func (c *Cluster) Publish(s State) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.publish(s)
}

func (c *Cluster) publish(s State) error {
	body, text, err := s.own(c.leaving)
	if err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	if string(text) == string(c.ownText) {
		return nil
	}
	if err := c.put(recordState, text, body); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	c.own, c.ownText = body.State, text
	return nil
}

// put makes a record of this node and spreads it.
func (c *Cluster) put(k recordKind, text []byte, value any) error {
	body, err := c.codec.pack(text)
	if err != nil {
		return err
	}
	c.sequence++
	c.accept(record{
		stamp: stamp{recordKey{k, c.s.Self}, version{c.incarnation, c.sequence, c.s.Self}},
		body:  body,
	}, value, time.Now())
	return nil
}

// accept merges a record that was checked and spreads it when it is news: to
// all at once when it was made here, and by gossip.
func (c *Cluster) accept(r record, value any, now time.Time) {
	if !c.store.merge(r, value, now) {
		if c.store.correct(r, now) {
			c.dirty = true
			c.poke()
		}
		return
	}
	delete(c.due, r.key)
	if r.key.kind == recordIntent {
		c.lamport = max(c.lamport, r.ver.hi)
		c.dirty = true
	}
	if r.ver.origin == c.s.Self && r.key.kind != recordSight {
		for _, p := range c.peers {
			p.give(r.key)
		}
	}
	c.gossip(r)
	c.poke()
	c.rouse()
}

// gossip queues a record for those that the direct message does not reach. One
// that does not fit a packet is only named: whoever lacks it asks.
func (c *Cluster) gossip(r record) {
	m := &message{kind: messageRecords, from: c.s.Self, records: []record{r}}
	b := m.encode(c.speak())
	if len(b) > c.packetLimit() {
		m = &message{kind: messageNotice, from: c.s.Self, stamps: []stamp{r.stamp}}
		b = m.encode(c.speak())
	}
	c.queue.QueueBroadcast(&broadcast{r.key, b})
}

// packetLimit is how large a message may be to travel in one packet, after
// memberlist's own headers, the label and the encryption. A larger one would
// stay in the queue for ever.
func (c *Cluster) packetLimit() int { return 1250 - len(c.s.Cluster) }

// Leave tells all others that this node goes, which they take at once and do
// not mistake for a death. After it only the end of Run may follow. The error
// says that it could not be made sure that anybody heard it.
func (c *Cluster) Leave(ctx context.Context, reason string) error {
	c.mu.Lock()
	if c.ended || c.left {
		c.mu.Unlock()
		return nil
	}
	c.leaving = reason
	if c.leaving == "" {
		c.leaving = "leaving"
	}
	err := c.publish(c.own)
	c.mu.Unlock()
	for err == nil && !c.idle() {
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-c.flushed:
		}
	}
	timeout := c.prof.tcp
	if d, ok := ctx.Deadline(); ok {
		timeout = max(time.Millisecond, min(timeout, time.Until(d)))
	}
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return nil
	}
	c.left = true
	c.mu.Unlock()
	if err = errors.Join(err, c.list.Leave(timeout)); err != nil {
		return fmt.Errorf("cluster: leave: %w", err)
	}
	return nil
}

// idle says whether all that was to be sent to live nodes was sent.
func (c *Cluster) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.run == nil || c.ended {
		return true
	}
	for _, p := range c.peers {
		if p.alive && (p.busy || !p.out.empty()) {
			return false
		}
	}
	return true
}
