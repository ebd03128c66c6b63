package checks

import (
	"fmt"
	"slices"
	"time"
)

// Link is the rule for a path that several probes a second go along, over a
// sliding window of the last Size probes.
//
// It is Down as soon as more than MaxLoss percent of Size probes were lost,
// full window or not, so that a dead path is found in a part of the window; or
// when the answers of more than half of Size probes took longer than MaxDelay,
// which is to say that their median did. It is Up again when a whole window has
// at most half as many of each. An answer that comes after the probe's timeout
// counts as lost.
type Link struct {
	Size     int           // probes in the window, at most MaxLinkWindow; 0 is no such rule
	MaxLoss  int           // percent; 100 does not look at loss
	MaxDelay time.Duration // 0 does not look at delay
}

// MaxLinkWindow is how many probes a Link can look at.
const MaxLinkWindow = 1000

// allowed is how many probes of a whole window may be lost.
func (l Link) allowed() int { return l.Size * l.MaxLoss / 100 }

// linkWindow applies a Link to results.
type linkWindow struct {
	rule  Link
	ring  []linkSample // up to Size, the oldest at next once it is full
	next  int
	lost  int
	slow  int
	state State
}

// linkSample is what is kept of a result.
type linkSample struct {
	ok   bool
	took time.Duration
}

func newLinkWindow(rule Link) *linkWindow {
	return &linkWindow{rule: rule, ring: make([]linkSample, 0, rule.Size)}
}

// slowSample says whether an answer took longer than it may.
func (w *linkWindow) slowSample(s linkSample) bool {
	return s.ok && w.rule.MaxDelay > 0 && s.took > w.rule.MaxDelay
}

// observe takes in one result.
func (w *linkWindow) observe(r Result) {
	s := linkSample{r.OK, r.Took}
	if len(w.ring) < w.rule.Size {
		w.ring = append(w.ring, s)
	} else {
		w.count(w.ring[w.next], -1)
		w.ring[w.next] = s
		w.next = (w.next + 1) % w.rule.Size
	}
	w.count(s, 1)
	w.judge()
}

func (w *linkWindow) count(s linkSample, n int) {
	switch {
	case !s.ok:
		w.lost += n
	case w.slowSample(s):
		w.slow += n
	}
}

// judge works out the state. At the beginning it is Unknown until it could
// have become Down.
func (w *linkWindow) judge() {
	allowed, n := w.rule.allowed(), len(w.ring)
	switch {
	case w.lost > allowed || w.slow > w.rule.Size/2:
		w.state = Down
	case w.state == Down && (n < w.rule.Size || w.lost > allowed/2 || w.slow > w.rule.Size/4):
	case w.state == Unknown && n <= min(allowed, w.rule.Size-1):
	default:
		w.state = Up
	}
}

// sentence says how the window stands.
func (w *linkWindow) sentence() string {
	n := len(w.ring)
	if n == 0 {
		return "no probe has ended yet"
	}
	text := fmt.Sprintf("%d of the last %d probes lost (%d %%)", w.lost, n, 100*w.lost/n)
	if w.rule.MaxLoss < 100 {
		text += fmt.Sprintf(", %d of %d may be", w.rule.allowed(), w.rule.Size)
	}
	if w.lost == n {
		return text
	}
	text += "; median delay " + w.median().Round(10*time.Microsecond).String()
	if w.rule.MaxDelay > 0 {
		text += fmt.Sprintf(", %s may be", w.rule.MaxDelay)
	}
	return text
}

// median is that of the answers' delays.
func (w *linkWindow) median() time.Duration {
	var took []time.Duration
	for _, s := range w.ring {
		if s.ok {
			took = append(took, s.took)
		}
	}
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// LinkStatus is how a Link stands.
type LinkStatus struct {
	Probes   int           `json:"probes"` // in the window
	Size     int           `json:"size"`
	Lost     int           `json:"lost"`
	Slow     int           `json:"slow"`         // answers that took longer than allowed
	Delay    time.Duration `json:"median_delay"` // nanoseconds
	Allowed  int           `json:"may_be_lost"`  // of Size
	MaxDelay time.Duration `json:"max_delay,omitempty"`
}

func (w *linkWindow) status() *LinkStatus {
	return &LinkStatus{
		Probes: len(w.ring), Size: w.rule.Size, Lost: w.lost, Slow: w.slow, Delay: w.median(),
		Allowed: w.rule.allowed(), MaxDelay: w.rule.MaxDelay,
	}
}
