package bgp

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	gobgplog "github.com/osrg/gobgp/v3/pkg/log"
	"github.com/osrg/gobgp/v3/pkg/packet/bgp"
)

// bridge is GoBGP's logger. It hands what the speaker must know to it, whatever
// slog's level is, and the rest to slog. GoBGP calls it with locks held, so it
// must be quick and never call GoBGP.
type bridge struct {
	s   *Speaker
	log *slog.Logger
}

// SetLevel is ignored: see GetLevel.
func (b *bridge) SetLevel(gobgplog.LogLevel) {}

// GetLevel is always debug, because GoBGP builds the message "sent update" at
// that level only.
func (b *bridge) GetLevel() gobgplog.LogLevel { return gobgplog.DebugLevel }

// Panic is called where GoBGP found itself in a state it does not know. It
// returns, since an exit would drop every session without a word; Run ends
// with an error, and the daemon stops in order.
func (b *bridge) Panic(msg string, f gobgplog.Fields) { b.fail("panic", msg, f) }

// Fatal is like Panic.
func (b *bridge) Fatal(msg string, f gobgplog.Fields) { b.fail("fatal", msg, f) }

func (b *bridge) fail(level, msg string, f gobgplog.Fields) {
	b.out(slog.LevelError, msg, f)
	b.s.fail(fmt.Errorf("bgp: GoBGP reports a %s error: %s %v", level, msg, f))
}

// Error passes a message on.
func (b *bridge) Error(msg string, f gobgplog.Fields) { b.out(slog.LevelError, msg, f) }

// Warn passes a message on; notifications are also kept for the reason why a
// session ended.
func (b *bridge) Warn(msg string, f gobgplog.Fields) {
	level := slog.LevelDebug // what ends a session is logged by the speaker itself
	switch msg {
	case "Closed an accepted connection":
		b.s.onOffer(key(f), false)
	case "received notification", "sent notification":
		if n, ok := notificationOf(f); ok {
			b.s.onNotification(key(f), msg[0] == 'r', n)
		}
	case "failed to set md5", "failed to unset md5", "cannot set TTL for peer", "cannot set TTL (255) for TCPListener",
		"failed to resolve local address", "failed to serialize", "Failed to AcceptTCP",
		"Some attributes were discarded", "the received Update message was treated as withdraw":
		level = slog.LevelWarn
	}
	b.out(level, msg, f)
}

// Info passes a message on at debug, except for strangers that connect.
func (b *bridge) Info(msg string, f gobgplog.Fields) {
	level := slog.LevelDebug
	if msg == "Can't find configuration for a new passive connection" || msg == "Mismatched local address" {
		level = slog.LevelInfo
	}
	b.out(level, msg, f)
}

// Debug picks out the messages the speaker lives by.
func (b *bridge) Debug(msg string, f gobgplog.Fields) {
	switch msg {
	case "sent update":
		b.s.onSent(key(f), parseSent(f["nlri"], f["withdrawals"], f["attributes"]))
	case "received update":
		b.s.onReceived(key(f), f["nlri"], f["withdrawals"], f["attributes"])
	case "state changed":
		old, _ := f["old"].(string)
		now, _ := f["new"].(string)
		b.s.onState(key(f), stateName(old), stateName(now), fmt.Sprint(f["reason"]))
	case "Accepted a new passive connection":
		b.s.onOffer(key(f), true)
	case "failed to connect":
		if err, ok := f["Error"].(error); ok {
			b.s.onDialError(key(f), err)
		}
	}
	b.out(slog.LevelDebug, msg, f)
}

// out logs with fixed keys. Fields are formatted only when somebody listens:
// some of them are whole tables.
func (b *bridge) out(level slog.Level, msg string, f gobgplog.Fields) {
	ctx := context.Background()
	if !b.log.Enabled(ctx, level) {
		return
	}
	var rest strings.Builder
	for k, v := range f {
		if k != "Topic" && k != "Key" {
			fmt.Fprintf(&rest, "%s=%v ", k, v)
		}
	}
	b.log.LogAttrs(ctx, level, "gobgp", slog.String("message", msg), slog.String("neighbour", key(f)),
		slog.String("fields", strings.TrimSuffix(rest.String(), " ")))
}

func key(f gobgplog.Fields) string {
	k, _ := f["Key"].(string)
	return k
}

// stateName turns "BGP_FSM_IDLE" into "idle".
func stateName(s string) string { return strings.ToLower(strings.TrimPrefix(s, "BGP_FSM_")) }

// notificationOf reads a notification in either of the forms GoBGP logs.
func notificationOf(f gobgplog.Fields) (notification, bool) {
	if e, ok := f["Data"].(*bgp.MessageError); ok {
		return notification{code: e.TypeCode, subcode: e.SubTypeCode, message: e.Message}, true
	}
	code, ok := f["Code"].(uint8)
	sub, ok2 := f["Subcode"].(uint8)
	msg, _ := f["Communicated-Reason"].(string)
	return notification{code: code, subcode: sub, message: msg}, ok && ok2
}

// onSent records an UPDATE written to a session.
func (s *Speaker) onSent(key string, u sentUpdate) {
	now := time.Now()
	s.mu.Lock()
	n := s.speaksLocked(key)
	if n == nil {
		s.mu.Unlock()
		return
	}
	first := n.wroteUpdate(now, u)
	s.dirty = true
	s.newsLocked()
	s.mu.Unlock()
	if first {
		s.wakeUp()
	}
	s.changed()
}

// onState records a step of a session's state machine.
func (s *Speaker) onState(key, old, now, reason string) {
	at := time.Now()
	s.mu.Lock()
	n := s.speaksLocked(key)
	if n == nil {
		s.mu.Unlock()
		return
	}
	n.state, n.since = now, at
	wasUp, before := n.established(), n.down
	switch {
	case now == stateEstablished:
		n.sessionUp(at)
		s.dirty = true
	case now == stateIdle && old != stateIdle:
		d := downReason(reason, wasUp, n.hold, n.gotNote, n.sentNote)
		if n.flooding {
			d = n.floodDown()
		}
		if s.stopping {
			d = Down{Kind: DownStopped, Text: "the speaker is stopping"}
		}
		n.sessionDown(at, d)
		n.setDown(at, d)
		n.gotNote, n.sentNote = nil, nil
		n.addAt = at.Add(n.backOff())
	}
	down, name := n.down, n.conf.Name
	s.newsLocked()
	s.mu.Unlock()
	switch {
	case now == stateEstablished:
		s.log.Info("session established", "neighbour", n.place, "name", name)
	case wasUp && down.Kind == DownStopped:
		s.log.Info("session ended", "neighbour", n.place, "name", name)
	case wasUp && now == stateIdle:
		s.log.Warn("session lost", "neighbour", n.place, "name", name, "kind", down.Kind, "reason", down.Text)
	case down != before && (before == nil || before.Text != down.Text):
		s.log.Info("session setup failed", "neighbour", n.place, "name", name, "kind", down.Kind, "reason", down.Text)
	}
	s.wakeUp()
	s.changed()
}

// onNotification keeps a notification until the session's end names it.
func (s *Speaker) onNotification(key string, received bool, note notification) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.speaksLocked(key)
	switch {
	case n == nil:
	case received:
		n.gotNote = &note
	default:
		n.sentNote = &note
		s.newsLocked()
	}
}

// onOffer notes that GoBGP handed a connection to the state machine of a
// neighbour, or that this one closed it.
func (s *Speaker) onOffer(key string, accepted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.speaksLocked(key); n != nil {
		n.offered = time.Time{}
		if accepted {
			n.offered = time.Now()
		}
	}
}

// onDialError records why a connect failed.
func (s *Speaker) onDialError(key string, err error) {
	s.mu.Lock()
	n := s.speaksLocked(key)
	if n == nil || n.established() {
		s.mu.Unlock()
		return
	}
	d := dialReason(err, n.conf.Password != "")
	fresh := n.down == nil || n.down.Text != d.Text
	n.setDown(time.Now(), d)
	name := n.conf.Name
	s.mu.Unlock()
	if fresh {
		s.log.Info("cannot connect", "neighbour", n.place, "name", name, "reason", d.Text)
		s.changed()
	}
}
