package checks

import (
	"testing"
	"time"
)

// leaf is a check by name; its letters are those of the states of said.
func leaf(name string) Term { return Term{Check: name} }

func join(op Op, of ...Term) Term { return Term{Op: op, Of: of} }

func with(t Term, change func(*Term)) Term {
	change(&t)
	return t
}

func noRaise(t *Term) { t.Silent = true }

func depends(d Dependency) func(*Term) { return func(t *Term) { t.Dependency = d } }

func weight(w int) func(*Term) { return func(t *Term) { t.Weight = w } }

// world is what is known of checks: a letter for each server, or one for the
// node; a capital letter means that it is under maintenance, and 'g' that it
// is up and degraded.
type world map[string]string

func (w world) look(check string, server int) Member {
	c := w[check][max(server, 0)]
	if c == 'g' {
		return Member{ID: check, State: Up, Degraded: true}
	}
	m := said(string(c | 0x20))[0]
	if c == '?' || c == '-' {
		m = said(string(c))[0]
	}
	m.ID, m.Maintenance = check, c == 'U' || c == 'D'
	return m
}

func TestComposition(t *testing.T) {
	a, b, c := leaf("a"), leaf("b"), leaf("c")
	passive := with(leaf("p"), noRaise)
	two := Pool{Servers: []Server{{ID: "s1"}, {ID: "s2"}}, Low: Quorum{N: 1}}
	score := Term{Op: OpScore, Up: 70, Down: 40, Of: []Term{with(a, weight(50)), with(b, weight(30)), with(c, weight(20))}}
	tests := []struct {
		name string
		term Term
		w    world
		want string
	}{
		{"one check", a, world{"a": "u"}, "up: check a is up: up"},
		{"one check down", a, world{"a": "d"}, "down: check a is down: refused"},
		{"all are up", join(OpAll, a, b), world{"a": "u", "b": "u"}, "up: 2 of 2 checks up, 2 needed"},
		{"all, and one is down", join(OpAll, a, b), world{"a": "?", "b": "d"}, "down: 0 of 2 checks up, 2 needed; a: not known yet; b: refused"},
		{"all, and one is not known", join(OpAll, a, b), world{"a": "u", "b": "?"}, "unknown: 1 of 2 checks up, 2 needed; b: not known yet"},
		{"any, and one is up", join(OpAny, a, b), world{"a": "d", "b": "u"}, "up: 1 of 2 checks up, 1 needed; a: refused"},
		{"any, and none is", join(OpAny, a, b), world{"a": "d", "b": "d"}, "down: 0 of 2 checks up, 1 needed; a: refused; b: refused"},
		{"two of three", Term{Op: OpAtLeast, Need: Quorum{N: 2}, Of: []Term{a, b, c}}, world{"a": "u", "b": "d", "c": "u"}, "up: 2 of 3 checks up, 2 needed; b: refused"},
		{"half of three", Term{Op: OpAtLeast, Need: Quorum{Percent: 50}, Of: []Term{a, b, c}}, world{"a": "u", "b": "d", "c": "d"}, "down: 1 of 3 checks up, 2 needed; b: refused; c: refused"},
		{"nested", join(OpAll, a, join(OpAny, b, c)), world{"a": "u", "b": "d", "c": "d"}, "down: 1 of 2 checks up, 2 needed; any of (b, c): 0 of 2 checks up, 1 needed; b: refused; c: refused"},

		{"evidence that abstains is left out", join(OpAll, a, passive), world{"a": "u", "p": "-"}, "up: 1 of 1 checks up, 1 needed"},
		{"good evidence is no objection", join(OpAll, a, passive), world{"a": "u", "p": "u"}, "up: 1 of 1 checks up, 1 needed"},
		{"bad evidence pulls down", join(OpAll, a, passive), world{"a": "u", "p": "d"}, "down: 1 of 2 checks up, 2 needed; p: refused"},
		{"good evidence brings nothing up", join(OpAny, a, passive), world{"a": "d", "p": "u"}, "down: 0 of 1 checks up, 1 needed; a: refused"},
		{"… but where it may", join(OpAny, a, leaf("p")), world{"a": "d", "p": "u"}, "up: 1 of 2 checks up, 1 needed; a: refused"},
		{"nothing but silence", join(OpAll, passive), world{"p": "-"}, "abstains: 0 of 0 checks up, 0 needed"},
		{"who abstains is not needed", Term{Op: OpAtLeast, Need: Quorum{N: 2}, Of: []Term{a, passive, leaf("q")}}, world{"a": "u", "p": "-", "q": "-"}, "up: 1 of 1 checks up, 1 needed"},

		{"score above", score, world{"a": "u", "b": "u", "c": "d"}, "up: score 80 of 100, down below 40 and up from 70 on; c: refused"},
		{"score below", score, world{"a": "d", "b": "u", "c": "d"}, "down: score 30 of 100, down below 40 and up from 70 on; a: refused; c: refused"},
		{"score in between, at the start", score, world{"a": "u", "b": "d", "c": "d"}, "up: score 50 of 100, down below 40 and up from 70 on; b: refused; c: refused"},
		{"score not known yet", score, world{"a": "?", "b": "u", "c": "d"}, "unknown: score 30 of 100, down below 40 and up from 70 on; a: not known yet; c: refused"},
		{"score known enough", score, world{"a": "u", "b": "u", "c": "?"}, "up: score 80 of 100, down below 40 and up from 70 on; c: not known yet"},
		{"score without who abstains", score, world{"a": "u", "b": "-", "c": "d"}, "up: score 71 of 100, down below 40 and up from 70 on; c: refused"},

		{"a pool and a check of the node", join(OpAll, a, join(OpPool, b)), world{"a": "u", "b": "du"}, "up: 2 of 2 checks up, 2 needed"},
		{"two halves of a pool", join(OpPool, join(OpAll, a, b)), world{"a": "ud", "b": "du"}, "down: 0 of 2 servers up, 1 needed; s1: 1 of 2 checks up, 2 needed; b: refused; s2: 1 of 2 checks up, 2 needed; a: refused"},
		{"evidence against one server", join(OpPool, join(OpAll, a, passive)), world{"a": "uu", "p": "d-"}, "up: 1 of 2 servers up, 1 needed; s1: 1 of 2 checks up, 2 needed; p: refused"},

		{"degraded", join(OpAll, a, b), world{"a": "u", "b": "g"}, "up degraded: 2 of 2 checks up, 2 needed"},
		{"degraded does not show where it is down", join(OpAll, a, b), world{"a": "d", "b": "g"}, "down: 1 of 2 checks up, 2 needed; a: refused"},
		{"maintenance", a, world{"a": "U"}, "down maintenance: check a is down: under maintenance; up"},
		{"maintenance, and it is down besides", a, world{"a": "D"}, "down: check a is down: under maintenance; refused"},
		{"maintenance of one server", join(OpPool, a), world{"a": "Uu"}, "up: 1 of 2 servers up, 1 needed; s1: under maintenance; up"},
		{"maintenance of one server, the other is down", join(OpPool, a), world{"a": "Ud"}, "down maintenance: 0 of 2 servers up, 1 needed; s1: under maintenance; up; s2: refused"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out := NewComposition(tt.term, two).Judge(tt.w.look, time.Now())
			got := out.State.String()
			if out.Degraded {
				got += " degraded"
			}
			if out.Maintenance {
				got += " maintenance"
			}
			if got += ": " + out.Detail; got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestScoreHysteresis: between the thresholds it stays what it was, also when
// the composition was made anew by a reload.
func TestScoreHysteresis(t *testing.T) {
	term := Term{Op: OpScore, Up: 70, Down: 40, Of: []Term{with(leaf("a"), weight(50)), with(leaf("b"), weight(30)), with(leaf("c"), weight(20))}}
	c := NewComposition(term, Pool{})
	steps := []struct {
		a, b, c string
		want    State
	}{
		{"u", "u", "u", Up}, {"u", "d", "d", Up}, {"d", "u", "d", Down}, {"u", "d", "d", Down},
		{"u", "?", "d", Down}, {"u", "d", "u", Up}, {"d", "u", "u", Up}, {"d", "d", "u", Down}, {"d", "u", "u", Down},
	}
	for i, s := range steps {
		next := NewComposition(term, Pool{})
		next.Inherit(c)
		c = next
		if got := c.Judge(world{"a": s.a, "b": s.b, "c": s.c}.look, time.Now()); got.State != s.want {
			t.Errorf("step %d: %s (%s), want %s", i, got.State, got.Detail, s.want)
		}
	}
	other := NewComposition(with(term, func(t *Term) { t.Up = 90 }), Pool{})
	other.Inherit(c)
	if got := other.Judge(world{"a": "u", "b": "d", "c": "d"}.look, time.Now()); got.State != Down {
		t.Errorf("with other thresholds what was down is %s in between", got.State)
	}
}

func TestBlame(t *testing.T) {
	a, local, shared := leaf("a"), with(leaf("l"), depends(DependsLocal)), with(leaf("s"), depends(DependsShared))
	names := [...]string{"auto", "local", "shared"}
	tests := []struct {
		name string
		term Term
		w    world
		want string
	}{
		{"not said", join(OpAll, a, local), world{"a": "d", "l": "u"}, "auto"},
		{"a local one alone", join(OpAll, a, local, shared), world{"a": "u", "l": "d", "s": "u"}, "local"},
		{"a local one suffices, whatever fails besides", join(OpAll, local, shared), world{"l": "d", "s": "d"}, "local"},
		{"a shared one alone", join(OpAll, a, local, shared), world{"a": "u", "l": "u", "s": "d"}, "shared"},
		{"both are needed", join(OpAny, local, shared), world{"l": "d", "s": "d"}, "shared"},
		{"another one suffices besides the shared one", join(OpAll, a, shared), world{"a": "d", "s": "d"}, "auto"},
		{"nothing is down", join(OpAll, local), world{"l": "u"}, "auto"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out := NewComposition(tt.term, Pool{}).Judge(tt.w.look, time.Now())
			if got := names[out.Blame]; got != tt.want {
				t.Errorf("%s is to blame, want %s", got, tt.want)
			}
		})
	}
}

// BenchmarkComposition judges what a service usually has: a pool of four with
// two checks of each server, beside one of the node.
func BenchmarkComposition(b *testing.B) {
	pool := Pool{Servers: []Server{{ID: "s1"}, {ID: "s2"}, {ID: "s3"}, {ID: "s4"}}, Low: Quorum{N: 2}}
	c := NewComposition(join(OpAll, leaf("a"), join(OpPool, join(OpAll, leaf("b"), leaf("c")))), pool)
	w := world{"a": "u", "b": "uudu", "c": "uuuu"}
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		if out := c.Judge(w.look, now); out.State != Up {
			b.Fatal(out)
		}
	}
}
