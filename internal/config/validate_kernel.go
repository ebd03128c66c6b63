package config

import (
	"path/filepath"

	"rhid/internal/config/strict"
)

const (
	tableMain  = 254
	tableLocal = 255
)

// kernel validates the kernel section.
func (v *validator) kernel() {
	k := &v.cfg.Kernel
	if owner := protocolOwner(k.Protocol); owner != "" {
		v.fail(strict.Path{"kernel", "protocol"}, "%d belongs to %s; take one that nobody uses, such as 151", k.Protocol, owner)
	}
	if k.Table == tableLocal {
		v.fail(strict.Path{"kernel", "table"}, "255 is the kernel's table of local addresses")
	}
	if k.Tiers != nil && len(k.Tiers) == 0 {
		v.fail(strict.Path{"kernel", "tiers"}, "must not be empty")
	}
	v.tierDevices(k)
	if hold := v.cfg.Cluster.WitnessHold; k.WitnessHold > hold {
		v.fail(strict.Path{"kernel", "witness_hold"}, "%s is longer than cluster.witness_hold, %s", k.WitnessHold, hold)
	}
	at, seen := strict.Path{"kernel", "readback", "from"}, map[string]strict.Path{}
	for i, name := range k.Readback.From {
		unique(v, seen, at.With(i), name, "%s is there twice", name)
	}
	v.socket(strict.Path{"kernel", "readback", "frr_directory"}, k.Readback.FRRDirectory)
	v.socket(strict.Path{"kernel", "readback", "bird_socket"}, k.Readback.BIRDSocket)
}

// tierDevices validates the devices of IPv6 routes. Whether they are there is the
// host's affair.
func (v *validator) tierDevices(k *Kernel) {
	at, seen := strict.Path{"kernel", "tier_devices"}, map[string]strict.Path{}
	for i, name := range k.TierDevices {
		if !interfaceName.MatchString(name) {
			v.fail(at.With(i), "%q is not the name of an interface", name)
		}
		unique(v, seen, at.With(i), name, "%s is there twice", name)
	}
	switch n := len(k.TierDevices); {
	case n == 0:
	case k.NextHop != "tier":
		v.fail(at, "is for next_hop tier, and next_hop is %s", k.NextHop)
	case n != len(k.Tiers):
		v.fail(at, "must be one for each of the %d tiers, and there are %d", len(k.Tiers), n)
	}
}

// socket refuses a path that depends on where the daemon was started.
func (v *validator) socket(p strict.Path, path string) {
	if !filepath.IsAbs(path) {
		v.fail(p, "%q must be an absolute path", path)
	}
}

// protocolOwner says whose a routing protocol number is, "" for nobody's
// (linux/rtnetlink.h, and FRR's own from 186). FRR takes routes with one of its
// own numbers for leftovers of itself.
func protocolOwner(n int) string {
	switch {
	case n <= 4:
		return "the kernel"
	case n == 11:
		return "zebra (FRR)"
	case n == 12:
		return "BIRD"
	case n == 16:
		return "DHCP clients"
	case n == 18:
		return "keepalived"
	case n >= 8 && n <= 18:
		return "another routing daemon"
	case n == 42:
		return "Babel"
	case n == 84:
		return "Open/R"
	case n >= 186 && n <= 198:
		return "FRR"
	}
	return ""
}
