package checks

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func members(states string) []Member {
	kinds := map[rune]State{'u': Up, 'd': Down, '?': Unknown}
	var ms []Member
	for i, c := range states {
		m := Member{ID: "10.9.1." + string(rune('1'+i)) + ":9100", State: kinds[c]}
		if m.State == Down {
			m.Why = "connection refused"
		}
		ms = append(ms, m)
	}
	return ms
}

func TestPoolOf(t *testing.T) {
	tests := []struct {
		name   string
		states string
		quorum Quorum
		want   PoolState
	}{
		{"all up", "uuuu", Quorum{N: 2},
			PoolState{Up, 4, 0, 0, 2, "4 of 4 servers up, 2 needed"}},
		{"one server", "u", Quorum{N: 1},
			PoolState{Up, 1, 0, 0, 1, "1 of 1 server up, 1 needed"}},
		{"too few", "uudd", Quorum{N: 3},
			PoolState{Down, 2, 2, 0, 3, "2 of 4 servers up, 3 needed; 10.9.1.3:9100: connection refused; 10.9.1.4:9100: connection refused"}},
		{"enough before all are known", "u???", Quorum{N: 1},
			PoolState{Up, 1, 0, 3, 1, "1 of 4 servers up, 1 needed; 10.9.1.2:9100: not known yet; 10.9.1.3:9100: not known yet; 10.9.1.4:9100: not known yet"}},
		{"may still become up", "ud?", Quorum{N: 2},
			PoolState{Unknown, 1, 1, 1, 2, "1 of 3 servers up, 2 needed; 10.9.1.2:9100: connection refused; 10.9.1.3:9100: not known yet"}},
		{"can no longer become up", "dd?", Quorum{N: 2},
			PoolState{Down, 0, 2, 1, 2, "0 of 3 servers up, 2 needed; 10.9.1.1:9100: connection refused; 10.9.1.2:9100: connection refused; 10.9.1.3:9100: not known yet"}},
		{"nothing known", "??", Quorum{N: 1},
			PoolState{Unknown, 0, 0, 2, 1, "0 of 2 servers up, 1 needed; 10.9.1.1:9100: not known yet; 10.9.1.2:9100: not known yet"}},
		{"half of three is two", "udu", Quorum{Percent: 50},
			PoolState{Up, 2, 1, 0, 2, "2 of 3 servers up, 2 needed; 10.9.1.2:9100: connection refused"}},
		{"all of them", "uu", Quorum{Percent: 100},
			PoolState{Up, 2, 0, 0, 2, "2 of 2 servers up, 2 needed"}},
		{"no server", "", Quorum{Percent: 50},
			PoolState{Down, 0, 0, 0, 1, "0 of 0 servers up, 1 needed"}},
		{"more needed than there are", "uu", Quorum{N: 3},
			PoolState{Down, 2, 0, 0, 3, "2 of 2 servers up, 3 needed"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := PoolOf(members(tt.states), tt.quorum)
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestPoolDetailIsBounded(t *testing.T) {
	got := PoolOf(members("ddddddddd"), Quorum{N: 1}).Detail
	if n := strings.Count(got, "refused"); n != poolNames {
		t.Errorf("names %d servers, want %d: %s", n, poolNames, got)
	}
	if !strings.HasSuffix(got, "; and 4 more") {
		t.Errorf("does not say how many more there are: %s", got)
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
