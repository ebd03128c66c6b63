package cluster

import (
	"context"
	"log" //nolint:depguard // memberlist's logger is of that type
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"
)

// libraryLog is the logger that memberlist gets. It has no other way to tell
// of messages that it refused, so its lines are also looked at; tests with
// real wrong keys and names hold the texts in place.
func (c *Cluster) libraryLog() *log.Logger {
	return log.New(&libraryLines{c: c, last: map[string]time.Time{}}, "", 0)
}

type libraryLines struct {
	c    *Cluster
	mu   sync.Mutex
	last map[string]time.Time // when a kind of error was last logged above debug
}

const (
	libraryEvery = time.Minute
	libraryKinds = 256
)

// Write implements io.Writer; one call is one line.
func (l *libraryLines) Write(b []byte) (int, error) {
	text := strings.TrimSpace(string(b))
	bad := strings.HasPrefix(text, "[ERR")
	if i := strings.Index(text, "memberlist: "); i >= 0 {
		text = text[i+len("memberlist: "):]
	}
	level := slog.LevelDebug
	if bad {
		code, evidence := classify(text)
		if code != "" {
			l.c.foreign(code, text, evidence)
		} else if l.due(text) {
			level = slog.LevelInfo
		}
	}
	if l.c.log.Enabled(context.Background(), level) {
		l.c.log.Log(context.Background(), level, "memberlist", "line", cut(text, maxErrorText))
	}
	return len(b), nil
}

// due lets one line of a kind through in a minute.
func (l *libraryLines) due(text string) bool {
	kind := text[:min(len(text), 24)]
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, ok := l.last[kind]; ok && now.Sub(at) < libraryEvery || len(l.last) >= libraryKinds {
		return false
	}
	l.last[kind] = now
	return true
}

// classify recognises what memberlist says of messages that it refused. A stream
// without a label is most often one that was closed before anything was said: an
// attempt that was given up, or a probe of the port.
func classify(text string) (ProblemCode, string) {
	switch {
	case strings.Contains(text, `stream with unacceptable label ""`):
		return "", ""
	case strings.Contains(text, "unacceptable label"):
		_, name, _ := strings.Cut(text, "unacceptable label ")
		name, _, _ = strings.Cut(name, ": ")
		return ProblemWrongCluster, "it sends for cluster " + name
	case strings.Contains(text, "o installed keys could decrypt"):
		return ProblemWrongKey, "it sends what no key of this node opens"
	case strings.Contains(text, "remote state is not encrypted"):
		return ProblemWrongKey, "it sends without encryption"
	case strings.Contains(text, "encryption is not configured"):
		return ProblemWrongKey, "it encrypts, this node has no keys"
	case strings.Contains(text, "Decrypt packet failed"):
		return ProblemWrongKey, "it sends packets that no key of this node opens"
	default:
		return "", ""
	}
}

// foreign notes a message that memberlist refused, by where it came from.
func (c *Cluster) foreign(code ProblemCode, line, evidence string) {
	_, from, _ := strings.Cut(line, "from=")
	host := from
	if h, _, err := net.SplitHostPort(from); err == nil {
		host = h
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	node := ""
	for _, n := range c.nodes {
		if n.Address.String() == host {
			node = n.Name
		}
	}
	c.problem(code, node, host, evidence)
}
