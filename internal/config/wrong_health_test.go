package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// wrongHealth are wrong rules of health: a check in place of the one named web,
// a check: of the service atm, its servers:, and all that must be said.
var wrongHealth = []struct {
	check, composition, servers string
	want                        []string
}{
	{check: "{type: tcp, window: {size: 5, fail: 6}}", want: []string{"rhid.yaml:10:44: checks.web.window.fail: 6 is more than size 5"}},
	{check: "{type: tcp, window: {size: 5, fail: 3, recover: 2}}", want: []string{"rhid.yaml:10:56: checks.web.window.recover: 2 successes of 5 leave room for 3 failures, which make it down; at least 3"}},
	{check: "{type: tcp, window: {size: 100, fail: 3}}", want: []string{"rhid.yaml:10:35: checks.web.window.size: must be at most 64, not 100"}},
	{check: "{type: tcp, rate: {over: 10m, last: 10, min_samples: 20}}", want: []string{"rhid.yaml:10:61: checks.web.rate.min_samples: 20 can never be reached with last 10"}},
	{check: "{type: tcp, rate: {min: 90, recover: 120%}}", want: []string{
		`rhid.yaml:10:32: checks.web.rate.min: "90" is not a percentage above 0% and up to 100%; write it like 90% or 99.5%`,
		`rhid.yaml:10:45: checks.web.rate.recover: "120%" is not a percentage above 0% and up to 100%; write it like 90% or 99.5%`,
	}},
	{check: "{type: tcp, rate: {min: 90%, recover: 80%}}", want: []string{"rhid.yaml:10:46: checks.web.rate.recover: 80% must not be below min 90%"}},
	{check: "{type: tcp, latency: {over: 1m}}", want: []string{"rhid.yaml:10:29: checks.web.latency.p95: is required"}},
	{check: "{type: tcp, interval: 1s, timeout: 800ms, jitter: 200ms}", want: []string{"rhid.yaml:10:58: checks.web.jitter: 200ms and timeout 800ms together must be shorter than interval and fast_interval, 1s"}},
	{check: "{type: tcp, resolve: every, interface: eth0/1, maintenance_file: here}", want: []string{
		`rhid.yaml:10:29: checks.web.resolve: "every" is not first, all, or the address of a host`,
		`rhid.yaml:10:47: checks.web.interface: "eth0/1" is not the name of an interface: at most 15 characters, none of them blank, / or :`,
		`rhid.yaml:10:73: checks.web.maintenance_file: "here" must be an absolute path`,
	}},
	{check: "{type: tcp, resolve_min: 2, may_raise: true, dependency: remote}", want: []string{
		"rhid.yaml:10:33: checks.web.resolve_min: has no effect without resolve: all",
		"rhid.yaml:10:47: checks.web.may_raise: is for passive checks; tcp is active, and counts as up when it is",
		`rhid.yaml:10:65: checks.web.dependency: "remote" is not one of auto, local, shared`,
	}},
	{check: "{type: tcp, source: 10.1.0.11, resolve: \"fd00::1\"}", want: []string{
		"rhid.yaml:10:48: checks.web.resolve: fd00::1 is not of the same address family as source 10.1.0.11",
		`rhid.yaml:16:12: services[0] "atm": check: check "web" has resolve: fd00::1, which all servers would stand for`,
	}},
	{check: "{type: tcp, resolve: 10.9.1.1}", want: []string{`rhid.yaml:16:12: services[0] "atm": check: check "web" has resolve: 10.9.1.1, which all servers would stand for`}},
	{check: "{type: load, resolve: all}", want: []string{
		"rhid.yaml:10:30: checks.web.resolve: all is for checks of a target, which load does not need",
		`rhid.yaml:16:12: services[0] "atm": check: does not look at the servers: it has an address of its own, or needs no target; take the address out, or leave servers out`,
	}},
	{composition: "{all: []}", want: []string{`rhid.yaml:16:12: services[0] "atm": check: must join at least one check`}},
	{composition: "{all: [web, wed]}", want: []string{`rhid.yaml:16:24: services[0] "atm": check.all[1]: there is no check "wed"; did you mean "web"?`}},
	{composition: "{any: [web, web], all: [web]}", want: []string{`rhid.yaml:16:12: services[0] "atm": check: all, any, at_least and score exclude each other; nest them`}},
	{composition: "{at_least: 2, of: [web]}", want: []string{`rhid.yaml:16:23: services[0] "atm": check.at_least: 2 is more than the 1 in of`}},
	{composition: "{at_least: 0%, of: [web]}", want: []string{`rhid.yaml:16:23: services[0] "atm": check.at_least: 0% must be between 1% and 100%`}},
	{composition: "{of: [web]}", want: []string{`rhid.yaml:16:17: services[0] "atm": check.of: needs at_least, how many of them must be up`}},
	{composition: "{at_least: 1}", want: []string{`rhid.yaml:16:23: services[0] "atm": check.at_least: needs of, the checks to count`}},
	{composition: "{all: [web, {type: tcp}]}", want: []string{`rhid.yaml:16:24: services[0] "atm": check.all[1]: a check within a composition is named: put it into checks, and its name here`}},
	{composition: "{any: [{any: [{any: [{any: [{any: [web]}]}]}]}]}", want: []string{`rhid.yaml:16:40: services[0] "atm": check.any[0].any[0].any[0].any[0]: compositions are nested deeper than 4`}},
	{composition: "{score: {up: 30, down: 40, of: [{check: web, weight: 0}]}}", want: []string{
		`rhid.yaml:16:35: services[0] "atm": check.score.down: 40 must not be above up, 30`,
		`rhid.yaml:16:65: services[0] "atm": check.score.of[0].weight: must be at least 1, not 0`,
	}},
	{composition: "{all: [web], al: [web]}", want: []string{`rhid.yaml:16:25: services[0] "atm": check.al: unknown key; did you mean "all"?`}},
	{check: "{type: tcp, address: \"self:80\"}", want: []string{`rhid.yaml:16:12: services[0] "atm": check: does not look at the servers: it has an address of its own, or needs no target; take the address out, or leave servers out`}},
	{check: "{type: http, address: \"10.255.0.10:80\", allow_vip: true}\n  x: {type: tcp}", composition: "{all: [web, x]}", want: []string{`rhid.yaml:17:12: services[0] "atm": check: check "web" goes to the service's own VIP 10.255.0.10, which is not on this host while the service is withdrawn: it would test another node; set vip.bind: always, or aim it at self`}},
	{check: "{type: report, maintenance_file: /x, invert: true, window: {size: 5, fail: 3}}", want: []string{
		"rhid.yaml:10:41: checks.web.maintenance_file: is looked for at each probe, and report has none; give it to the check beside it",
		"rhid.yaml:10:53: checks.web.invert: is not for a passive check, which is judged by its rate",
		"rhid.yaml:10:67: checks.web.window: is not for a passive check, which is judged by its rate",
		`rhid.yaml:16:12: services[0] "atm": check: is passive evidence only, which may pull the service down and never bring it up: join it with an active check (all: [...]), or set may_raise`,
	}},
	{check: "{type: load}", want: []string{`rhid.yaml:16:12: services[0] "atm": check: does not look at the servers: it has an address of its own, or needs no target; take the address out, or leave servers out`}},
	{servers: "{addresses: [{address: \"10.9.1.1:80\", backup: true}]}", want: []string{`rhid.yaml:15:26: services[0] "atm": servers.addresses: all servers are backups; one at the least must not be`}},
	{servers: "{addresses: [\"10.9.1.1:80\", {weight: 2}]}", want: []string{`rhid.yaml:15:42: services[0] "atm": servers.addresses[1].address: is required`}},
	{servers: "{addresses: [\"10.9.1.1:80\", {address: \"10.9.1.1:80\", weight: 2}]}", want: []string{`rhid.yaml:15:52: services[0] "atm": servers.addresses[1].address: 10.9.1.1:80 is there twice, first in line 15`}},
	{servers: "{addresses: [\"10.9.1.1:80\"], min_healthy: 2}", want: []string{`rhid.yaml:15:56: services[0] "atm": servers.min_healthy: 2 is more than the 1 servers, by weight`}},
	{servers: "{addresses: [\"10.9.1.1:80\", \"10.9.1.2:80\"], min_healthy: 2, recover_healthy: 1}", want: []string{`rhid.yaml:15:91: services[0] "atm": servers.recover_healthy: 1 must not be below min_healthy 2`}},
	{servers: "{addresses: [\"10.9.1.1:80\", \"10.9.1.2:80\"], min_healthy: 1, recover_healthy: 100%}", want: []string{`rhid.yaml:15:91: services[0] "atm": servers.recover_healthy: 100% and min_healthy 1 must be of the same kind: numbers, or percentages`}},
}

func TestWrongHealth(t *testing.T) {
	for _, tt := range wrongHealth {
		t.Run(tt.check+tt.composition+tt.servers, func(t *testing.T) {
			edits := []edit{{"\n", "\n"}}
			if tt.check != "" {
				edits = append(edits, edit{"{type: http, interval: 1s}", tt.check})
			}
			if tt.composition != "" {
				edits = append(edits, edit{"check: web", "check: " + tt.composition})
			}
			if tt.servers != "" {
				edits = append(edits, edit{`{addresses: ["10.9.1.1:80", "10.9.1.2:80"]}`, tt.servers})
			}
			_, err := Parse("rhid.yaml", []byte(apply(t, edits)), noFiles)
			var errs Errors
			if !errors.As(err, &errs) {
				t.Fatalf("error is %v, want Errors", err)
			}
			if diff := cmp.Diff(tt.want, strings.Split(errs.Error(), "\n")); diff != "" {
				t.Errorf("errors differ (-want +got):\n%s", diff)
			}
		})
	}
}
