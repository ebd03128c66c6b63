package readback

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
)

// maxAge is the age of an LSA that is being flushed (RFC 2328, appendix B).
const maxAge = 3600

// vtyMark is before the one byte with the status at the end of each answer on a
// vty socket (FRR's lib/vty.c, as vtysh reads it).
const vtyMark = "\x00\x00\x00"

// vtyEnd finds the end of an answer.
func vtyEnd(b []byte) int {
	if i := bytes.Index(b, []byte(vtyMark)); i >= 0 && len(b) > i+len(vtyMark) {
		return i + len(vtyMark) + 1
	}
	return 0
}

// vty asks an FRR daemon one command as vtysh would.
func vty(c *conn, command string) ([]byte, error) {
	if err := c.say(command + "\x00"); err != nil {
		return nil, err
	}
	b, err := c.until(vtyEnd)
	if err != nil {
		return nil, err
	}
	text, status := b[:len(b)-len(vtyMark)-1], b[len(b)-1]
	if status != 0 {
		return nil, fmt.Errorf("%q was refused with status %d: %.200s", command, status, bytes.TrimSpace(text))
	}
	return text, nil
}

func askOspfd(c *conn) (answer, error) {
	b, err := vty(c, "show ip ospf database external self-originate json")
	if err != nil {
		return answer{}, err
	}
	has, err := parseOspfd(b)
	return answer{has: has}, err
}

func askOspf6d(c *conn) (answer, error) {
	b, err := vty(c, "show ipv6 ospf6 database as-external self-originated json")
	if err != nil {
		return answer{}, err
	}
	has, err := parseOspf6d(b)
	return answer{has: has}, err
}

// askZebra asks who takes routes from it. A daemon that is not connected, as for
// ten seconds after zebra was restarted, knows nothing of what zebra knows. The
// command is one of the enable node.
func askZebra(c *conn) (answer, error) {
	if !c.greeted {
		if _, err := vty(c, "enable"); err != nil {
			return answer{}, err
		}
		c.greeted = true
	}
	b, err := vty(c, "show zebra client summary")
	return answer{clients: parseClients(b)}, err
}

// parseClients reads the first column of a table.
func parseClients(b []byte) map[string]bool {
	clients := map[string]bool{}
	for line := range bytes.Lines(b) {
		if f := bytes.Fields(line); len(f) > 1 {
			clients[string(f[0])] = true
		}
	}
	return clients
}

// externalLSA is an AS-external LSA. Its link state ID is the network's address,
// with host bits where two networks would have the same.
type externalLSA struct {
	ID   string `json:"linkStateId"`
	Age  int    `json:"lsaAge"`
	Bits int    `json:"networkMask"`
}

// parseOspfd reads the answer of FRR 8.4, which has the LSAs by their ID, and that
// of later versions, which have a list.
func parseOspfd(b []byte) (map[netip.Prefix]bool, error) {
	var reply struct {
		ByID map[string]externalLSA `json:"AS External Link States"`
		List []externalLSA          `json:"asExternalLinkStates"`
	}
	if err := unmarshal(b, &reply); err != nil {
		return nil, err
	}
	has := map[netip.Prefix]bool{}
	for id, lsa := range reply.ByID {
		lsa.ID = id
		reply.List = append(reply.List, lsa)
	}
	for _, lsa := range reply.List {
		a, err := netip.ParseAddr(lsa.ID)
		if err != nil || !a.Is4() {
			return nil, fmt.Errorf("link state ID %q is not an IPv4 address", lsa.ID)
		}
		p, err := a.Prefix(lsa.Bits)
		if err != nil {
			return nil, fmt.Errorf("LSA %s: %w", lsa.ID, err)
		}
		if lsa.Age < maxAge {
			has[p] = true
		}
	}
	return has, nil
}

func parseOspf6d(b []byte) (map[netip.Prefix]bool, error) {
	var reply struct {
		Scopes []struct {
			LSAs []struct {
				Age    int    `json:"age"`
				Prefix string `json:"payload"`
			} `json:"lsa"`
		} `json:"asScopedLinkStateDb"`
	}
	if err := unmarshal(b, &reply); err != nil {
		return nil, err
	}
	has := map[netip.Prefix]bool{}
	for _, scope := range reply.Scopes {
		for _, lsa := range scope.LSAs {
			p, err := netip.ParsePrefix(lsa.Prefix)
			if err != nil {
				return nil, fmt.Errorf("reading an LSA: %w", err)
			}
			if lsa.Age < maxAge {
				has[p.Masked()] = true
			}
		}
	}
	return has, nil
}

// unmarshal takes an empty answer, which a daemon without OSPF instance gives,
// for an empty database.
func unmarshal(b []byte, reply any) error {
	b = bytes.TrimSpace(b)
	if len(b) == 0 {
		return nil
	}
	if b[0] != '{' {
		return errors.New("the answer is not JSON: " + string(b[:min(len(b), 200)]))
	}
	if err := json.Unmarshal(b, reply); err != nil {
		return fmt.Errorf("the answer is not as expected: %w", err)
	}
	return nil
}
