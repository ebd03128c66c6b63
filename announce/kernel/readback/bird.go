package readback

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// askBIRD asks for the state of each OSPF protocol. BIRD first says who it is;
// the connection is then restricted to commands that only show.
func askBIRD(c *conn) (answer, error) {
	if !c.greeted {
		if _, err := birdAnswer(c); err != nil {
			return answer{}, err
		}
		if _, err := bird(c, "restrict"); err != nil {
			return answer{}, err
		}
		c.greeted = true
	}
	list, err := bird(c, "show protocols")
	if err != nil {
		return answer{}, err
	}
	has := map[netip.Prefix]bool{}
	for _, name := range ospfProtocols(list) {
		state, err := bird(c, "show ospf state "+name)
		if err != nil {
			return answer{}, err
		}
		if err := ownExternals(state, has); err != nil {
			return answer{}, err
		}
	}
	return answer{has: has}, nil
}

// bird asks one command.
func bird(c *conn, command string) ([]string, error) {
	if err := c.say(command + "\n"); err != nil {
		return nil, err
	}
	lines, err := birdAnswer(c)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", command, err)
	}
	return lines, nil
}

// birdAnswer receives one answer and returns its lines without their codes.
func birdAnswer(c *conn) ([]string, error) {
	b, err := c.until(birdEnd)
	if err != nil {
		return nil, err
	}
	return birdLines(b)
}

// birdEnd finds the end of an answer: a line with a code and a space behind it.
// All others have a minus there, or begin with a space as a continuation.
func birdEnd(b []byte) int {
	for at := 0; ; {
		n := bytes.IndexByte(b[at:], '\n')
		if n < 0 {
			return 0
		}
		line := b[at : at+n]
		at += n + 1
		if birdCode(line) && line[4] == ' ' {
			return at
		}
	}
}

func birdCode(line []byte) bool {
	return len(line) > 4 && !slices.ContainsFunc(line[:4], func(c byte) bool { return c < '0' || c > '9' })
}

// birdLines takes the codes off. Codes from 8000 on are refusals.
func birdLines(b []byte) ([]string, error) {
	var out []string
	for line := range bytes.Lines(b) {
		line = bytes.TrimRight(line, "\n")
		switch {
		case birdCode(line) && line[0] >= '8':
			return nil, errors.New(string(line[5:]))
		case birdCode(line):
			out = append(out, string(line[5:]))
		case len(line) > 0:
			out = append(out, string(line[1:]))
		}
	}
	return out, nil
}

// ospfProtocols returns the OSPF protocols that are up, from the lines of "show
// protocols": name, protocol, table, state, …
func ospfProtocols(lines []string) []string {
	var out []string
	for _, line := range lines {
		if f := strings.Fields(line); len(f) > 3 && f[1] == "OSPF" && f[3] == "up" {
			out = append(out, f[0])
		}
	}
	return out
}

// ownExternals collects the external routes of the router itself, from the lines
// of "show ospf state": below "router ID", that with "distance 0".
func ownExternals(lines []string, has map[netip.Prefix]bool) error {
	own := false
	for _, line := range lines {
		f := strings.Fields(line)
		switch {
		case len(f) == 2 && f[0] == "distance":
			own = f[1] == "0"
		case len(f) == 2 && (f[0] == "router" || f[0] == "network") && !strings.HasPrefix(line, "\t\t"):
			own = false
		case own && len(f) > 1 && (f[0] == "external" || f[0] == "nssa-ext"):
			p, err := netip.ParsePrefix(f[1])
			if err != nil {
				return fmt.Errorf("reading an external route: %w", err)
			}
			has[p.Masked()] = true
		}
	}
	return nil
}
