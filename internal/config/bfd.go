package config

import (
	"fmt"
	"path/filepath"
	"time"

	"rhid/checks"
	"rhid/internal/config/strict"
)

// maxBFDKey is the longest key of SHA-1 authentication (RFC 5880, 4.4).
const maxBFDKey = 20

// Words of bfd.multihop.
const (
	BFDMultihopAuto   = "auto"
	BFDMultihopAlways = "always"
	BFDMultihopNever  = "never"
)

// Words of bfd.auth.
const (
	BFDKeyedSHA1      = "keyed-sha1"
	BFDMeticulousSHA1 = "meticulous-keyed-sha1"
)

// BFD is a BFD session beside the BGP session with a router.
type BFD struct {
	Interval   time.Duration `yaml:"interval" default:"300ms" min:"10ms" max:"10s" doc:"between two packets, in both directions; the slower of the two sides counts"`
	Multiplier int           `yaml:"multiplier" default:"3" min:"1" max:"255" doc:"how many packets in a row may be lost until the other side counts as silent"`
	Multihop   string        `yaml:"multihop" default:"auto" enum:"auto,always,never" doc:"UDP port 4784 (RFC 5883) instead of 3784 (RFC 5881): as the router does, always, or never"`
	Auth       string        `yaml:"auth" enum:"keyed-sha1,meticulous-keyed-sha1" doc:"authentication of the packets; BIRD has it, FRR does not"`
	KeyID      int           `yaml:"key_id" default:"1" min:"0" max:"255" doc:"number of the key, the same on both sides"`
	KeyFile    string        `yaml:"key_file" doc:"file whose first line is the key, of at most 20 bytes"`
}

// Detection is how long a router takes at least to find this host silent, and
// this host the router.
func (b *BFD) Detection() time.Duration { return time.Duration(b.Multiplier) * b.Interval }

// Key returns the key of the session, "" without authentication; see
// readPassword for what is an error.
func (b *BFD) Key(readFile func(string) ([]byte, error)) (string, error) {
	if b.Auth == "" {
		return "", nil
	}
	key, err := readPassword(b.KeyFile, readFile)
	if err == nil && len(key) > maxBFDKey {
		err = fmt.Errorf("the key in %s has %d bytes; SHA-1 authentication takes %d", b.KeyFile, len(key), maxBFDKey)
	}
	return key, err
}

func (v *validator) bfd(p strict.Path, r *Router) {
	b := r.BFD
	switch {
	case b == nil:
		return
	case !r.Address.IsValid():
		v.fail(p, "needs the router's address")
		return
	}
	if d := b.Detection(); d >= r.Hold && r.Hold > 0 {
		v.fail(p, "interval %s × multiplier %d is not shorter than the hold time %s, so it would notice nothing earlier", b.Interval, b.Multiplier, r.Hold)
	}
	linkLocal := r.Address.Is6() && r.Address.IsLinkLocalUnicast()
	if at := p.With("multihop"); b.Multihop == BFDMultihopAlways && linkLocal {
		v.fail(at, "%s is on the link, and cannot be reached over several hops", r.Address)
	} else if b.Multihop == BFDMultihopNever && r.Multihop != 0 {
		v.fail(at, "the router is not on the link (multihop: %d), where a session over one hop cannot reach it", r.Multihop)
	}
	v.bfdKey(p, b)
}

func (v *validator) bfdKey(p strict.Path, b *BFD) {
	at := p.With("key_file")
	switch {
	case b.Auth == "" && b.KeyFile != "":
		v.fail(at, "is of no use without auth")
	case b.Auth == "":
	case b.KeyFile == "":
		v.fail(p.With("auth"), "needs a key: set key_file")
	case !filepath.IsAbs(b.KeyFile):
		v.fail(at, "%q must be an absolute path", b.KeyFile)
	case v.readFile != nil:
		if _, err := b.Key(v.readFile); err != nil {
			v.fail(at, "%v", err)
		}
	}
}

// bfdRouter finds the router of a bfd check.
func (v *validator) bfdRouter(p strict.Path, c *Check) {
	o, ok := c.Options.(*checks.BFDOptions)
	if !ok || o.Router == "" {
		return
	}
	for _, n := range v.cfg.Nodes {
		for _, r := range v.cfg.RoutersOf(n.Name) {
			if r.Name == o.Router && r.BFD != nil {
				return
			}
		}
	}
	v.fail(p, "there is no router %q with a bfd section", o.Router)
}
