package daemon

import (
	"net/netip"
	"time"

	"rhid/announce"
	"rhid/internal/control"
)

// becomeReady tells the service manager once that the daemon works.
func (l *loop) becomeReady(why string) {
	if l.decided {
		return
	}
	l.decided = true
	l.d.notify.ready()
	l.journal.add(control.Event{Kind: "daemon", Subject: l.m.self.Name, What: "ready", Detail: why})
}

// settleTime is when a starting daemon calls itself ready although a check has
// still not come to an answer.
const settleTime = 10 * time.Second

// tick looks at what sends no signal.
func (l *loop) tick(now time.Time) {
	if now.Sub(l.started) > settleTime {
		l.becomeReady("some checks have not come to an answer yet")
	}
	l.watchNeighbours(now)
	l.watchStrangers(now)
	l.narrow()
	l.d.notify.alive(l.d.runner.Progress())
	l.advance(now)
}

// watchNeighbours reports sessions that came up or went down.
func (l *loop) watchNeighbours(now time.Time) {
	if l.d.speaker == nil {
		return
	}
	seen := map[string]bool{}
	for _, n := range l.d.speaker.Neighbours() {
		up := n.State == established
		seen[n.Name] = up
		if was, ok := l.sessions[n.Name]; ok && was == up || !ok && !up {
			continue
		}
		what, detail := "down", neighbourStatus(n).Why
		if up {
			what, detail = "up", "session established"
		}
		l.journal.add(control.Event{Time: now, Kind: "neighbour", Subject: n.Name, What: what, Detail: detail})
	}
	l.sessions = seen
	routed := l.sessionsUp() >= l.m.minNeighbours
	l.hadRouter = l.hadRouter || routed || now.Sub(l.started) > l.settleTimeout()
	if routed != l.routed {
		l.routed = routed
		l.decide(now)
	}
}

// watchRoutes reports routes that were read back as announced, and as gone.
func (l *loop) watchRoutes(now time.Time) {
	moved := false
	for p, v := range l.d.announcer.Collect() {
		moved = l.noteExport(v) || moved
		for _, target := range [...]string{viaBGP, viaKernel} {
			key := p.String() + " " + target
			st, known := v.Routes[target]
			switch was := l.announced[key]; {
			case known && st.Wanted && st.Settled() && !was:
				l.announced[key] = true
				l.noteRoute(key, "announced", placesText(st.Places), now)
			case known && !st.Wanted && st.Settled() && was:
				delete(l.announced, key)
				l.noteRoute(key, "withdrawn", placesText(st.Places), now)
			case !known && was:
				delete(l.announced, key)
				l.noteRoute(key, "withdrawn", "gone from every place", now)
			}
		}
	}
	if moved && l.d.cluster != nil {
		l.decide(now)
	}
	if l.phase != phaseRunning {
		l.advance(now)
	}
}

// noteExport takes over how far the routes of a VIP's service have come, and
// says whether that changed.
func (l *loop) noteExport(v announce.VIPStatus) bool {
	s := l.byName[v.Service]
	if s == nil {
		return false
	}
	if l.vips[s.name] == nil {
		l.vips[s.name] = map[netip.Prefix]announce.VIPStatus{}
	}
	l.vips[s.name][v.Prefix] = v
	now := exportOf(s, l.vips[s.name])
	was := l.exported[s.name]
	l.exported[s.name] = now
	return now != was
}

func (l *loop) noteRoute(key, what, detail string, now time.Time) {
	l.journal.add(control.Event{Time: now, Kind: "route", Subject: key, What: what, Detail: detail})
}

func placesText(places []announce.Place) string {
	out := ""
	for _, p := range places {
		if out != "" {
			out += "; "
		}
		out += p.Name + " " + p.State.String()
	}
	return out
}
