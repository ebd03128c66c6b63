package checks

import (
	"context"
	"fmt"
	"strings"
)

// HAProxyRateOptions are the settings of a haproxy-rate check.
type HAProxyRateOptions struct {
	Socket       string `yaml:"socket" doc:"path of HAProxy's runtime socket, of which level user is enough; without it the statistics page of the target is read"`
	Path         string `yaml:"path" default:"/haproxy?stats;csv" doc:"path of the statistics page in CSV form, where there is no socket"`
	User         string `yaml:"user" doc:"user of the statistics page"`
	Password     string `yaml:"password" secret:"true" doc:"password of the statistics page"`
	PasswordFile string `yaml:"password_file" doc:"file whose first line is the password"`
	Backend      string `yaml:"backend" required:"true" doc:"the backend, as HAProxy's configuration names it"`
	Server       string `yaml:"server" doc:"one server of the backend, whose traffic alone is judged; that of the whole backend by default"`
}

func (o *HAProxyRateOptions) access() *haproxyAccess {
	return &haproxyAccess{o.Socket, o.Path, o.User, o.Password, o.PasswordFile, o.Backend, o.Server}
}

// NeedsTarget implements Options: the runtime socket needs none.
func (o *HAProxyRateOptions) NeedsTarget() TargetKind { return o.access().needsTarget() }

// Problems implements Options.
func (o *HAProxyRateOptions) Problems() []Problem { return o.access().problems() }

// haproxyRateProbe is a haproxy-rate check: each probe counts what came since
// the one before.
type haproxyRateProbe struct {
	*haproxyReader
	last  haproxyRow
	known bool
}

// Prober implements Options.
func (o *HAProxyRateOptions) Prober(t Target) (Prober, error) {
	if ps := o.Problems(); len(ps) > 0 {
		return nil, fmt.Errorf("haproxy-rate check: %s %s", ps[0].Key, ps[0].Msg)
	}
	r, err := o.access().reader(t)
	if err != nil {
		return nil, fmt.Errorf("haproxy-rate check: %w", err)
	}
	return timed((&haproxyRateProbe{haproxyReader: r}).probe), nil
}

func (p *haproxyRateProbe) probe(ctx context.Context) Result {
	b, f := p.read(ctx)
	if f != nil {
		return f.result("")
	}
	row := b.sum
	if p.server != "" {
		row = *b.server(p.server)
	}
	last, known := p.last, p.known
	p.last, p.known = row, true
	if !known || row.counters.before(last.counters) {
		return counted(Counts{Detail: "the first reading of HAProxy's counters"})
	}
	all, bad := row.judged()
	allBefore, badBefore := last.judged()
	c := Counts{Fail: less(bad, badBefore)}
	c.OK = less(less(all, allBefore), c.Fail)
	if c.Fail > 0 {
		c.Detail = row.counters.minus(last.counters).sentence(row.http)
	}
	return counted(c)
}

// sentence says what was bad.
func (c haproxyCounters) sentence(http bool) string {
	var said []string
	if c.answers > 0 {
		said = append(said, fmt.Sprintf("%d of %d answers were of class 5xx", c.status5xx, c.answers))
	}
	if c.failed > 0 || !http {
		said = append(said, fmt.Sprintf("%d of %d sessions had a connection that failed or broke", c.failed, c.sessions))
	}
	return strings.Join(said, "; ")
}

// counted is the result of a probe that looked at traffic.
func counted(c Counts) Result { return Result{OK: true, Detail: c.Detail, Counts: &c} }
