package checks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
)

const systemBus = "/run/dbus/system_bus_socket"

// UnitOptions are the settings of a unit check.
type UnitOptions struct {
	Unit   string   `yaml:"unit" required:"true" doc:"the unit of systemd, for example haproxy.service"`
	States []string `yaml:"states" default:"active,reloading" doc:"wanted active states"`
	Socket string   `yaml:"socket" default:"/run/dbus/system_bus_socket" doc:"socket to ask: of a bus, or systemd's own, whose name is private, for example /run/systemd/private (root only) or /run/user/1000/systemd/private"`
}

// NeedsTarget implements Options.
func (*UnitOptions) NeedsTarget() TargetKind { return TargetNone }

// Problems implements Options.
func (o *UnitOptions) Problems() []Problem {
	var ps []Problem
	if name, kind := o.Unit, filepath.Ext(o.Unit); len(kind) < 2 || strings.ContainsAny(name, "/ \x00") || len(name) > 255 {
		ps = append(ps, Problem{"unit", fmt.Sprintf("%q is not the name of a unit, such as haproxy.service", o.Unit)})
	}
	for _, s := range o.States {
		ps = append(ps, wordProblems("states", s, "active", "reloading", "inactive", "failed", "activating", "deactivating", "maintenance")...)
	}
	if o.Socket != "" && !filepath.IsAbs(o.Socket) {
		ps = append(ps, Problem{"socket", fmt.Sprintf("%q is not an absolute path", o.Socket)})
	}
	return ps
}

// unitProbe is a unit check.
type unitProbe struct {
	unit   string
	states []string
	socket string
	limit  string // the probe's time, for sentences
}

// Prober implements Options.
func (o *UnitOptions) Prober(t Target) (Prober, error) {
	if ps := o.Problems(); len(ps) > 0 {
		return nil, fmt.Errorf("unit check: %s %s", ps[0].Key, ps[0].Msg)
	}
	p := &unitProbe{unit: o.Unit, states: o.States, socket: orDefault(o.Socket, systemBus), limit: (&aim{limit: t.Limit}).limitText()}
	if len(p.states) == 0 {
		p.states = []string{"active", "reloading"}
	}
	return timed(p.probe), nil
}

func (p *unitProbe) probe(ctx context.Context) Result {
	bus, err := p.connect(ctx)
	if err != nil {
		return p.failure(ctx, "systemd cannot be asked at "+p.socket, err).result("")
	}
	defer bus.Close()
	props := map[string]godbus.Variant{}
	path := godbus.ObjectPath("/org/freedesktop/systemd1/unit/" + dbus.PathBusEscape(p.unit))
	call := bus.Object("org.freedesktop.systemd1", path).CallWithContext(ctx, "org.freedesktop.DBus.Properties.GetAll", 0, "org.freedesktop.systemd1.Unit")
	if err := call.Store(&props); err != nil {
		return p.failure(ctx, "systemd did not tell of "+p.unit, err).result("")
	}
	return p.judge(props)
}

// connect opens a connection, which ends with ctx. To systemd's own socket
// nobody has to say hello.
func (p *unitProbe) connect(ctx context.Context) (*godbus.Conn, error) {
	bus, err := godbus.Dial("unix:path="+godbus.EscapeBusAddressValue(p.socket), godbus.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	err = bus.Auth([]godbus.Auth{godbus.AuthExternal(strconv.Itoa(os.Getuid()))})
	if err == nil && filepath.Base(p.socket) != "private" {
		err = bus.Hello()
	}
	if err != nil {
		return nil, errors.Join(err, bus.Close())
	}
	return bus, nil
}

// judge says what the properties of the unit mean.
func (p *unitProbe) judge(props map[string]godbus.Variant) Result {
	text := func(key string) string {
		s, _ := props[key].Value().(string) // empty when it is something else, which no state is
		return s
	}
	state, sub, load := text("ActiveState"), text("SubState"), text("LoadState")
	switch {
	case slices.Contains(p.states, state):
		return Result{OK: true, Detail: fmt.Sprintf("%s is %s (%s)", p.unit, state, sub)}
	case load == "not-found":
		return failf(CauseAnswer, "there is no unit %s", p.unit).result("")
	case state == "":
		return failf(CauseAnswer, "systemd says nothing of the state of %s", p.unit).result("")
	}
	return failf(CauseAnswer, "%s is %s (%s), wanted %s", p.unit, state, sub, strings.Join(p.states, " or ")).result("")
}

// failure explains why nothing is known of the unit: the host's fault, unless
// systemd has an opinion.
func (p *unitProbe) failure(ctx context.Context, what string, err error) *failure {
	var said godbus.Error
	switch {
	case errors.As(err, &said):
		return failf(CauseAnswer, "%s: %s", what, oneLine([]byte(said.Error()), 120))
	case ctx.Err() != nil, errors.Is(err, os.ErrDeadlineExceeded):
		return netFailure(ctx, os.ErrDeadlineExceeded, "systemd did not answer within "+p.limit)
	}
	return failf(CauseInternal, "%s: %s", what, oneLine([]byte(bareError(err).Error()), 120))
}
