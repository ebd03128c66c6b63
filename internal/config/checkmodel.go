package config

import (
	"net/netip"
	"time"

	"rhid/checks"
)

// Check is a named or inline check: what all types share, and the options of
// its type (checks.Options), which stand beside them in the same mapping.
type Check struct {
	Type            string        `yaml:"type" required:"true" doc:"the check type"`
	Interval        time.Duration `yaml:"interval" default:"1s" min:"10ms" max:"1h" doc:"between the starts of two probes"`
	FastInterval    time.Duration `yaml:"fast_interval" min:"10ms" max:"1h" doc:"the same while the state is in doubt; interval by default"`
	Jitter          time.Duration `yaml:"jitter" max:"10m" doc:"each probe starts up to this much later than its time, at random"`
	Timeout         time.Duration `yaml:"timeout" min:"1ms" doc:"of one probe, end to end; 80 % of the shorter interval, less jitter, by default"`
	Fall            int           `yaml:"fall" default:"3" min:"1" max:"1000" doc:"failures in a row until down"`
	Rise            int           `yaml:"rise" default:"2" min:"1" max:"1000" doc:"successes in a row until up"`
	Window          *Window       `yaml:"window" doc:"N of M, in place of fall and rise"`
	Rate            *Rate         `yaml:"rate" doc:"down also when too small a share of the results succeeds; the only rule of a passive check, which has over 1m and min 90% without it"`
	Latency         *Latency      `yaml:"latency" doc:"degraded when successes take too long for too long"`
	MayRaise        bool          `yaml:"may_raise" doc:"for passive checks: good evidence counts as up; else it only keeps down what it says is down"`
	Dependency      string        `yaml:"dependency" default:"auto" enum:"auto,local,shared" doc:"what fails when it fails: something of this node only, or something that all nodes use; for the brake (cluster.max_withdrawals), which by itself goes by whether it fails everywhere"`
	Address         string        `yaml:"address" doc:"the target, where it is not the service's servers: address:port, or address; self is the node's own address"`
	Resolve         string        `yaml:"resolve" default:"first" doc:"addresses of a target that is a name: first probes the one that the resolver prefers, all probes each, and an IP address is taken in place of looking the name up"`
	ResolveMin      Quorum        `yaml:"resolve_min" doc:"with resolve all: how many of the addresses must answer, a number or a percentage; all by default"`
	Source          netip.Addr    `yaml:"source" doc:"local address probes leave from"`
	Interface       string        `yaml:"interface" doc:"interface probes leave by (SO_BINDTODEVICE), whatever the routing table says"`
	Mark            uint32        `yaml:"mark" doc:"firewall mark of the probes' packets, for ip rule and nftables (SO_MARK); 0 is none"`
	Invert          bool          `yaml:"invert" doc:"a probe that fails is a success, and one that succeeds a failure"`
	MaintenanceFile string        `yaml:"maintenance_file" doc:"while this file exists what is checked is under maintenance; {target} in it stands for the target"`
	AllowVIP        bool          `yaml:"allow_vip" doc:"let the probe go to one of rhid's own VIPs"`

	Options checks.Options `yaml:",inline"` // of the type
}

// Window is N of M.
type Window struct {
	Size    int `yaml:"size" required:"true" min:"1" max:"64" doc:"how many of the last results are looked at"`
	Fail    int `yaml:"fail" required:"true" min:"1" max:"64" doc:"failures among them that make it down"`
	Recover int `yaml:"recover" min:"1" max:"64" doc:"successes among them that make it up again; all of them by default"`
}

// Rate is a success rate with hysteresis.
type Rate struct {
	Over       time.Duration `yaml:"over" default:"10m" min:"1s" max:"24h" doc:"older results do not count"`
	Last       int           `yaml:"last" min:"1" max:"10000" doc:"and of those only the last ones; all by default"`
	Min        Percent       `yaml:"min" default:"90%" doc:"down below this share of successes"`
	Recover    Percent       `yaml:"recover" doc:"up again from this share on; half way between min and 100% by default"`
	MinSamples int           `yaml:"min_samples" min:"1" max:"10000" doc:"with fewer results the rate abstains; 20 by default, or last where that is fewer"`
}

// Latency is a limit of the time that successes take.
type Latency struct {
	P95        time.Duration `yaml:"p95" required:"true" min:"1ns" doc:"95 of 100 successes must take no longer than this"`
	Over       time.Duration `yaml:"over" default:"1m" min:"1s" max:"24h" doc:"older results do not count"`
	For        time.Duration `yaml:"for" default:"30s" max:"24h" doc:"how long it must be so until the check is degraded, and not so until it no longer is"`
	MinSamples int           `yaml:"min_samples" default:"20" min:"1" max:"10000" doc:"with fewer results nothing changes"`
}

// Percent is a share, written 99.5%.
type Percent float64

// Servers is a pool of servers behind a service.
type Servers struct {
	Addresses      []Server      `yaml:"addresses" required:"true" doc:"the servers: each address:port (or address, for checks without a port), or a mapping with address, weight and backup; self is the node's own address"`
	MinHealthy     Quorum        `yaml:"min_healthy" default:"1" doc:"how many must be up for the service to be up, by weight: a number, or a percentage of those that are no backups"`
	RecoverHealthy Quorum        `yaml:"recover_healthy" doc:"once there were fewer than min_healthy: how many must be up for the service to be up again; min_healthy by default"`
	SlowStart      time.Duration `yaml:"slow_start" max:"24h" doc:"a server that was down counts only when it has been up this long"`
}

// Server is one server of a pool, written as its address or as a mapping.
type Server struct {
	Address string `yaml:"address" required:"true" doc:"address:port, or address for checks without a port; self is the node's own address"`
	Weight  int    `yaml:"weight" default:"1" min:"1" max:"1000" doc:"as how many servers it counts"`
	Backup  bool   `yaml:"backup" doc:"it counts only while the others are fewer than min_healthy, and the service is degraded then"`
}

// Quorum is a number of servers or a share of them, written 2 or "50%".
type Quorum struct {
	N       int
	Percent int // 1 to 100; 0 when N is meant
}

// CheckRef is the name of a check, a check written in place, or a composition.
type CheckRef struct {
	Name   string
	Inline *Check
	Group  *Group
}

// Group joins checks by name. Exactly one of all, any, at_least and score is
// set; of belongs to at_least.
type Group struct {
	All     []CheckRef `yaml:"all" doc:"names of checks, or compositions, that must all be up"`
	Any     []CheckRef `yaml:"any" doc:"of which one must be up"`
	AtLeast Quorum     `yaml:"at_least" doc:"how many of those in of must be up: a number or a percentage"`
	Of      []CheckRef `yaml:"of" doc:"what at_least counts"`
	Score   *Score     `yaml:"score" doc:"up and down by the weight of what is up"`
}

// Score judges several indicators together.
type Score struct {
	Up   int      `yaml:"up" required:"true" min:"1" max:"100" doc:"up when what is up has this percentage of the weight, or more"`
	Down int      `yaml:"down" required:"true" min:"1" max:"100" doc:"down below this percentage; in between it stays what it was"`
	Of   []Scored `yaml:"of" required:"true" doc:"the indicators"`
}

// Scored is one indicator of a score.
type Scored struct {
	Check  CheckRef `yaml:"check" required:"true" doc:"name of a check, or a composition"`
	Weight int      `yaml:"weight" default:"1" min:"1" max:"1000" doc:"its weight"`
}
