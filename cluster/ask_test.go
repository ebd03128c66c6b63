package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// answering sets what a node answers.
func answering(f func(ctx context.Context, from, subject, argument string) ([]byte, error)) func(*Settings) {
	return func(s *Settings) { s.Answer = f }
}

// sized answers with as many bytes as it is asked for.
func sized(_ context.Context, from, subject, argument string) ([]byte, error) {
	var n int
	if _, err := fmt.Sscan(argument, &n); err != nil {
		return nil, fmt.Errorf("%s asks about %s, which is unknown", from, subject)
	}
	return []byte(`"` + strings.Repeat("0123456789 10.9.1.1:9100 HTTP 200 ", n/30+1)[:n-2] + `"`), nil
}

// underWay is how many questions a node has asked or is answering.
func underWay(m *member) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.questions) + m.answering
}

func TestAsk(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		list := w.startAll(answering(sized))
		w.ready(list)
		for _, tt := range []struct {
			name, argument string
			size           int
			err            string
		}{
			{"small", "20", 20, ""},
			{"more than a packet", "100000", 100000, ""},
			{"all that a body may have", fmt.Sprint(maxBody), maxBody, ""},
			{"more than that", fmt.Sprint(maxBody + 1), 0, "n2 answers: an answer of 4194305 bytes: a body that is neither"},
			{"unknown", "checks", 0, "n2 answers: n0 asks about size, which is unknown"},
			{"too long to ask", strings.Repeat("1", maxArgument+1), 0, "a question has at most 255 bytes of subject and 4096 of argument"},
		} {
			began := time.Now()
			text, err := list[0].Ask(w.t.Context(), "n2", "size", tt.argument)
			took := time.Since(began)
			t.Logf("%s: %d bytes after %s", tt.name, len(text), took)
			if len(text) != tt.size || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) || errors.Is(err, ErrUnanswered) {
				t.Errorf("%s: %d bytes, %v; want %d, %q", tt.name, len(text), err, tt.size, tt.err)
			}
			if took > 100*time.Millisecond {
				t.Errorf("%s: after %s", tt.name, took)
			}
		}
		synctest.Wait()
		for _, m := range list {
			if p, n := m.told(), underWay(m); p != "" || n > 0 {
				t.Errorf("%s: %d questions are left; %s", m.name, n, p)
			}
		}
	})
}

// Whoever does not answer, it is said what is seen of him.
func TestUnanswered(t *testing.T) {
	never := func(ctx context.Context, _, _, _ string) ([]byte, error) {
		<-ctx.Done()
		<-time.After(time.Second) // it does not even end in time
		return nil, ctx.Err()
	}
	for _, tt := range []struct {
		name   string
		n2     func(*Settings)
		before func(w *world, list []*member)
		ask    string
		want   string
		after  time.Duration
	}{
		{
			name: "dead", n2: answering(sized), ask: "n2", want: "n2 does not answer: it is dead since 2000-01-01T00:0",
			before: func(w *world, list []*member) {
				list[2].kill()
				w.within(2*time.Second, "n2 is dead", func() bool { return list[0].see("n2").Liveness == Dead })
				w.pass(8 * time.Second)
			},
		},
		{
			name: "dead, and nobody has noticed yet", n2: answering(sized), ask: "n2", want: "n2 does not answer: it is dead since", after: time.Second,
			before: func(_ *world, list []*member) { list[2].kill() },
		},
		{
			name: "left", n2: answering(sized), ask: "n2", want: "n2 does not answer: it left at 2000-01-01T00:00:03Z, 0s ago: upgrade",
			before: func(w *world, list []*member) {
				if err := list[2].Leave(w.t.Context(), "upgrade"); err != nil {
					w.t.Fatal(err)
				}
				list[2].kill()
				w.within(time.Second, "n2 has left", func() bool { return list[0].see("n2").Liveness == Left })
			},
		},
		{name: "not seen yet", n2: answering(sized), ask: "n3", want: "n3 does not answer: it was not seen since this node started: failed to join 10.0.0.4:7946: dial 10.0.0.4:7946: connection refused"},
		{name: "not configured", n2: answering(sized), ask: "n9", want: "n9 does not answer: it is not another node of this cluster"},
		{name: "itself", n2: answering(sized), ask: "n0", want: "n0 does not answer: it is not another node of this cluster"},
		{name: "of a version without answers", n2: answering(nil), ask: "n2", want: "n2 does not answer: it runs version 1, which answers no questions of other nodes"},
		{name: "hung", n2: answering(never), ask: "n2", want: "n2 does not answer: asked 3s ago, last heard ", after: askTimeout},
		{
			name: "no connection", n2: answering(sized), ask: "n2", want: "ago, dial 10.0.0.3:7946: i/o timeout", after: askTimeout,
			before: func(w *world, _ []*member) {
				from, to := w.nodes[2].Address, w.nodes[0].Address
				w.net.block(func(a, b netip.Addr, stream bool) bool {
					return stream && (a == from && b == to || a == to && b == from)
				})
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, 4, func(w *world) {
				list := []*member{w.start("n0"), w.start("n1"), w.start("n2", tt.n2)}
				w.within(4*time.Second, "three are settled", all(list, settled))
				w.ready(list)
				if tt.before != nil {
					tt.before(w, list)
				}
				began := time.Now()
				_, err := list[0].Ask(w.t.Context(), tt.ask, "size", "20")
				if !errors.Is(err, ErrUnanswered) || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("error %v, want %q", err, tt.want)
				}
				t.Log(err)
				if took := time.Since(began); took > tt.after || tt.after == askTimeout && took < askTimeout {
					t.Errorf("after %s, want %s", took, tt.after)
				}
			})
		})
	}
}

// Questions that take their time are few, and nothing else waits for them.
func TestAskedTooMuch(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		goOn := make(chan struct{})
		slow := func(ctx context.Context, from, _, _ string) ([]byte, error) {
			select {
			case <-goOn:
			case <-ctx.Done():
			}
			return []byte(`"` + from + `"`), nil
		}
		list := w.startAll(answering(slow))
		w.ready(list)
		var wg sync.WaitGroup
		for i := range maxAnswering {
			wg.Go(func() {
				text, err := list[i%2].Ask(w.t.Context(), "n2", "who", "")
				if want := `"` + list[i%2].name + `"`; err != nil || string(text) != want {
					t.Errorf("answer %s, %v; want %s", text, err, want)
				}
			})
		}
		w.within(time.Second, "all are being answered", func() bool { return underWay(list[2]) == maxAnswering })
		_, err := list[0].Ask(w.t.Context(), "n2", "who", "")
		if err == nil || !strings.Contains(err.Error(), "n2 answers: it answers 4 other questions at this moment, ask again") {
			t.Errorf("one more: %v", err)
		}
		w.publish(list[2], 7)
		if took := w.within(time.Second, "a change is there", all(list, func(m *member) bool { return m.see("n2").State.Load == 7 })); took > 50*time.Millisecond {
			t.Errorf("a change took %s meanwhile", took)
		}
		close(goOn)
		wg.Wait()
		w.within(time.Second, "room again", func() bool { return underWay(list[2]) == 0 })
		if text, err := list[1].Ask(w.t.Context(), "n2", "who", ""); string(text) != `"n1"` {
			t.Errorf("afterwards: %s, %v", text, err)
		}
	})
}

// Answers that nobody waits for, that another node gives, or that cannot be
// read; and messages of a kind that only later versions know.
func TestOddAnswers(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		list := []*member{w.start("n0"), w.start("n1"), w.start("n2", answering(func(ctx context.Context, _, _, _ string) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}))}
		w.ready(list)
		hear := func(m *message) { list[0].inbox <- m.encode(1) }
		ask := func() chan error {
			done := make(chan error, 1)
			go func() {
				_, err := list[0].Ask(w.t.Context(), "n2", "who", "")
				done <- err
			}()
			synctest.Wait()
			return done
		}
		pending := func() (id uint64) {
			list[0].mu.Lock()
			defer list[0].mu.Unlock()
			for id = range list[0].questions {
			}
			return id
		}
		hear(&message{kind: messageAnswer, from: "n2", nonce: 5, body: []byte("?")})
		done := ask()
		hear(&message{kind: messageAnswer, from: "n1", nonce: pending(), text: "I am not n2"})
		hear(&message{kind: messageAnswer, from: "n2", nonce: pending() + 1, text: "of another question"})
		hear(&message{kind: messageKind(99), from: "n2"})
		synctest.Wait()
		if len(done) > 0 {
			t.Errorf("it was taken: %v", <-done)
		}
		for range 3 { // only one is waited for
			hear(&message{kind: messageAnswer, from: "n2", nonce: pending(), body: []byte{bodyDeflate, 0xff, 0xff}})
		}
		if err := <-done; err == nil || !strings.Contains(err.Error(), "the answer of n2: inflate a body") {
			t.Errorf("a body that cannot be read: %v", err)
		}
		w.pass(time.Second)
		if p := list[0].told(); p != "" {
			t.Errorf("problems:\n%s", p)
		}
	})
}

// What a node says of itself in memberlist's meta data, also of other versions.
func TestMeta(t *testing.T) {
	m := meta{low: 1, high: 2, incarnation: 1<<64 - 1, flags: metaAnswers}
	b := m.encode()
	if len(b) != 14 {
		t.Errorf("%d bytes", len(b))
	}
	for _, tt := range []struct {
		name string
		b    []byte
		want meta
		ok   bool
	}{
		{"ours", b, m, true},
		{"with more behind it", append(b[:len(b):len(b)], 1, 2), m, true},
		{"of a version without flags", b[:len(b)-1], meta{1, 2, m.incarnation, 0}, true},
		{"cut", b[:8], meta{}, false},
		{"of something else", []byte("X123456"), meta{}, false},
		{"versions the wrong way round", []byte{metaMagic, 2, 1, 0, 0}, meta{}, false},
	} {
		if got, ok := parseMeta(tt.b); got != tt.want || ok != tt.ok {
			t.Errorf("%s: %+v, %t", tt.name, got, ok)
		}
	}
}

func FuzzMeta(f *testing.F) {
	f.Add(meta{low: 1, high: 2, incarnation: 7 << lifeBits, flags: metaAnswers}.encode())
	f.Add([]byte{metaMagic, 1, 1, 5}) // of a version without flags
	f.Fuzz(func(t *testing.T, b []byte) {
		m, ok := parseMeta(b)
		if !ok {
			return
		}
		again, ok := parseMeta(m.encode())
		if !ok || again != m || len(m.encode()) > 14 {
			t.Fatalf("%+v became %+v", m, again)
		}
	})
}
