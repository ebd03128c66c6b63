package config

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"rhid/internal/config/strict"
)

// maxSocketPath is what fits into a unix socket's address (unix(7)).
const maxSocketPath = 107

// maxLabel is what fits into an address label (IFNAMSIZ without the final 0).
const maxLabel = 15

var (
	entityName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,62})$`)
	addrLabel  = regexp.MustCompile(`^lo:[A-Za-z0-9._-]+$`)
)

// validator applies the rules that need more than one value. The rules are
// grouped by section, one file each.
type validator struct {
	cfg      *Config
	doc      *strict.Document
	readFile func(string) ([]byte, error)

	vips   map[netip.Addr]string   // VIP to the name of its service, the first one where two have it
	blocks []vipAt                 // VIPs that are more than one address
	taken  map[netip.Addr][]string // addresses that cannot be VIPs, and what they are
}

func newValidator(cfg *Config, doc *strict.Document, readFile func(string) ([]byte, error)) *validator {
	v := &validator{
		cfg: cfg, doc: doc, readFile: readFile,
		vips: map[netip.Addr]string{}, taken: map[netip.Addr][]string{},
	}
	for i := range cfg.Services {
		for _, p := range cfg.Services[i].VIPs {
			if _, dup := v.vips[p.Addr()]; !dup && p.IsSingleIP() {
				v.vips[p.Addr()] = cfg.Services[i].Name
			} else if !dup && p.IsValid() && p.Bits() > 0 {
				v.blocks = append(v.blocks, vipAt{prefix: p, service: cfg.Services[i].Name})
			}
		}
	}
	for i := range cfg.Sites {
		v.takeRouters(cfg.Sites[i].Routers)
	}
	for i := range cfg.Nodes {
		n := &cfg.Nodes[i]
		v.take(n.Address, fmt.Sprintf("the address of node %q", n.Name))
		v.takeRouters(n.Routers)
	}
	return v
}

func (v *validator) takeRouters(routers []Router) {
	for i := range routers {
		r := &routers[i]
		v.take(r.Address, fmt.Sprintf("the address of router %q", r.Name))
		v.take(r.Source, fmt.Sprintf("the source address towards router %q", r.Name))
		v.take(r.NextHop, fmt.Sprintf("the next hop told to router %q", r.Name))
		v.take(r.NextHop6, fmt.Sprintf("the next hop told to router %q", r.Name))
	}
}

func (v *validator) take(a netip.Addr, what string) {
	if a.IsValid() {
		v.taken[a.Unmap()] = append(v.taken[a.Unmap()], what)
	}
}

// fail reports an error at a path.
func (v *validator) fail(p strict.Path, format string, args ...any) {
	v.doc.Errorf(p, format, args...)
}

func (v *validator) all() {
	v.general()
	v.cluster()
	v.kernel()
	v.speaker()
	v.sites()
	v.nodes()
	v.namedChecks()
	v.overload()
	v.services()
}

// general validates what belongs to the daemon itself.
func (v *validator) general() {
	c := v.cfg
	v.allowList(strict.Path{"allow"}, c.Allow)
	socket := strict.Path{"control", "socket"}
	switch n := len(c.Control.Socket); {
	case !filepath.IsAbs(c.Control.Socket):
		v.fail(socket, "%q must be an absolute path", c.Control.Socket)
	case n > maxSocketPath:
		v.fail(socket, "has %d bytes; a socket's path may have %d", n, maxSocketPath)
	}
	v.report(strict.Path{"control", "report"}, c.Control.Report)
	if c.Stop.Timeout <= c.Stop.DrainTime {
		v.fail(strict.Path{"stop", "timeout"}, "%s must be longer than drain_time %s", c.Stop.Timeout, c.Stop.DrainTime)
	}
	label := strict.Path{"vip", "label"}
	switch n := len(c.VIP.Label); {
	case !addrLabel.MatchString(c.VIP.Label):
		v.fail(label, "%q must be lo: and then letters, digits, '.', '_' or '-'", c.VIP.Label)
	case n > maxLabel:
		v.fail(label, "%q has %d characters; a label may have %d", c.VIP.Label, n, maxLabel)
	}
}

// name makes sure that a name can be used in commands, files and metrics.
func (v *validator) name(p strict.Path, name string) {
	if !entityName.MatchString(name) {
		v.fail(p, "%q is not a name: letters, digits, '.', '_' and '-', at most 63, the first a letter or digit", name)
	}
}

// unique reports values that were there before. what is the kind of thing in
// words, as in "site".
func unique[K comparable](v *validator, seen map[K]strict.Path, p strict.Path, key K, format string, args ...any) {
	if first, dup := seen[key]; dup {
		line, _ := v.doc.Position(first)
		v.fail(p, "%s, first in line %d", fmt.Sprintf(format, args...), line)
		return
	}
	seen[key] = p
}

// noSuch reports a name that nothing has.
func (v *validator) noSuch(p strict.Path, kind, name string, names []string) {
	v.fail(p, "there is no %s %q%s", kind, name, strict.DidYouMean(name, names))
}

// wholeSeconds reports a time in the file that BGP cannot express.
func (v *validator) wholeSeconds(p strict.Path, d time.Duration) {
	if d%time.Second != 0 && v.doc.Has(p) {
		v.fail(p, "%s must be whole seconds", d)
	}
}

// siteNames and so on are for suggestions.
func siteNames(c *Config) []string {
	out := make([]string, len(c.Sites))
	for i := range c.Sites {
		out[i] = c.Sites[i].Name
	}
	return out
}

func nodeNames(c *Config) []string {
	out := make([]string, len(c.Nodes))
	for i := range c.Nodes {
		out[i] = c.Nodes[i].Name
	}
	return out
}

func list(words []string) string { return strings.Join(words, ", ") }
