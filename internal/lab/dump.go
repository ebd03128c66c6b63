package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// dumpLines is how much of each log a failure prints.
const dumpLines = 60

// dump prints the state of the nodes and what their programs said, for the
// report of a failed test.
func (l *Lab) dump() {
	for _, n := range l.Nodes() {
		var b strings.Builder
		fmt.Fprintf(&b, "== node %s\n", n.Name)
		n.dumpCommands(&b)
		n.mu.Lock()
		procs := n.procs
		n.mu.Unlock()
		for _, p := range procs {
			if out := p.Output(); out != "" {
				fmt.Fprintf(&b, "-- output of %s (running: %v)\n%s\n", p.Name, p.Running(), lastLines(out))
			}
		}
		if err := n.exec.do(func() { dumpLogs(&b) }); err != nil {
			fmt.Fprintf(&b, "-- logs: %v\n", err)
		}
		l.tb.Log(b.String())
	}
}

// dumpCommands asks the kernel and the routing daemons that run in the node.
func (n *Node) dumpCommands(b *strings.Builder) {
	cmds := [][]string{{"ip", "-br", "address"}, {"ip", "route"}, {"ip", "-6", "route"}}
	if len(n.Pids("bgpd")) > 0 {
		cmds = append(cmds, []string{"vtysh", "-c", "show bgp summary"}, []string{"vtysh", "-c", "show bgp ipv4 unicast"})
	}
	if len(n.Pids("ospfd")) > 0 {
		cmds = append(cmds, []string{"vtysh", "-c", "show ip ospf neighbor"}, []string{"vtysh", "-c", "show ip ospf route"})
	}
	if len(n.Pids("bird")) > 0 {
		cmds = append(cmds, []string{"birdc", "show protocols"}, []string{"birdc", "show route all"})
	}
	for _, c := range cmds {
		out, err := n.Run(c...)
		if err != nil {
			out = err.Error()
		}
		fmt.Fprintf(b, "-- %s\n%s\n", strings.Join(c, " "), strings.TrimSpace(out))
	}
}

// dumpLogs runs in the node's files.
func dumpLogs(b *strings.Builder) {
	var files []string
	for _, pattern := range []string{"/var/log/*.log", "/var/log/*/*.log"} {
		found, err := filepath.Glob(pattern)
		if err == nil {
			files = append(files, found...)
		}
	}
	for _, f := range files {
		if data, err := os.ReadFile(f); err == nil && len(data) > 0 {
			fmt.Fprintf(b, "-- %s\n%s\n", f, lastLines(string(data)))
		}
	}
}

func lastLines(s string) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	if over := len(lines) - dumpLines; over > 0 {
		lines = append([]string{fmt.Sprintf("(%d lines left out)", over)}, lines[over:]...)
	}
	return strings.Join(lines, "\n")
}
