package cluster

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Limits of intents.
const (
	maxIntents  = 4096 // those that are cleared or over among them
	maxReason   = 1024 // bytes in Why and Arg
	maxKind     = 32
	maxLamport  = 1 << 62
	maxLeap     = 1 << 32 // a Lamport time further ahead than that is refused
	intentSplit = "/"
)

// Intent is what an operator asked for. There is one for each kind and
// subject: a later one replaces it, everywhere and for good.
type Intent struct {
	Kind    string        `json:"kind"`    // drain, pin, freeze …; the cluster does not care
	Subject string        `json:"subject"` // what it is about, such as node:lb-1
	Arg     string        `json:"arg,omitempty"`
	Who     string        `json:"who,omitempty"`
	Why     string        `json:"why,omitempty"`
	For     time.Duration `json:"for,omitempty"` // how long it holds from when it is set; 0 is until cleared

	// The rest is filled in by the cluster.
	Node  string        `json:"node"`            // where it was set
	Set   time.Time     `json:"set"`             // by that node's wall clock
	Left  time.Duration `json:"left,omitempty"`  // of For
	Until time.Time     `json:"until,omitzero"`  // by this node's wall clock; zero without For
	Clock uint64        `json:"clock,omitempty"` // Lamport time: a higher one came later
}

// intentBody is an Intent as it travels.
type intentBody struct {
	Kind    string        `json:"kind"`
	Subject string        `json:"subject"`
	Arg     string        `json:"arg,omitempty"`
	Who     string        `json:"who,omitempty"`
	Why     string        `json:"why,omitempty"`
	For     time.Duration `json:"for,omitempty"`
	Set     time.Time     `json:"set"`
	Cleared bool          `json:"cleared,omitempty"`
}

var (
	errIntent = errors.New("an intent that is out of bounds")
	errFull   = fmt.Errorf("%w: there are %d, and all of them hold", errIntent, maxIntents)
)

func intentKey(kind, subject string) recordKey {
	return recordKey{recordIntent, kind + intentSplit + subject}
}

func (b *intentBody) key() string { return intentKey(b.Kind, b.Subject).name }

func (b *intentBody) check() error {
	switch {
	case b.Kind == "" || len(b.Kind) > maxKind || strings.Contains(b.Kind, intentSplit):
		return fmt.Errorf("%w: kind %.40q", errIntent, b.Kind)
	case len(b.key()) > maxName:
		return fmt.Errorf("%w: subject %.40q… is too long", errIntent, b.Subject)
	case len(b.Arg) > maxReason || len(b.Why) > maxReason || len(b.Who) > maxWord:
		return fmt.Errorf("%w: who, why or argument is too long", errIntent)
	case b.For < 0 || b.For > maxLife:
		return fmt.Errorf("%w: it would hold for %s", errIntent, b.For)
	}
	return nil
}

// SetIntent makes an intent known to every node, also to those that are not
// there now. When it returns nil, this node has it on disk and it holds here.
func (c *Cluster) SetIntent(i Intent) error {
	return c.putIntent(&intentBody{
		Kind: i.Kind, Subject: i.Subject, Arg: i.Arg, Who: i.Who, Why: i.Why, For: i.For,
	})
}

// ClearIntent undoes an intent, everywhere. Clearing one that nobody set is no
// error: a node that is away may know of it.
func (c *Cluster) ClearIntent(kind, subject, who, why string) error {
	return c.putIntent(&intentBody{Kind: kind, Subject: subject, Who: who, Why: why, Cleared: true})
}

func (c *Cluster) putIntent(b *intentBody) error {
	b.Set = c.s.Wall().Round(0)
	if err := b.check(); err != nil {
		return err
	}
	text, err := json.Marshal(b)
	if err != nil {
		return fmt.Errorf("write the intent: %w", err)
	}
	body, err := c.codec.pack(text)
	if err != nil {
		return err
	}
	r := record{stamp: stamp{key: intentKey(b.Kind, b.Subject)}, body: body}
	r.life = life{bounded: b.For > 0, left: b.For}

	// One at a time, so that what is on disk is what will be there.
	c.diskMu.Lock()
	defer c.diskMu.Unlock()
	c.mu.Lock()
	full := !c.roomForIntent(r.key)
	c.lamport++
	r.ver = version{hi: c.lamport, origin: c.s.Self}
	list := append(c.intentRecords(time.Now()), r)
	c.mu.Unlock()
	if full {
		return errFull
	}
	if err := c.disk.saveIntents(list, c.s.Wall()); err != nil {
		return fmt.Errorf("keep the intent: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.accept(r, b, time.Now())
	return nil
}

// roomForIntent makes room for one more. What is over goes first, the oldest
// of it.
func (c *Cluster) roomForIntent(k recordKey) bool {
	if c.store.entries[k] != nil {
		return true
	}
	n, now := 0, time.Now()
	var oldest *entry
	for _, e := range c.store.entries {
		if e.key.kind != recordIntent {
			continue
		}
		n++
		if !e.holds(now) && (oldest == nil || e.ver.compare(oldest.ver) < 0) {
			oldest = e
		}
	}
	if n < maxIntents {
		return true
	}
	if oldest == nil {
		return false
	}
	delete(c.store.entries, oldest.key)
	return true
}

// holds says whether an intent is to be obeyed.
func (e *entry) holds(now time.Time) bool {
	b, ok := e.value.(*intentBody)
	return ok && !b.Cleared && (!e.life.bounded || now.Before(e.expires))
}

// intentRecords are all intents as they are to be kept on disk, those that are
// over too: they must not come back from a node that was away.
func (c *Cluster) intentRecords(now time.Time) []record {
	var list []record
	for _, k := range slices.SortedFunc(maps.Keys(c.store.entries), recordKey.compare) {
		if k.kind == recordIntent {
			r, _ := c.store.get(k, now)
			list = append(list, r)
		}
	}
	return list
}

// intents are those that hold, in the order in which they were set.
func (c *Cluster) intents(now time.Time) []Intent {
	var list []Intent
	wall := c.s.Wall()
	for _, e := range c.store.entries {
		b, ok := e.value.(*intentBody)
		if !ok || !e.holds(now) {
			continue
		}
		i := Intent{
			Kind: b.Kind, Subject: b.Subject, Arg: b.Arg, Who: b.Who, Why: b.Why, For: b.For,
			Node: e.ver.origin, Set: b.Set, Clock: e.ver.hi,
		}
		if e.life.bounded {
			i.Left = e.expires.Sub(now)
			i.Until = wall.Add(i.Left).Round(time.Second)
		}
		list = append(list, i)
	}
	slices.SortFunc(list, func(a, b Intent) int {
		return cmp.Or(cmp.Compare(a.Clock, b.Clock), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Kind+intentSplit+a.Subject, b.Kind+intentSplit+b.Subject))
	})
	return list
}

// holding counts those that hold, so that a change is noticed when one of
// them is over.
func (c *Cluster) holding(now time.Time) int {
	n := 0
	for _, e := range c.store.entries {
		if e.holds(now) {
			n++
		}
	}
	return n
}
