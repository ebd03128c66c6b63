package checks

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// haproxyProbe is a haproxy check.
type haproxyProbe struct {
	*haproxyReader
	o    HAProxyOptions
	past rolling[haproxyCounters]
}

// Prober implements Options.
func (o *HAProxyOptions) Prober(t Target) (Prober, error) {
	if ps := o.Problems(); len(ps) > 0 {
		return nil, fmt.Errorf("haproxy check: %s %s", ps[0].Key, ps[0].Msg)
	}
	r, err := o.access().reader(t)
	if err != nil {
		return nil, fmt.Errorf("haproxy check: %w", err)
	}
	p := &haproxyProbe{haproxyReader: r, o: *o}
	if p.o.MinSamples == 0 {
		p.o.MinSamples = defaultSamples
	}
	p.past.span = o.Over
	if o.Over == 0 {
		p.past.span = 10 * time.Second
	}
	return timed(p.probe), nil
}

// defaultSamples is how few results are too few to speak of a rate.
const defaultSamples = 20

func (p *haproxyProbe) probe(ctx context.Context) Result {
	b, f := p.read(ctx)
	if f != nil {
		return f.result("")
	}
	row := &b.sum
	if p.o.Server != "" {
		row = b.server(p.o.Server)
	}
	rates := p.rates(row.counters, time.Now())
	said := append([]string{p.standing(b, row)}, rates.said...)
	wrong := append(p.limits(b, row), rates.wrong...)
	if len(wrong) > 0 {
		return failf(CauseAnswer, "%s", strings.Join(wrong, "; ")).result("")
	}
	return Result{OK: true, Detail: strings.Join(said, "; ")}
}

// standing describes a backend or a server at this moment.
func (p *haproxyProbe) standing(b *haproxyBackend, row *haproxyRow) string {
	text := fmt.Sprintf("server %s is %s", row.name, row.status)
	if p.o.Server == "" {
		up, all := b.activeServers()
		text = fmt.Sprintf("backend is %s: %d of %d active servers up with %d %% of the weight", row.status, up, all, b.weightPercent())
	}
	return fmt.Sprintf("%s, %d sessions, %d waiting", text, row.sessions, row.queued)
}

// limits lists what is beyond its limit at this moment.
func (p *haproxyProbe) limits(b *haproxyBackend, row *haproxyRow) []string {
	var wrong []string
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if !row.up() {
		what := "backend"
		if p.o.Server != "" {
			what = "server " + p.o.Server
		}
		add("HAProxy says that the %s is %s", what, orDefault(row.status, "without a status"))
	}
	up, all := b.activeServers()
	if up < p.o.MinServers {
		add("%d of %d active servers are up, min_servers is %d", up, all, p.o.MinServers)
	}
	if w := b.weightPercent(); p.o.MinWeight > 0 && w < uint64(p.o.MinWeight) {
		add("%d %% of the active servers' weight is up, min_weight is %d %%", w, p.o.MinWeight)
	}
	if p.o.MaxSessions > 0 && row.sessions > uint64(p.o.MaxSessions) {
		add("%d sessions, max_sessions is %d", row.sessions, p.o.MaxSessions)
	}
	if p.o.MaxQueue > 0 && row.queued > uint64(p.o.MaxQueue) {
		add("%d requests are waiting, max_queue is %d", row.queued, p.o.MaxQueue)
	}
	return wrong
}

// haproxyRates is what there is to say of two readings.
type haproxyRates struct {
	said  []string
	wrong []string
}

// rates compares the counters with those of a while ago.
func (p *haproxyProbe) rates(now haproxyCounters, at time.Time) haproxyRates {
	var out haproxyRates
	if p.o.Max5xx == 0 && p.o.MaxErrors == 0 {
		return out
	}
	if n := len(p.past.marks); n > 0 && now.before(p.past.marks[n-1].v) {
		p.past.forget() // HAProxy was started anew
	}
	then, age := p.past.since(at, now)
	d := now.minus(then)
	judge := func(limit int, part, all uint64, of, key string) {
		switch {
		case limit == 0:
		case all < uint64(p.o.MinSamples):
			out.said = append(out.said, fmt.Sprintf("%d %s in %s, too few to judge %s", all, strings.Fields(of)[0], seconds(age), key))
		default:
			text := fmt.Sprintf("%g %% of %d %s in %s", percentOf(part, all), all, of, seconds(age))
			if part*100 > uint64(limit)*all {
				out.wrong = append(out.wrong, fmt.Sprintf("%s, %s is %d %%", text, key, limit))
			}
			out.said = append(out.said, text)
		}
	}
	judge(p.o.Max5xx, d.status5xx, d.answers, "answers were of class 5xx", "max_5xx")
	judge(p.o.MaxErrors, min(d.failed, d.sessions), d.sessions, "sessions had a connection that failed or broke", "max_errors")
	return out
}

// seconds is a time to a tenth of a second, for sentences.
func seconds(d time.Duration) string { return d.Round(time.Second / 10).String() }

// before says whether the counters were read before others of the same HAProxy,
// or are of one that was started since.
func (c haproxyCounters) before(o haproxyCounters) bool {
	return c.sessions < o.sessions || c.answers < o.answers || c.status5xx < o.status5xx
}

// minus is what was added since o.
func (c haproxyCounters) minus(o haproxyCounters) haproxyCounters {
	return haproxyCounters{
		sessions: less(c.sessions, o.sessions), answers: less(c.answers, o.answers),
		status5xx: less(c.status5xx, o.status5xx), failed: less(c.failed, o.failed),
	}
}
