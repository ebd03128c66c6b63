package checks

import (
	"fmt"
	"strings"
	"time"
)

// poolNames bounds how many servers or checks a sentence names.
const poolNames = 5

// Quorum is how many of several must be up: N of them, or a percentage of all
// when Percent is not 0.
type Quorum struct {
	N       int
	Percent int // 1 to 100
}

// Need returns the number out of total that must be up. A percentage is
// rounded up, and at least one is always needed.
func (q Quorum) Need(total int) int {
	n := q.N
	if q.Percent > 0 {
		n = (total*q.Percent + 99) / 100
	}
	return max(n, 1)
}

// Server is one server of a pool.
type Server struct {
	ID     string // how people know it: "10.9.1.1:9100"
	Weight int    // 0 is 1
	Backup bool   // counts only while the others are too few
}

func (s Server) weight() int { return max(s.Weight, 1) }

// Pool says when servers together are up. They are counted by their weight,
// which is 1 unless it is set; percentages are of those that are no backups.
type Pool struct {
	Servers   []Server
	Low       Quorum        // Down with fewer
	High      Quorum        // once Down, Up again with as many; zero is Low
	SlowStart time.Duration // a server that was down counts when it has been up this long
}

// Member is what is said of one server, or of one check.
type Member struct {
	ID          string // how people know it
	State       State
	Why         string // one sentence
	Degraded    bool
	Maintenance bool
}

// poolState is the one answer that the servers of a pool give together.
type poolState struct {
	state   State
	up      int // weight that is up and counts
	down    int // that is down, or does not count yet
	unknown int // of which nothing is known yet
	need    int // that must be up
	backup  bool
	detail  string    // one sentence with the servers that are not up
	next    time.Time // when it changes by time alone; zero when it will not
}

// poolMemory is what a pool remembers from one judgement to the next.
type poolMemory struct {
	fell    bool // below Low, and not at High since
	servers map[string]serverMemory
}

type serverMemory struct {
	fell     bool      // Down, and not counting since
	returned time.Time // when it was Up again
}

// judge joins what is said of the servers, in the order of p.Servers, at time
// now. The pool is Up as soon as enough servers are, whatever is still unknown;
// Down as soon as the unknown ones could no longer make it up; and Unknown in
// between. Servers that abstain are left out, and a pool of which all do
// abstains. With learn it remembers what it was told.
func (p *Pool) judge(said []Member, mem *poolMemory, now time.Time, learn bool) poolState {
	c := poolCount{pool: p, mem: mem, now: now, learn: learn, texts: make([]string, len(said))}
	for i := range said {
		c.count(i, &said[i])
	}
	low, high := p.Low, p.High
	if high == (Quorum{}) {
		high = low
	}
	if mem.fell {
		low = high
	}
	out := c.result(low)
	if learn && out.state == Down {
		mem.fell = true
	} else if learn && out.state == Up {
		mem.fell = false
	}
	if learn {
		out.detail = c.describe(out, said)
	}
	return out
}

// poolCount is one judgement under way. The second place of its arrays is for
// backup servers.
type poolCount struct {
	pool    *Pool
	mem     *poolMemory
	now     time.Time
	learn   bool
	total   [2]int
	up      [2]int
	unknown [2]int
	mute    int // servers that abstain
	next    time.Time
	texts   []string // why a server is not up, in place of what is said of it
}

func (c *poolCount) count(i int, m *Member) {
	s := c.pool.Servers[i]
	kind, w := 0, s.weight()
	if s.Backup {
		kind = 1
	}
	state := m.State
	if warm := c.slowStart(s, state); !warm.IsZero() {
		state = Down
		c.texts[i] = fmt.Sprintf("up again, counts from %s on", warm.Format(time.TimeOnly))
		c.next = sooner(c.next, warm)
	}
	if state == Abstains {
		c.mute++
		return
	}
	c.total[kind] += w
	switch state {
	case Up:
		c.up[kind] += w
	case Unknown:
		c.unknown[kind] += w
	}
}

// slowStart returns until when a server that is back does not count, zero when
// it does.
func (c *poolCount) slowStart(s Server, state State) time.Time {
	m := c.mem.servers[s.ID]
	switch state {
	case Down:
		m = serverMemory{fell: true}
	case Up:
		if m.fell && m.returned.IsZero() {
			m.returned = c.now
		}
		if !c.now.Before(m.returned.Add(c.pool.SlowStart)) {
			m = serverMemory{}
		}
	}
	if c.learn {
		if c.mem.servers == nil {
			c.mem.servers = map[string]serverMemory{}
		}
		c.mem.servers[s.ID] = m
	}
	if m.returned.IsZero() {
		return time.Time{}
	}
	return m.returned.Add(c.pool.SlowStart)
}

func (c *poolCount) result(q Quorum) poolState {
	out := poolState{need: q.Need(c.total[0]), up: c.up[0], unknown: c.unknown[0], next: c.next}
	total := c.total[0]
	if c.mute > 0 {
		out.need = min(out.need, max(1, c.total[0]+c.total[1]))
	}
	if out.up < out.need {
		out.backup = c.up[1] > 0
		out.up, out.unknown = out.up+c.up[1], out.unknown+c.unknown[1]
		total += c.total[1]
	}
	out.down = total - out.up - out.unknown
	switch {
	case c.mute > 0 && c.total == [2]int{}:
		out.state = Abstains
	case out.up >= out.need:
		out.state = Up
	case out.up+out.unknown < out.need:
		out.state = Down
	}
	return out
}

// describe makes the sentence of Detail.
func (c *poolCount) describe(out poolState, said []Member) string {
	var b strings.Builder
	b.WriteString(c.tally(out))
	var rest []string
	for i, m := range said {
		switch {
		case c.texts[i] != "":
			rest = append(rest, m.ID+": "+c.texts[i])
		case m.State == Down || m.State == Unknown:
			rest = append(rest, m.ID+": "+m.reason())
		}
	}
	listed(&b, rest)
	return b.String()
}

// tally says how many are up, and how many must be.
func (c *poolCount) tally(out poolState) string {
	noun := "servers"
	if len(c.pool.Servers) == 1 {
		noun = "server"
	}
	for _, s := range c.pool.Servers {
		if s.weight() > 1 {
			noun = "of the servers' weight"
		}
	}
	text := fmt.Sprintf("%d of %d %s up, %d needed", out.up, out.up+out.down+out.unknown, noun, out.need)
	if c.mem.fell && out.state != Up && c.pool.High != (Quorum{}) {
		text += " to come back"
	}
	if out.backup {
		text += " (with backup servers)"
	}
	if c.mute > 0 {
		text += fmt.Sprintf(", %d abstain", c.mute)
	}
	return text
}

// listed adds at most poolNames of the texts to a sentence.
func listed(b *strings.Builder, texts []string) {
	for i, text := range texts {
		if i == poolNames {
			fmt.Fprintf(b, "; and %d more", len(texts)-i)
			return
		}
		b.WriteString("; " + text)
	}
}

// reason says why a member is not up.
func (m Member) reason() string {
	switch {
	case m.Why != "":
		return m.Why
	case m.State == Unknown:
		return "not known yet"
	default:
		return m.State.String()
	}
}
