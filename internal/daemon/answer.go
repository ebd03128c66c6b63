package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"rhid/cluster"
	"rhid/internal/control"
)

// askChecks is the subject of a question about the checks of a node.
const askChecks = "checks"

// Limits of an answer about checks. It comes in pages, so that thousands of
// checks fit into messages that are bounded.
const (
	pageBytes = 1 << 20 // of JSON in a page
	maxPages  = 64
)

// checksQuestion is what a node is asked about its checks.
type checksQuestion struct {
	Of    string `json:"of,omitempty"`    // a service; empty is all
	After string `json:"after,omitempty"` // the ID of the last check that is known already
}

// checksAnswer is one page of them, ordered by ID.
type checksAnswer struct {
	Now     time.Time         `json:"now"` // by the clock that all times in it are of
	Checks  []json.RawMessage `json:"checks"`
	More    bool              `json:"more,omitempty"`
	Missing string            `json:"missing,omitempty"` // what was asked for is not there, and why
}

// answer answers the questions of other nodes.
func (d *Daemon) answer(ctx context.Context, _, subject, argument string) ([]byte, error) {
	if subject != askChecks {
		return nil, fmt.Errorf("version %s of rhid knows nothing of %q", d.opts.Version, subject)
	}
	var q checksQuestion
	if err := json.Unmarshal([]byte(argument), &q); err != nil {
		return nil, fmt.Errorf("reading the question: %w", err)
	}
	all, err := d.ownChecks(ctx, q.Of)
	if errors.Is(err, control.ErrNotFound) {
		return json.Marshal(checksAnswer{Missing: err.Error()})
	}
	if err != nil {
		return nil, err
	}
	a, err := pageOf(all, q.After, time.Now())
	if err != nil {
		return nil, err
	}
	return json.Marshal(a)
}

// pageOf are the checks after the one of an ID, as many as a page holds and one
// at the least.
func pageOf(all []control.CheckState, after string, now time.Time) (checksAnswer, error) {
	a := checksAnswer{Now: now, Checks: []json.RawMessage{}}
	size := 0
	for i := range all {
		if all[i].ID <= after {
			continue
		}
		b, err := json.Marshal(&all[i])
		if err != nil {
			return a, fmt.Errorf("writing check %s: %w", all[i].ID, err)
		}
		if size += len(b); size > pageBytes && len(a.Checks) > 0 {
			a.More = true
			break
		}
		a.Checks = append(a.Checks, b)
	}
	return a, nil
}

// askForChecks asks another node for its checks.
func (d *Daemon) askForChecks(ctx context.Context, node, of string) ([]control.CheckState, error) {
	all := []control.CheckState{}
	q := checksQuestion{Of: of}
	for range maxPages {
		argument, err := json.Marshal(q)
		if err != nil {
			return nil, fmt.Errorf("asking %s: %w", node, err)
		}
		b, err := d.cluster.Ask(ctx, node, askChecks, string(argument))
		if errors.Is(err, cluster.ErrUnanswered) {
			return nil, fmt.Errorf("%w: %w", control.ErrAway, err)
		}
		if err != nil {
			return nil, fmt.Errorf("asking for checks: %w", err)
		}
		page, more, err := readChecks(b, q.After, time.Now())
		if errors.Is(err, control.ErrNotFound) {
			return nil, err
		}
		if err != nil {
			return nil, fmt.Errorf("asking %s for its checks: %w", node, err)
		}
		all = append(all, page...)
		if !more {
			return all, nil
		}
		q.After = all[len(all)-1].ID
	}
	return nil, fmt.Errorf("%s has more than %d checks, which is more than another node is told: ask its own daemon", node, len(all))
}

// missingError is what another node said it does not have.
type missingError struct{ text string }

func (e *missingError) Error() string { return e.text }
func (e *missingError) Unwrap() error { return control.ErrNotFound }

var (
	errPage  = errors.New("the answer is out of order")
	errTimes = errors.New("the answer has times that no clock shows")
)

// readChecks reads a page that follows a check. Its times become those of this
// node's clock, so that a difference of the clocks does not show in how long
// ago something was.
func readChecks(b []byte, after string, now time.Time) (page []control.CheckState, more bool, err error) {
	var a checksAnswer
	if err := json.Unmarshal(b, &a); err != nil {
		return nil, false, fmt.Errorf("reading the answer: %w", err)
	}
	if a.Missing != "" {
		return nil, false, &missingError{a.Missing}
	}
	page = make([]control.CheckState, len(a.Checks))
	for i, text := range a.Checks {
		c := &page[i]
		if err := json.Unmarshal(text, c); err != nil {
			return nil, false, fmt.Errorf("reading the answer: %w", err)
		}
		if c.ID <= after {
			return nil, false, errPage
		}
		after = c.ID
		if !shiftCheck(c, now.Sub(a.Now)) {
			return nil, false, errTimes
		}
	}
	if a.More && len(page) == 0 {
		return nil, false, errPage
	}
	return page, a.More, nil
}

// shiftCheck moves all times of a check, unless one is not a time that can be
// told in JSON.
func shiftCheck(c *control.CheckState, by time.Duration) bool {
	times := []*time.Time{&c.Since, &c.NextRun, &c.Last.Start}
	for i := range c.Recent {
		times = append(times, &c.Recent[i].Start)
	}
	for _, t := range times {
		if t.IsZero() {
			continue
		}
		if *t = t.Add(by); t.Year() < 0 || t.Year() > 9999 {
			return false
		}
	}
	return true
}

// asked says which node is asked for the checks of what, and "" for this one:
// of a service those of this node are meant, unless a node is named.
func (l *loop) asked(of, node string) (string, string, error) {
	_, isNode := l.m.cfg.Node(of)
	if node == "" && isNode && len(l.m.called(of)) == 0 {
		node = of
	}
	if of == node {
		of = ""
	}
	if node == "" || node == l.m.self.Name {
		return "", of, nil
	}
	return node, of, l.m.hasNode(node)
}
