package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
)

// keyOp is a change of the key ring. Numbers are part of the wire format.
type keyOp uint8

const (
	keyAdd    keyOp = 1 // may open messages from now on
	keyUse    keyOp = 2 // encrypts from now on
	keyRemove keyOp = 3
)

func (o keyOp) String() string {
	switch o {
	case keyAdd:
		return "add"
	case keyUse:
		return "use"
	case keyRemove:
		return "remove"
	default:
		return fmt.Sprintf("change %d", uint8(o))
	}
}

var errNoKeys = errors.New("the cluster is not encrypted: there is no key to replace")

// RotateKey makes a new key the one that encrypts, on every configured node,
// and removes all others. All nodes must be there. No step begins before every
// node has acknowledged the one before, so at no time is there a node that
// cannot read what another sends; after an error the cluster goes on, with
// keys of both kinds, and RotateKey may be called again with the same key.
func (c *Cluster) RotateKey(ctx context.Context, key []byte) error {
	if c.keyring == nil {
		return errNoKeys
	}
	if missing := c.notAlive(); len(missing) > 0 {
		return fmt.Errorf("rotate the key: not there: %s", strings.Join(missing, ", "))
	}
	old := bytesOf(c.keyring.GetKeys())
	if err := c.changeKeys(ctx, keyAdd, key); err != nil {
		return fmt.Errorf("rotate the key: %w", err)
	}
	if err := c.changeKeys(ctx, keyUse, key); err != nil {
		return fmt.Errorf("rotate the key: %w", err)
	}
	for _, k := range old {
		if bytes.Equal(k, key) {
			continue
		}
		if err := c.changeKeys(ctx, keyRemove, k); err != nil {
			return fmt.Errorf("rotate the key: %w", err)
		}
	}
	return nil
}

func (c *Cluster) notAlive() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []string
	for _, n := range c.nodes {
		if p := c.peers[n.Name]; p != nil && !p.alive {
			list = append(list, n.Name)
		}
	}
	return list
}

// changeKeys does one change on every node and waits for every answer.
func (c *Cluster) changeKeys(ctx context.Context, op keyOp, key []byte) error {
	if err := c.changeKey(op, key); err != nil {
		return fmt.Errorf("%s key %s here: %w", op, KeyID(key), err)
	}
	c.mu.Lock()
	names := make([]string, 0, len(c.peers))
	for name := range c.peers {
		names = append(names, name)
	}
	c.mu.Unlock()
	slices.Sort(names)
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := c.askKeyChange(ctx, name, op, key); err != nil {
				errs[i] = fmt.Errorf("%s key %s on %s: %w", op, KeyID(key), name, err)
			}
		}()
	}
	wg.Wait()
	return errors.Join(errs...)
}

// askKeyChange repeats the question: a change that was made is made again
// without harm, and the answer may have been lost.
func (c *Cluster) askKeyChange(ctx context.Context, name string, op keyOp, key []byte) error {
	id := rand.Uint64()
	answer := make(chan string, 1)
	c.mu.Lock()
	c.answers[id] = answer
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.answers, id)
		c.mu.Unlock()
	}()
	for {
		c.mu.Lock()
		p := c.peers[name]
		if p != nil && p.alive && p.out.ops == nil {
			p.out.ops = append(p.out.ops, &message{kind: messageKeyChange, nonce: id, op: op, key: key})
			p.rouse()
		}
		c.mu.Unlock()
		wait, cancel := context.WithTimeout(ctx, c.prof.tcp)
		select {
		case text := <-answer:
			cancel()
			if text != "" {
				return errors.New(text)
			}
			return nil
		case <-wait.Done():
			cancel()
		}
		if ctx.Err() != nil {
			return fmt.Errorf("no answer: %w", ctx.Err())
		}
	}
}

// changeKey changes this node's own ring and keeps it. A ring that cannot be
// kept is changed back: after a restart the node would not be understood.
func (c *Cluster) changeKey(op keyOp, key []byte) error {
	c.ringMu.Lock()
	defer c.ringMu.Unlock()
	if c.keyring == nil {
		return errNoKeys
	}
	before := bytesOf(c.keyring.GetKeys())
	if err := c.applyKey(op, key); err != nil {
		return err
	}
	if c.s.SaveKeys == nil {
		return nil
	}
	if err := c.s.SaveKeys(bytesOf(c.keyring.GetKeys())); err != nil {
		return errors.Join(fmt.Errorf("keep the keys: %w", err), c.undoKey(op, key, before))
	}
	return nil
}

func (c *Cluster) applyKey(op keyOp, key []byte) error {
	switch op {
	case keyAdd:
		if n := len(c.keyring.GetKeys()); n >= maxKeys {
			return fmt.Errorf("%d keys are there already", n)
		}
		return c.keyring.AddKey(key)
	case keyUse:
		return c.keyring.UseKey(key)
	case keyRemove:
		return dropKey(c.keyring, key)
	default:
		return fmt.Errorf("%s is unknown to this version", op)
	}
}

func (c *Cluster) undoKey(op keyOp, key []byte, before [][]byte) error {
	had := slices.ContainsFunc(before, func(k []byte) bool { return bytes.Equal(k, key) })
	switch {
	case op == keyAdd && !had:
		return dropKey(c.keyring, key)
	case op == keyUse:
		return c.keyring.UseKey(before[0])
	case op == keyRemove && had:
		return c.keyring.AddKey(key)
	default:
		return nil
	}
}

func (c *Cluster) takeKeyChange(p *peer, m *message) {
	err := c.changeKey(m.op, m.key)
	answer := &message{kind: messageKeyAnswer, nonce: m.nonce}
	level := slog.LevelInfo
	if err != nil {
		answer.text, level = err.Error(), slog.LevelWarn
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noted(level, "cluster key", "op", m.op.String(), "key", KeyID(m.key), "asked_by", m.from, "error", answer.text)
	if len(p.out.ops) < maxEchoes {
		p.out.ops = append(p.out.ops, answer)
	}
	p.rouse()
	c.rouse()
}

func (c *Cluster) takeKeyAnswer(m *message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ch := c.answers[m.nonce]; ch != nil {
		select {
		case ch <- m.text:
		default:
		}
	}
}
