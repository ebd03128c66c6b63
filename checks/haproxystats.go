package checks

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

const (
	haproxyStatsLimit   = 8 << 20 // bytes of statistics that are read
	haproxyServersLimit = 4096    // servers of one backend (HAProxy's own limits are far below)
)

// haproxyRow is one line of HAProxy's statistics, as far as it is of use: a
// server, or the sum of a backend (HAProxy management guide, 9.1).
type haproxyRow struct {
	name     string
	status   string // UP, UP 1/3, DOWN, MAINT, NOLB, DRAIN, no check
	active   uint64 // 1 for an active server, 0 for a backup; of a backend the number of active ones that are up
	weight   uint64 // in force
	uweight  uint64 // as configured, or as set by an operator
	queued   uint64
	sessions uint64 // at this moment
	http     bool   // else TCP, which knows no answers
	counters haproxyCounters
}

// haproxyCounters count since the start of HAProxy.
type haproxyCounters struct {
	sessions  uint64 // begun; each HTTP request is one; without those tried again
	answers   uint64 // with any status; of a backend also those that HAProxy made itself
	status5xx uint64 // of them of class 5xx
	failed    uint64 // sessions whose connection could not be made, or broke before the answer
}

// haproxyBackend is a backend with its servers.
type haproxyBackend struct {
	sum     haproxyRow
	servers []haproxyRow
}

// readHAProxyStats reads HAProxy's statistics in CSV and returns one backend
// of them. Columns are found by name: their order is not promised.
func readHAProxyStats(in io.Reader, backend string) (*haproxyBackend, error) {
	r := csv.NewReader(io.LimitReader(in, haproxyStatsLimit))
	r.ReuseRecord, r.FieldsPerRecord = true, -1
	head, err := r.Read()
	switch {
	case errors.Is(err, io.EOF):
		return nil, errors.New("not the statistics of HAProxy: nothing came")
	case err != nil:
		return nil, fmt.Errorf("not the statistics of HAProxy: %w", err)
	case head[0] != "# pxname":
		return nil, fmt.Errorf("not the statistics of HAProxy: %s", oneLine([]byte(strings.Join(head, ",")), quoteLimit))
	}
	at := map[string]int{"pxname": 0}
	for i, name := range head[1:] {
		if name != "" {
			at[strings.Clone(name)] = i + 1
		}
	}
	for _, need := range []string{"svname", "status", "act", "weight", "stot", "hrsp_2xx", "hrsp_5xx", "econ", "eresp"} {
		if at[need] == 0 {
			return nil, fmt.Errorf("the statistics of HAProxy lack the column %s", need)
		}
	}
	var found bool
	b := &haproxyBackend{}
	for {
		rec, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading the statistics of HAProxy: %w", err)
		}
		if rec[0] != backend {
			continue
		}
		row, err := newHAProxyRow(rec, at)
		switch {
		case err != nil:
			return nil, err
		case row.name == "FRONTEND":
		case row.name == "BACKEND":
			b.sum, found = row, true
		case len(b.servers) < haproxyServersLimit:
			b.servers = append(b.servers, row)
		}
	}
	if !found {
		return nil, fmt.Errorf("HAProxy has no backend %q", backend)
	}
	if b.sum.http {
		// What HAProxy had to answer itself is what failed; econ and eresp
		// count some of it twice, and some not at all.
		b.sum.counters.failed = b.sum.counters.status5xx
		for i := range b.servers {
			b.sum.counters.failed = less(b.sum.counters.failed, b.servers[i].counters.status5xx)
		}
	}
	return b, nil
}

func newHAProxyRow(rec []string, at map[string]int) (row haproxyRow, err error) {
	get := func(col string) string {
		if i, ok := at[col]; ok && i < len(rec) {
			return rec[i]
		}
		return ""
	}
	row = haproxyRow{name: strings.Clone(get("svname")), status: strings.Clone(get("status"))}
	// An empty field is 0: HAProxy leaves out what has no meaning in a line.
	number := func(col string) uint64 {
		text := get(col)
		if text == "" {
			return 0
		}
		n, perr := strconv.ParseUint(text, 10, 63)
		if perr != nil && err == nil {
			err = fmt.Errorf("column %s of %s/%s is %s, not a number", col, rec[0], row.name, quoted([]byte(text), quoteLimit))
		}
		return n
	}
	row.active, row.weight, row.uweight = number("act"), number("weight"), number("uweight")
	row.queued, row.sessions = number("qcur"), number("scur")
	row.http = get("hrsp_2xx") != ""
	c := &row.counters
	for _, col := range []string{"hrsp_1xx", "hrsp_2xx", "hrsp_3xx", "hrsp_4xx", "hrsp_5xx", "hrsp_other"} {
		c.answers += number(col)
	}
	c.status5xx = number("hrsp_5xx")
	c.sessions, c.failed = number("stot"), number("econ")+number("eresp")
	if row.name != "BACKEND" {
		c.sessions = less(c.sessions, number("wretr")) // a server's include what was tried again
	}
	if row.http && row.name != "BACKEND" {
		c.failed = min(c.failed, less(c.sessions, c.answers)) // a broken answer counts twice in eresp
	}
	return row, err
}

// less subtracts without going below 0.
func less(a, b uint64) uint64 { return a - min(a, b) }

// judged returns how many results the counters hold, and how many were bad.
func (r *haproxyRow) judged() (all, bad uint64) {
	c := r.counters
	switch {
	case !r.http:
		return c.sessions, min(c.failed, c.sessions)
	case r.name == "BACKEND":
		return c.answers, c.status5xx // HAProxy answers 502, 503 or 504 for what failed
	default:
		return c.answers + c.failed, c.status5xx + c.failed
	}
}

// up says whether HAProxy sends new sessions there.
func (r *haproxyRow) up() bool {
	return strings.HasPrefix(r.status, "UP") || r.status == "no check"
}

// server finds a server by its name.
func (b *haproxyBackend) server(name string) *haproxyRow {
	for i := range b.servers {
		if b.servers[i].name == name {
			return &b.servers[i]
		}
	}
	return nil
}

// activeServers returns how many active servers there are, and how many of
// them are up. Backup servers do not count.
func (b *haproxyBackend) activeServers() (up, all int) {
	for i := range b.servers {
		if s := &b.servers[i]; s.active > 0 {
			all++
			if s.up() {
				up++
			}
		}
	}
	return up, all
}

// weightPercent returns what part of the active servers' weight is up. HAProxy
// before 2.4 has no column uweight; the weight in force stands for it.
func (b *haproxyBackend) weightPercent() uint64 {
	var up, all float64
	for i := range b.servers {
		s := &b.servers[i]
		if s.active == 0 {
			continue
		}
		w := float64(max(s.uweight, s.weight))
		all += w
		if s.up() {
			up += float64(s.weight)
		}
	}
	if all == 0 {
		return 0
	}
	return uint64(100 * up / all)
}
