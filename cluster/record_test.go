package cluster

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// drawn makes records of few keys, versions and bodies, so that every kind of
// collision happens.
func drawn(pick func(n int) int, n int) []record {
	list := make([]record, n)
	for i := range list {
		k := recordKey{recordKind(1 + pick(3)), fmt.Sprint("n", pick(2))}
		origin := k.name
		if k.kind == recordIntent {
			origin = fmt.Sprint("n", pick(3))
		}
		list[i] = record{
			stamp: stamp{k, version{uint64(pick(3)), uint64(pick(3)), origin}},
			body:  []byte{byte(pick(3))},
		}
	}
	return list
}

// content is what matters of a store.
func content(s *store) map[string]string {
	m := map[string]string{}
	for k, e := range s.entries {
		m[fmt.Sprint(k)] = fmt.Sprint(e.ver, e.body)
	}
	return m
}

func merged(lists ...[]record) *store {
	s := newStore()
	for _, l := range lists {
		for _, r := range l {
			s.merge(r, nil, time.Time{})
		}
	}
	return s
}

// held are the records of a store, in the order of a map.
func held(s *store) []record {
	var list []record
	for _, e := range s.entries {
		list = append(list, e.record)
	}
	return list
}

// checkMerge holds merge to what the package promises of it.
func checkMerge(t *testing.T, a, b, c []record, shuffle func(n int, swap func(i, j int))) {
	t.Helper()
	ab := content(merged(a, b))
	if d := cmp.Diff(ab, content(merged(b, a))); d != "" {
		t.Errorf("not commutative:\n%s", d)
	}
	if d := cmp.Diff(ab, content(merged(a, b, b, a, held(merged(a, b))))); d != "" {
		t.Errorf("not idempotent:\n%s", d)
	}
	left := merged(held(merged(a, b)), c)
	right := merged(a, held(merged(b, c)))
	if d := cmp.Diff(content(left), content(right)); d != "" {
		t.Errorf("not associative:\n%s", d)
	}
	mixed := append(append(append([]record(nil), a...), b...), c...)
	shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
	if d := cmp.Diff(content(left), content(merged(mixed))); d != "" {
		t.Errorf("the order of arrival matters:\n%s", d)
	}
	for _, r := range mixed {
		if e := left.entries[r.key]; e == nil || r.newer(e.record) {
			t.Errorf("%v is newer than what was kept", r.stamp)
		}
	}
	if miss := left.missing(left.stamps()); len(miss) > 0 {
		t.Errorf("a store lacks what it has: %v", miss)
	}
}

func TestMerge(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		n := rng.IntN(6)
		checkMerge(t, drawn(rng.IntN, n), drawn(rng.IntN, n), drawn(rng.IntN, n), rng.Shuffle)
		if t.Failed() {
			return
		}
	}
}

func FuzzMerge(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9})
	f.Add([]byte{0, 0, 0, 1, 1, 1, 2, 2, 2, 0, 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		i := 0
		pick := func(n int) int {
			if i >= len(b) {
				return 0
			}
			i++
			return int(b[i-1]) % n
		}
		size := 1 + pick(6)
		x, y, z := drawn(pick, size), drawn(pick, size), drawn(pick, size)
		checkMerge(t, x, y, z, func(n int, swap func(i, j int)) {
			for j := n - 1; j > 0; j-- {
				swap(j, pick(j+1))
			}
		})
	})
}

// A guess of what is left of an intent gives way to knowledge, and knowledge
// to nothing.
func TestCorrect(t *testing.T) {
	now := time.Unix(1000, 0)
	at := stamp{recordKey{recordIntent, "drain/x"}, version{3, 0, "n1"}}
	with := func(guessed bool, left time.Duration) record {
		return record{stamp: at, life: life{bounded: true, guessed: guessed, left: left}}
	}
	for _, tt := range []struct {
		name       string
		have, come record
		want       time.Duration
		changed    bool
	}{
		{"knowledge for a guess", with(true, time.Minute), with(false, time.Hour), time.Hour, true},
		{"guess for a guess", with(true, time.Minute), with(true, time.Hour), time.Minute, false},
		{"guess for knowledge", with(false, time.Minute), with(true, time.Hour), time.Minute, false},
		{"knowledge for knowledge", with(false, time.Minute), with(false, time.Hour), time.Minute, false},
	} {
		s := newStore()
		s.merge(tt.have, nil, now)
		changed := s.correct(tt.come, now)
		r, _ := s.get(at.key, now)
		if r.life.left != tt.want || changed != tt.changed {
			t.Errorf("%s: %s left, changed %t", tt.name, r.life.left, changed)
		}
	}
}
