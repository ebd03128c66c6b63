package cluster

import (
	"bytes"
	"compress/flate"
	"errors"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// Who closes a connection before saying anything is no stranger.
func TestClassify(t *testing.T) {
	for line, want := range map[string]ProblemCode{
		`discarding stream with unacceptable label "other": from=10.0.0.4:7946`:  ProblemWrongCluster,
		`discarding packet with unacceptable label "": from=10.0.0.4:7946`:       ProblemWrongCluster,
		`discarding stream with unacceptable label "": from=10.0.0.4:40286`:      "",
		`Decrypt packet failed: No installed keys could decrypt from=10.0.0.4:1`: ProblemWrongKey,
	} {
		if got, _ := classify(line); got != want {
			t.Errorf("%s: problem %q, want %q", line, got, want)
		}
	}
}

// Whoever does not belong here is named, and nobody is the worse for it.
func TestStrangers(t *testing.T) {
	otherKey := []byte("fedcba9876543210fedcba9876543210")
	for _, tt := range []struct {
		name   string
		change func(w *world, s *Settings) // of n3
		want   []string                    // in n0's problems
		n3     Liveness                    // as n0 sees it
		own    string                      // in n3's own problems
	}{
		{
			name:   "wrong key",
			change: func(_ *world, s *Settings) { s.Keys = [][]byte{otherKey} },
			want:   []string{"wrong-key n3 10.0.0.4: it sends what no key of this node opens"},
			n3:     Unknown,
			own:    "wrong-key n0 10.0.0.1: it sends what no key of this node opens",
		},
		{
			name:   "no key",
			change: func(_ *world, s *Settings) { s.Keys = nil },
			want:   []string{"wrong-key n3 10.0.0.4: it sends without encryption"},
			n3:     Unknown,
			own:    "wrong-key n0 10.0.0.1: it encrypts, this node has no keys",
		},
		{
			name:   "wrong cluster",
			change: func(_ *world, s *Settings) { s.Cluster = "other" },
			want:   []string{`wrong-cluster n3 10.0.0.4: it sends for cluster "other"`},
			n3:     Unknown,
			own:    `wrong-cluster n0 10.0.0.1: it sends for cluster "test"`,
		},
		{
			name: "unknown node",
			change: func(_ *world, s *Settings) {
				s.Nodes = append(s.Nodes, Node{"n9", "a", netip.MustParseAddr("10.0.0.99")})
				s.Self = "n9"
			},
			want: []string{"unknown-node n9 10.0.0.99:7946: node n9 at 10.0.0.99:7946 is not in the configuration"},
			n3:   Unknown,
		},
		{
			name: "name of another node",
			change: func(_ *world, s *Settings) {
				s.Nodes = slices.Clone(s.Nodes[:3])
				s.Nodes[1].Address = netip.MustParseAddr("10.0.0.99")
				s.Self = "n1"
			},
			want: []string{"name-conflict n1 10.0.0.99:7946: node n1 is at 10.0.0.99:7946, by the configuration at 10.0.0.2:7946"},
			n3:   Unknown,
		},
		{
			name:   "clock an hour ahead",
			change: func(_ *world, s *Settings) { s.Wall = func() time.Time { return time.Now().Add(time.Hour) } },
			want:   []string{"clock-off n3 10.0.0.4: its clock is 1h0m0s off this node's"},
			n3:     Alive,
			own:    "clock-off n3 10.0.0.4: the clock of this node differs from those of 3 of 3 others",
		},
		{
			name:   "clock of 1970",
			change: func(_ *world, s *Settings) { s.Wall = func() time.Time { return time.Unix(0, 0) } },
			want:   []string{"clock-off n3"},
			n3:     Alive,
			own:    "clock-off n3 10.0.0.4: the clock of this node differs",
		},
		{
			name:   "protocol of the far future",
			change: func(_ *world, s *Settings) { s.protocolMin, s.protocolMax = 3, 4 },
			want:   []string{"protocol-version n3 10.0.0.4:7946: it speaks protocol versions 3 to 4, this node 1 to 1"},
			n3:     Alive,
			own:    "protocol-version n0 10.0.0.1:7946: it speaks protocol versions 1 to 1, this node 3 to 4",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, 4, func(w *world) {
				list := []*member{w.start("n0"), w.start("n1"), w.start("n2")}
				w.within(4*time.Second, "three are settled", all(list, settled))
				w.ready(list)
				odd := w.start("n3", func(s *Settings) { tt.change(w, s) })
				odd.name = "odd"
				w.live["odd"] = odd
				delete(w.live, "n3")
				w.live["n1"] = list[1]
				w.publish(odd, 666)
				w.pass(5 * time.Second)
				for _, want := range tt.want {
					if got := list[0].told(); !strings.Contains(got, want) {
						t.Errorf("problems of n0:\n%swant %s", got, want)
					}
				}
				if got := odd.told(); tt.own != "" && !strings.Contains(got, tt.own) {
					t.Errorf("problems of the odd one:\n%swant %s", got, tt.own)
				}
				if got := list[0].see("n3").Liveness; got != tt.n3 {
					t.Errorf("n3 is %s, want %s", got, tt.n3)
				}
				for _, m := range list {
					if !settled(m) {
						t.Errorf("%s is %s", m.name, m.View().Certainty)
					}
					for _, o := range list {
						if v := m.see(o.name); v.Liveness != Alive || v.State == nil || v.State.Load != 1 {
							t.Errorf("%s: %s is %s with state %+v", m.name, o.name, v.Liveness, v.State)
						}
					}
				}
				w.publish(list[0], 2)
				w.within(lost, "changes go on", all(list, func(m *member) bool { return m.see("n0").State.Load == 2 }))
				w.publish(list[0], 1)
				odd.kill()
				delete(w.live, "odd")
				w.pass(time.Second) // what was under way has arrived
				list[0].mu.Lock()
				for _, q := range list[0].problems.list {
					q.at = q.at.Add(-problemFor)
				}
				list[0].mu.Unlock()
				w.pass(2 * time.Second)
				if got := list[0].told(); got != "" {
					t.Errorf("problems that nobody makes any more:\n%s", got)
				}
			})
		})
	}
}

// Two processes under one name and address, as after a host was cloned: each
// keeps raising its incarnation above the other's, which is noticed.
func TestTwoOfOneName(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		list := w.startAll()
		w.ready(list)
		// The clone gets n2's packets, n2 can still send.
		clone := w.start("n2")
		clone.name = "clone"
		w.live["clone"] = clone
		w.live["n2"] = list[2]
		for i := range 20 {
			w.publish(list[2], 100+i)
			w.publish(clone, 200+i)
			w.pass(2 * time.Second)
		}
		if got := list[2].told() + clone.told(); !strings.Contains(got, "name-conflict n2") {
			t.Errorf("problems:\n%s", got)
		}
		if !settled(list[0]) || list[0].see("n1").Liveness != Alive {
			t.Error("the others are the worse for it")
		}
	})
}

func TestDigestDiffers(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		list := w.startAll()
		w.ready(list)
		if err := list[1].Publish(State{Site: "a", Digest: "e"}); err != nil {
			t.Fatal(err)
		}
		w.within(lost, "n0 says so", func() bool {
			return strings.Contains(list[0].told(), `digest-differs n1 10.0.0.2: its configuration has digest "e", this node's "d"`)
		})
		w.publish(list[1], 1)
		w.within(lost, "it is over", func() bool { return list[0].told() == "" })
	})
}

// A rolling upgrade: the cluster speaks what the oldest understands, and the
// new version once all have it.
func TestUpgrade(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		speaks := func(low, high uint8) func(*Settings) {
			return func(s *Settings) { s.protocolMin, s.protocolMax = low, high }
		}
		list := w.startAll(speaks(1, 1))
		w.ready(list)
		for i := range list {
			list[i].kill()
			list[i] = w.start(w.nodes[i].Name, speaks(1, 2))
			w.ready(list)
			want := 1
			if i == len(list)-1 {
				want = 2
			}
			w.within(lost, "they agree", all(list, func(m *member) bool { return m.View().Protocol == want }))
			w.publish(list[i], 5)
			w.within(lost, "they understand each other", all(list, func(m *member) bool { return m.see(w.nodes[i].Name).State.Load == 5 }))
			w.publish(list[i], 1)
			w.within(lost, "back", all(list, func(m *member) bool { return m.see(w.nodes[i].Name).State.Load == 1 }))
		}
		for _, m := range list {
			if p := m.told(); p != "" {
				t.Errorf("%s:\n%s", m.name, p)
			}
		}
	})
}

// What a newer version puts into a state reaches a node that can read it by
// way of nodes that cannot.
func TestUnknownFieldsAreRelayed(t *testing.T) {
	inWorld(t, 4, func(w *world) {
		list := w.startAll()
		w.ready(list)
		a, b := w.nodes[0].Address, w.nodes[3].Address
		w.net.block(func(from, to netip.Addr, _ bool) bool { return from == a && to == b || from == b && to == a })
		m := list[0]
		m.mu.Lock()
		err := m.put(recordState, []byte(`{"load":42,"moon":{"phase":["new"]}}`), &stateBody{State: State{Load: 42}})
		m.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		w.within(lost, "n3 has it", func() bool { return list[3].see("n0").State.Load == 42 })
		list[3].mu.Lock()
		body := string(list[3].store.entries[recordKey{recordState, "n0"}].body)
		list[3].mu.Unlock()
		if !strings.Contains(body, `"moon":{"phase":["new"]}`) {
			t.Errorf("n3 was given %q", body)
		}
	})
}

// A node whose state directory was lost counts from the beginning; it learns
// from the others what it said last, and goes above.
func TestStateDirectoryLost(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		dir := t.TempDir()
		keep := func(s *Settings) { s.Dir = dir }
		for range 5 {
			w.start("n2", keep).kill()
		}
		list := []*member{w.start("n0"), w.start("n1"), w.start("n2", keep)}
		w.ready(list)
		was := list[0].see("n2").Incarnation
		if was>>lifeBits != 6 {
			t.Errorf("life %d after 6 starts", was>>lifeBits)
		}
		list[2].kill()
		empty := t.TempDir()
		list[2] = w.start("n2", func(s *Settings) { s.Dir = empty })
		w.publish(list[2], 77)
		took := w.within(lost, "its state is believed", all(list[:2], func(m *member) bool {
			v := m.see("n2")
			return v.State != nil && v.State.Load == 77 && v.Incarnation > was
		}))
		t.Log("believed after", took)
		w.pass(time.Second)
		list[2].kill()
		list[2] = w.start("n2", func(s *Settings) { s.Dir = empty })
		if got := list[2].incarnation >> lifeBits; got != 8 {
			t.Errorf("life %d, want 8: what was learned is kept", got)
		}
		if p := list[2].told(); p != "" {
			t.Error(p)
		}
	})
}

// A shrunken replay of hostile bytes from a member: refused and named.
func TestHostileMessages(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		list := w.startAll()
		w.ready(list)
		bomb, err := (&codec{}).pack([]byte(`{"site":"` + strings.Repeat("x", maxBody-20) + `"}`))
		if err != nil {
			t.Fatal(err)
		}
		at := func(name string, hi uint64) stamp {
			return stamp{recordKey{recordState, name}, version{hi, 9, name}}
		}
		list[1].mu.Lock()
		high := list[1].incarnation
		list[1].mu.Unlock()
		for _, m := range []*message{
			{kind: messageRecords, records: []record{{stamp: at("n1", high), body: bomb}}},
			{kind: messageRecords, records: []record{{stamp: at("n1", high), body: []byte{7, 1, 2}}}},
			{kind: messageRecords, records: []record{{stamp: at("n1", high), body: nil}}},
			{kind: messageRecords, records: []record{{stamp: at("n1", 1<<63), body: []byte("\x00{}")}}},
			{kind: messageRecords, records: []record{{stamp: at("nobody", 1), body: []byte("\x00{}")}}},
			{kind: messageRecords, records: []record{{stamp: stamp{recordKey{recordIntent, "drain/x"}, version{1 << 61, 0, "n1"}}, body: []byte("\x00{}")}}},
			{kind: messageRecords, records: []record{{stamp: stamp{recordKey{recordIntent, "drain/x"}, version{5, 0, "n1"}}, body: []byte(`` + "\x00" + `{"kind":"drain","subject":"y"}`)}}},
			{kind: messageRecords, records: []record{{stamp: stamp{recordKey{99, "x"}, version{1, 1, "n1"}}}}},
			{kind: messageDigest, stamps: []stamp{at("n0", 1<<63), at("n1", 1<<63), at("nobody", 3), {recordKey{99, "x"}, version{1, 1, "n1"}}}},
			{kind: messageNotice, stamps: []stamp{at("n0", 1<<63), at("nobody", 3), {recordKey{99, "x"}, version{1, 1, "n1"}}}},
			{kind: messageKeyChange, op: 99, key: []byte("short")},
			{kind: messageKeyChange, op: keyAdd, key: []byte("short")},
			{kind: messageKeyAnswer, nonce: 12, text: "?"},
			{kind: 200},
		} {
			m.from = "n1"
			list[0].hooks.NotifyMsg(m.encode(1))
		}
		list[0].hooks.NotifyMsg([]byte("GET / HTTP/1.1"))
		list[0].hooks.NotifyMsg(nil)
		(&message{kind: messageHello, from: "mallory"}).encode(1)
		list[0].hooks.NotifyMsg((&message{kind: messageHello, from: "mallory"}).encode(1))
		w.pass(time.Second)
		got := list[0].told()
		for _, want := range []string{"bad-message", `unknown-node mallory : a message from "mallory"`} {
			if !strings.Contains(got, want) {
				t.Errorf("problems:\n%swant %s", got, want)
			}
		}
		if list[0].lamport > 100 {
			t.Errorf("Lamport time %d was believed", list[0].lamport)
		}
		if n := len(list[0].keyring.GetKeys()); n != 1 {
			t.Errorf("%d keys", n)
		}
		w.publish(list[1], 2)
		w.publish(list[0], 3)
		w.within(lost, "the cluster goes on", all(list, func(m *member) bool {
			return m.see("n1").State.Load == 2 && m.see("n0").State.Load == 3 && settled(m)
		}))
	})
}

// A body that unfolds to gigabytes costs no more than the limit.
func TestBomb(t *testing.T) {
	c := &codec{}
	var buf bytes.Buffer
	buf.WriteByte(bodyDeflate)
	z, err := flate.NewWriter(&buf, flate.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	for range 64 {
		if _, err := z.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if buf.Len() > maxPacked {
		t.Fatalf("%d bytes: not even taken", buf.Len())
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err = c.unpack(buf.Bytes(), &stateBody{})
	runtime.ReadMemStats(&after)
	if !errors.Is(err, errBody) {
		t.Errorf("error %v", err)
	}
	if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 40 {
		t.Errorf("%d MiB were allocated", mb)
	}
}
