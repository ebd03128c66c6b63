package checks

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// said makes members of a short form: u(p), d(own), ? for unknown, - for one
// that abstains.
func said(states string) []Member {
	kinds := map[rune]State{'u': Up, 'd': Down, '?': Unknown, '-': Abstains}
	var ms []Member
	for i, c := range states {
		m := Member{ID: "s" + string(rune('1'+i)), State: kinds[c]}
		if m.State == Down {
			m.Why = "refused"
		}
		ms = append(ms, m)
	}
	return ms
}

// poolOf makes the servers of a short form: each its weight, with a b behind
// it for a backup.
func poolOf(servers string) Pool {
	var p Pool
	for i, text := range strings.Fields(servers) {
		s := Server{ID: "s" + string(rune('1'+i))}
		weight, isBackup := strings.CutSuffix(text, "b")
		s.Backup = isBackup
		if _, err := fmt.Sscan(weight, &s.Weight); err != nil {
			panic(err)
		}
		p.Servers = append(p.Servers, s)
	}
	return p
}

func TestPool(t *testing.T) {
	tests := []struct {
		name    string
		servers string
		low     Quorum
		states  string
		want    string
	}{
		{"all up", "1 1 1 1", Quorum{N: 2}, "uuuu", "up: 4 of 4 servers up, 2 needed"},
		{"one server", "1", Quorum{N: 1}, "u", "up: 1 of 1 server up, 1 needed"},
		{"too few", "1 1 1 1", Quorum{N: 3}, "uudd", "down: 2 of 4 servers up, 3 needed; s3: refused; s4: refused"},
		{"enough before all are known", "1 1 1", Quorum{N: 1}, "u??", "up: 1 of 3 servers up, 1 needed; s2: not known yet; s3: not known yet"},
		{"may still become up", "1 1 1", Quorum{N: 2}, "ud?", "unknown: 1 of 3 servers up, 2 needed; s2: refused; s3: not known yet"},
		{"can no longer become up", "1 1 1", Quorum{N: 2}, "dd?", "down: 0 of 3 servers up, 2 needed; s1: refused; s2: refused; s3: not known yet"},
		{"half of three is two", "1 1 1", Quorum{Percent: 50}, "udu", "up: 2 of 3 servers up, 2 needed; s2: refused"},
		{"more needed than there are", "1 1", Quorum{N: 3}, "uu", "down: 2 of 2 servers up, 3 needed"},
		{"one big server suffices", "3 1 1 1", Quorum{Percent: 50}, "uddd", "up: 3 of 6 of the servers' weight up, 3 needed; s2: refused; s3: refused; s4: refused"},
		{"three small ones do too", "3 1 1 1", Quorum{Percent: 50}, "duuu", "up: 3 of 6 of the servers' weight up, 3 needed; s1: refused"},
		{"two small ones do not", "3 1 1 1", Quorum{Percent: 50}, "duud", "down: 2 of 6 of the servers' weight up, 3 needed; s1: refused; s4: refused"},
		{"backups do not count while there are enough", "1 1 1b", Quorum{N: 1}, "udu", "up: 1 of 2 servers up, 1 needed; s2: refused"},
		{"a backup makes up for another", "1 1 1b", Quorum{N: 2}, "udu", "up backup: 2 of 3 servers up, 2 needed (with backup servers); s2: refused"},
		{"percentages are of those that are no backups", "1 1 1b 1b", Quorum{Percent: 100}, "uddu", "up backup: 2 of 4 servers up, 2 needed (with backup servers); s2: refused; s3: refused"},
		{"backups do not suffice", "1 1 1b", Quorum{N: 2}, "ddu", "down backup: 1 of 3 servers up, 2 needed (with backup servers); s1: refused; s2: refused"},
		{"who abstains is left out", "1 1 1 1", Quorum{Percent: 50}, "u-d-", "up: 1 of 2 servers up, 1 needed, 2 abstain; s3: refused"},
		{"… and is not needed", "1 1 1", Quorum{N: 2}, "u--", "up: 1 of 1 servers up, 1 needed, 2 abstain"},
		{"all abstain", "1 1", Quorum{N: 1}, "--", "abstains: 0 of 0 servers up, 1 needed, 2 abstain"},
		{"a sentence names five", "1 1 1 1 1 1 1", Quorum{N: 1}, "ddddddd", "down: 0 of 7 servers up, 1 needed; s1: refused; s2: refused; s3: refused; s4: refused; s5: refused; and 2 more"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := poolOf(tt.servers)
			p.Low = tt.low
			st := p.judge(said(tt.states), new(poolMemory), time.Now(), true)
			got := st.state.String()
			if st.backup {
				got += " backup"
			}
			if got += ": " + st.detail; got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestPoolWatermarks: it goes down below two, and comes back with three.
func TestPoolWatermarks(t *testing.T) {
	p := poolOf("1 1 1 1")
	p.Low, p.High = Quorum{N: 2}, Quorum{N: 3}
	mem, now := new(poolMemory), time.Now()
	steps := []struct {
		states string
		want   State
	}{
		{"????", Unknown}, {"uu??", Up}, {"uudd", Up}, {"uddd", Down}, {"uudd", Down}, {"uuud", Up},
		{"uudd", Up}, {"uddd", Down}, {"uu?d", Unknown}, {"uuud", Up},
	}
	for i, s := range steps {
		if got := p.judge(said(s.states), mem, now, true); got.state != s.want {
			t.Errorf("step %d, %s: %s (%s), want %s", i, s.states, got.state, got.detail, s.want)
		}
		if got := p.judge(said("dddd"), mem, now, false); got.state != Down { // only a look
			t.Errorf("step %d: %s", i, got.state)
		}
	}
}

// TestPoolSlowStart: a server that was down counts after ten seconds, at the
// start all count at once.
func TestPoolSlowStart(t *testing.T) {
	p := poolOf("1 1")
	p.Low, p.SlowStart = Quorum{N: 2}, 10*time.Second
	mem, began := new(poolMemory), time.Now()
	steps := []struct {
		at     time.Duration
		states string
		want   State
		next   time.Duration // 0 is never
	}{
		{0, "u?", Unknown, 0}, {1, "uu", Up, 0}, {2, "ud", Down, 0}, {3, "uu", Down, 13},
		{12, "uu", Down, 13}, {13, "uu", Up, 0}, {14, "ud", Down, 0}, {15, "uu", Down, 25}, {20, "ud", Down, 0}, {24, "uu", Down, 34},
	}
	for _, s := range steps {
		now := began.Add(s.at * time.Second)
		got := p.judge(said(s.states), mem, now, true)
		if got.state != s.want {
			t.Errorf("after %d s: %s (%s), want %s", s.at, got.state, got.detail, s.want)
		}
		if want := began.Add(s.next * time.Second); s.next > 0 && !got.next.Equal(want) || s.next == 0 && !got.next.IsZero() {
			t.Errorf("after %d s: changes at %s, want after %d s", s.at, got.next, s.next)
		}
	}
}

func TestQuorumNeed(t *testing.T) {
	tests := []struct {
		q     Quorum
		total int
		want  int
	}{
		{Quorum{N: 2}, 4, 2}, {Quorum{}, 4, 1}, {Quorum{Percent: 1}, 10, 1},
		{Quorum{Percent: 50}, 4, 2}, {Quorum{Percent: 51}, 4, 3}, {Quorum{Percent: 34}, 3, 2},
		{Quorum{Percent: 33}, 3, 1}, {Quorum{Percent: 100}, 7, 7}, {Quorum{Percent: 50}, 0, 1},
	}
	for _, tt := range tests {
		if got := tt.q.Need(tt.total); got != tt.want {
			t.Errorf("%+v of %d: need %d, want %d", tt.q, tt.total, got, tt.want)
		}
	}
}
