package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Limits of questions between nodes.
const (
	askTimeout   = 3 * time.Second // for a question and its answer
	maxArgument  = 4 << 10         // bytes that a question says besides its subject
	maxAnswering = 4               // questions of others that are answered at a time
)

// ErrUnanswered is wrapped by Ask when there was no answer of the node.
var ErrUnanswered = errors.New("does not answer")

var errQuestion = fmt.Errorf("a question has at most %d bytes of subject and %d of argument", maxName, maxArgument)

// question waits for the answer of a node.
type question struct {
	node   string
	answer chan *message // nil when the node is gone
}

func (q question) give(m *message) {
	select {
	case q.answer <- m:
	default:
	}
}

// Ask asks another node something, and returns the JSON that the Answer of its
// Settings made. It takes 3 s at most. An error that wraps ErrUnanswered says
// what is seen of the node; any other is what the node answered.
func (c *Cluster) Ask(ctx context.Context, node, subject, argument string) ([]byte, error) {
	if len(subject) > maxName || len(argument) > maxArgument {
		return nil, errQuestion
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	q := question{node, make(chan *message, 1)}
	id := rand.Uint64()
	if err := c.pose(id, q, &message{kind: messageAsk, nonce: id, subject: subject, argument: argument}); err != nil {
		return nil, err
	}
	defer c.drop(id)
	select {
	case m := <-q.answer:
		if m != nil {
			return c.readAnswer(m)
		}
	case <-ctx.Done():
	}
	return nil, c.unanswered(node, time.Since(began))
}

// pose hands a question to the peer's worker, unless it is known already that
// there will be no answer.
func (c *Cluster) pose(id uint64, q question, m *message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.peers[q.node]
	if p == nil {
		return fmt.Errorf("%s %w: it is not another node of this cluster", q.node, ErrUnanswered)
	}
	if why := c.mute(p); why != "" {
		return fmt.Errorf("%s %w: %s", q.node, ErrUnanswered, why)
	}
	if len(p.out.ops) >= maxEchoes {
		return fmt.Errorf("%s %w: too much that it was asked before waits to be sent", q.node, ErrUnanswered)
	}
	c.questions[id] = q
	p.out.ops = append(p.out.ops, m)
	p.rouse()
	return nil
}

func (c *Cluster) drop(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.questions, id)
}

func (c *Cluster) readAnswer(m *message) ([]byte, error) {
	if m.text != "" {
		return nil, fmt.Errorf("%s answers: %s", m.from, m.text)
	}
	text, err := c.codec.open(m.body)
	if err != nil {
		return nil, fmt.Errorf("the answer of %s: %w", m.from, err)
	}
	return text, nil
}

// unanswered says why there may have been no answer in time.
func (c *Cluster) unanswered(node string, after time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	why := ""
	if p := c.peers[node]; p != nil {
		if why = c.mute(p); why == "" {
			why = fmt.Sprintf("asked %s ago, last heard %s ago", after.Round(time.Millisecond), time.Since(p.heard).Round(time.Millisecond))
			if p.contact != "" {
				why += ", " + p.contact
			}
		}
	}
	return fmt.Errorf("%s %w: %s", node, ErrUnanswered, why)
}

// mute is why a peer will not answer, or empty.
func (c *Cluster) mute(p *peer) string {
	when := fmt.Sprintf("%s, %s ago", p.since.Format(time.RFC3339), c.s.Wall().Sub(p.since).Round(time.Second))
	v := c.nodeView(p.node, time.Now())
	switch {
	case v.Liveness == Unknown:
		return strings.TrimSuffix("it was not seen since this node started: "+p.contact, ": ")
	case v.Liveness == Left:
		return "it left at " + when + ": " + v.Leaving
	case v.Liveness == Dead:
		return "it is dead since " + when
	case p.hasMeta && p.meta.flags&metaAnswers == 0:
		version := "a version"
		if v.State != nil && v.State.Version != "" {
			version = "version " + v.State.Version
		}
		return "it runs " + version + ", which answers no questions of other nodes"
	default:
		return ""
	}
}

// takeAsk has a question answered, beside the receiver, which must not wait.
func (c *Cluster) takeAsk(p *peer, m *message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.s.Answer == nil {
		return // nobody asks who has read this node's meta data
	}
	if c.answering >= maxAnswering {
		if len(p.out.ops) < maxEchoes {
			p.out.ops = append(p.out.ops, &message{
				kind: messageAnswer, nonce: m.nonce,
				text: fmt.Sprintf("it answers %d other questions at this moment, ask again", maxAnswering),
			})
			p.rouse()
		}
		return
	}
	c.answering++
	run := c.run
	c.spawn(func() {
		c.answer(run, p, m)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.answering--
	})
}

// answer answers one question. An answer may be large, so it does not go by
// the peer's worker, where changes of states would have to wait for it.
func (c *Cluster) answer(ctx context.Context, p *peer, m *message) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	out := &message{kind: messageAnswer, from: c.s.Self, nonce: m.nonce}
	text, err := c.s.Answer(ctx, m.from, m.subject, m.argument)
	if err == nil {
		if out.body, err = c.codec.pack(text); err != nil {
			err = fmt.Errorf("an answer of %d bytes: %w", len(text), err)
		}
	}
	if err != nil {
		out.text = err.Error()
	}
	c.mu.Lock()
	to, v := c.memberOf(p), c.speak()
	c.mu.Unlock()
	b := out.encode(v)
	if err := c.list.SendReliable(to, b); err != nil {
		c.log.WarnContext(ctx, "cluster answer not delivered", "node", m.from, "subject", m.subject, "bytes", len(b), "error", err)
	}
}

// takeAnswer gives an answer to whoever asked that node.
func (c *Cluster) takeAnswer(m *message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q, ok := c.questions[m.nonce]; ok && q.node == m.from {
		q.give(m)
	}
}

// unask ends the waiting for a node that is gone.
func (c *Cluster) unask(node string) {
	for _, q := range c.questions {
		if q.node == node {
			q.give(nil)
		}
	}
}
