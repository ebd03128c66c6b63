package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// told writes intents as text, which is how a test says what it expects.
func told(m *member) string {
	var list []string
	for _, i := range m.View().Intents {
		s := i.Kind + " " + i.Subject
		if i.Arg != "" {
			s += " to " + i.Arg
		}
		list = append(list, s+" by "+i.Who+" at "+i.Node)
	}
	return strings.Join(list, ", ")
}

func (w *world) set(m *member, kind, subject string, d time.Duration) {
	w.t.Helper()
	if err := m.SetIntent(Intent{Kind: kind, Subject: subject, Who: "anna", Why: "disk", For: d}); err != nil {
		w.t.Fatal(err)
	}
}

func TestIntentIsEverywhere(t *testing.T) {
	inWorld(t, 4, func(w *world) {
		list := w.startAll()
		w.ready(list)
		i := Intent{Kind: "pin", Subject: "service:atm", Arg: "n2", Who: "anna", Why: "change 4711", For: time.Hour}
		if err := list[1].SetIntent(i); err != nil {
			t.Fatal(err)
		}
		took := w.within(lost, "all have it", all(list, func(m *member) bool { return len(m.View().Intents) == 1 }))
		if took > 20*time.Millisecond {
			t.Errorf("after %s", took)
		}
		want := i
		want.Node, want.Clock, want.Left = "n1", 1, time.Hour
		for _, m := range list {
			opts := cmp.Options{cmpopts.IgnoreFields(Intent{}, "Set", "Until"), cmpopts.EquateApproxTime(time.Second)}
			got := m.View().Intents[0]
			got.Left = got.Left.Round(time.Second)
			if d := cmp.Diff(want, got, opts); d != "" {
				t.Errorf("%s (-want +got):\n%s", m.name, d)
			}
			if d := time.Until(got.Until) - time.Hour; d.Abs() > time.Second {
				t.Errorf("%s: until %s", m.name, got.Until)
			}
		}
		// A later one of the same kind and subject replaces it, from any node.
		i.Arg, i.Who = "n3", "bert"
		if err := list[3].SetIntent(i); err != nil {
			t.Fatal(err)
		}
		w.within(lost, "replaced", all(list, func(m *member) bool { return told(m) == "pin service:atm to n3 by bert at n3" }))
		if err := list[0].ClearIntent("pin", "service:atm", "carl", ""); err != nil {
			t.Fatal(err)
		}
		w.within(lost, "cleared", all(list, func(m *member) bool { return told(m) == "" }))
	})
}

func TestIntentExpires(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		list := w.startAll()
		w.ready(list)
		w.set(list[0], "drain", "node:n1", 30*time.Second)
		w.pass(29 * time.Second)
		for _, m := range list {
			if told(m) == "" {
				t.Errorf("%s: over too early", m.name)
			}
		}
		for len(list[2].Changes()) > 0 {
			<-list[2].Changes()
		}
		w.pass(1500 * time.Millisecond)
		for _, m := range list {
			if told(m) != "" {
				t.Errorf("%s: still %s", m.name, told(m))
			}
		}
		if len(list[2].Changes()) == 0 {
			t.Error("Changes did not tell")
		}
		// It does not come back through a node that starts now.
		list[1].kill()
		list[1] = w.start("n1")
		w.within(lost, "settled", func() bool { return settled(list[1]) })
		w.pass(10 * time.Second)
		if told(list[1]) != "" {
			t.Errorf("back: %s", told(list[1]))
		}
	})
}

// The wall clock decides nothing: not when an intent is over, not which of two
// came later.
func TestIntentsWithWrongClocks(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		var step atomic.Int64
		list := []*member{
			w.start("n0"),
			w.start("n1", func(s *Settings) { s.Wall = func() time.Time { return time.Now().Add(time.Duration(step.Load())) } }),
			w.start("n2", func(s *Settings) { s.Wall = func() time.Time { return time.Unix(0, 0) } }),
		}
		w.ready(list)
		w.set(list[0], "drain", "node:n1", 2*time.Minute)
		w.set(list[2], "drain", "node:n2", 0)
		w.within(lost, "both are known", all(list, func(m *member) bool { return len(m.View().Intents) == 2 }))
		if err := list[2].ClearIntent("drain", "node:n2", "bert", ""); err != nil {
			t.Fatal(err)
		}
		w.within(lost, "the clock of 1970 says the last word", all(list, func(m *member) bool { return len(m.View().Intents) == 1 }))
		for _, d := range []time.Duration{time.Hour, -time.Hour, 100 * 24 * time.Hour} {
			step.Store(int64(d))
			w.pass(30 * time.Second)
			for _, m := range list {
				if len(m.View().Intents) != 1 {
					t.Errorf("step %s: %s: %s", d, m.name, told(m))
				}
			}
			if !settled(list[1]) {
				t.Errorf("step %s: %s", d, list[1].View().Certainty)
			}
		}
		w.pass(40 * time.Second)
		for _, m := range list {
			if told(m) != "" {
				t.Errorf("%s: %s", m.name, told(m))
			}
		}
	})
}

func TestIntentsSurviveTheRestartOfAll(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		base := t.TempDir()
		keep := func(s *Settings) { s.Dir = filepath.Join(base, s.Self) }
		list := w.startAll(keep)
		w.ready(list)
		w.set(list[0], "freeze", "cluster", time.Hour)
		w.pass(time.Second)
		w.set(list[1], "drain", "node:n2", 0)
		w.pass(time.Second)
		w.set(list[2], "drain", "node:n0", 10*time.Minute)
		w.pass(time.Second)
		if err := list[0].ClearIntent("drain", "node:n2", "bert", "done <&>"); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Second)
		for _, m := range list {
			m.kill()
		}
		w.pass(20 * time.Minute)
		list = w.startAll(keep)
		w.within(4*time.Second, "settled", all(list, settled))
		for _, m := range list {
			if got := told(m); got != "freeze cluster by anna at n0" {
				t.Errorf("%s: %s", m.name, got)
			}
			left := m.View().Intents[0].Left
			if d := left - 40*time.Minute; d.Abs() > 10*time.Second {
				t.Errorf("%s: %s left", m.name, left)
			}
			if p := m.told(); p != "" {
				t.Errorf("%s: %s", m.name, p)
			}
		}
		w.set(list[0], "drain", "node:n2", 0)
		if got := list[0].View().Intents[1].Clock; got != 5 {
			t.Errorf("Lamport time %d, want 5: it goes on where it was", got)
		}
	})
}

// What was undone while a node was away stays undone, and what was asked for
// is known to it before it is settled.
func TestIntentsOfANodeThatWasAway(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		base := t.TempDir()
		var jump time.Duration
		keep := func(s *Settings) {
			s.Dir = filepath.Join(base, s.Self)
			if s.Self == "n2" {
				s.Wall = func() time.Time { return time.Now().Add(jump) }
			}
		}
		list := w.startAll(keep)
		w.ready(list)
		w.set(list[0], "drain", "node:n1", 0)
		w.set(list[0], "freeze", "cluster", time.Hour)
		w.pass(time.Second)
		list[2].kill()
		if err := list[0].ClearIntent("drain", "node:n1", "bert", ""); err != nil {
			t.Fatal(err)
		}
		w.set(list[1], "drain", "node:n2", 0)
		w.pass(time.Minute)
		// Its wall clock was set to next year meanwhile: by it, the freeze is
		// over.
		jump = 365 * 24 * time.Hour
		list[2] = w.start("n2", keep)
		if got := told(list[2]); got != "drain node:n1 by anna at n0" {
			t.Errorf("from disk: %s", got)
		}
		w.within(lost, "settled", func() bool { return settled(list[2]) })
		for _, m := range list {
			if got := told(m); got != "freeze cluster by anna at n0, drain node:n2 by anna at n1" {
				t.Errorf("%s: %s", m.name, got)
			}
			if left := m.View().Intents[0].Left; left < 58*time.Minute || left > time.Hour {
				t.Errorf("%s: %s left of the freeze", m.name, left)
			}
		}
	})
}

// Both sides of a partition may ask for something. Afterwards all agree.
func TestIntentsOfAPartition(t *testing.T) {
	inWorld(t, 4, func(w *world) {
		list := w.startAll()
		w.ready(list)
		w.net.block(cutAfter(2))
		w.pass(2 * time.Second)
		for i, m := range list {
			if err := m.SetIntent(Intent{Kind: "pin", Subject: "service:atm", Arg: m.name, Who: "anna"}); err != nil {
				t.Fatal(err)
			}
			w.pass(time.Duration(i) * time.Second)
		}
		if a, b := told(list[0]), told(list[3]); a != "pin service:atm to n1 by anna at n1" || b != "pin service:atm to n3 by anna at n3" {
			t.Errorf("apart: %s | %s", a, b)
		}
		w.net.block(nil)
		w.within(5*time.Second, "all agree", all(list, func(m *member) bool { return told(m) == "pin service:atm to n3 by anna at n3" }))
	})
}

func TestIntentOutOfBounds(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		m := w.start("n0")
		for _, i := range []Intent{
			{Subject: "x"},
			{Kind: "a/b", Subject: "x"},
			{Kind: strings.Repeat("k", 33)},
			{Kind: "drain", Subject: strings.Repeat("s", 300)},
			{Kind: "drain", Why: strings.Repeat("s", 2000)},
			{Kind: "drain", For: -1},
		} {
			if err := m.SetIntent(i); !errors.Is(err, errIntent) {
				t.Errorf("%.30v: %v", i, err)
			}
		}
		if n := len(m.View().Intents); n != 0 {
			t.Errorf("%d intents", n)
		}
	})
}

func TestIntentsAreBounded(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		m := w.start("n0")
		m.mu.Lock()
		for i := range maxIntents {
			b := &intentBody{Kind: "drain", Subject: "node:" + strconv.Itoa(i)}
			m.store.merge(record{stamp: stamp{intentKey(b.Kind, b.Subject), version{1, 0, "n0"}}}, b, time.Now())
		}
		m.mu.Unlock()
		if err := m.SetIntent(Intent{Kind: "freeze", Subject: "one too many"}); !errors.Is(err, errFull) {
			t.Errorf("one too many: %v", err)
		}
		if err := m.ClearIntent("drain", "node:7", "", ""); err != nil {
			t.Error(err)
		}
		if err := m.SetIntent(Intent{Kind: "freeze", Subject: "in its place"}); err != nil {
			t.Error(err)
		}
		if n := len(m.View().Intents); n != maxIntents {
			t.Errorf("%d intents, want %d", n, maxIntents)
		}
	})
}

func TestStateDirectoryUnusable(t *testing.T) {
	for _, tt := range []struct {
		name    string
		prepare func(t *testing.T, dir string) string
		want    string // a problem
		set     bool   // SetIntent works
	}{
		{"not there yet", func(_ *testing.T, dir string) string { return filepath.Join(dir, "a", "b") }, "", true},
		{"a file", func(t *testing.T, dir string) string {
			name := filepath.Join(dir, "f")
			if err := os.WriteFile(name, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			return name
		}, "make the state directory", false},
		{"unreadable files", func(t *testing.T, dir string) string {
			for _, f := range []string{incarnationFile, intentsFile} {
				if err := os.WriteFile(filepath.Join(dir, f), []byte("\x00\x01"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			return dir
		}, "read the in", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := tt.prepare(t, t.TempDir())
			inWorld(t, 2, func(w *world) {
				m, o := w.start("n0", func(s *Settings) { s.Dir = dir }), w.start("n1")
				w.ready([]*member{m, o})
				if got := m.told(); (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
					t.Errorf("problems: %s, want %q", got, tt.want)
				}
				err := m.SetIntent(Intent{Kind: "drain", Subject: "node:n1"})
				if tt.set != (err == nil) {
					t.Errorf("SetIntent: %v", err)
				}
				if n := len(m.View().Intents); tt.set != (n == 1) {
					t.Errorf("%d intents", n)
				}
				w.set(o, "freeze", "cluster", 0)
				w.within(lost, "what others ask for holds anyway", func() bool { return strings.Contains(told(m), "freeze") })
				m.cancel()
				if err := <-m.ended; tt.set != (err == nil) {
					t.Errorf("end of Run: %v", err)
				}
				delete(w.live, "n0")
			})
		})
	}
}

// A node is settled only when it has every state and intent that was listed to
// it, and intents are listed.
func TestNotSettledWithoutIntents(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		list := w.startAll()
		w.ready(list)
		w.set(list[0], "drain", "node:n1", 0)
		w.pass(time.Second)
		c := list[0].Cluster
		b := &intentBody{Kind: "freeze", Subject: "cluster"}
		text := []byte("\x00" + `{"kind":"freeze","subject":"cluster"}`)
		r := record{stamp: stamp{intentKey(b.Kind, b.Subject), version{9, 0, "n1"}}, body: text}
		now := time.Now()
		c.mu.Lock()
		m := c.digest(0)
		if !slices.ContainsFunc(m.stamps, func(s stamp) bool { return s.key == intentKey("drain", "node:n1") }) {
			t.Error("the digest does not list the intent")
		}
		p := c.peers["n1"]
		c.sync.begin(now)
		p.outOfStep()
		c.setCertainty(Settling)
		m.nonce, m.from = c.sync.nonce, "n1"
		c.mu.Unlock()
		m.stamps = append(m.stamps, r.stamp)
		c.takeDigest(p, m, now)
		if p.synced || settled(list[0]) {
			t.Error("settled although an intent is missing")
		}
		c.takeRecords(&message{from: "n1", records: []record{r}}, now)
		if !p.synced || !settled(list[0]) {
			t.Error("not settled although nothing is missing")
		}
	})
}
