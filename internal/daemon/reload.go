package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"time"

	"rhid/announce/bgp"
	"rhid/internal/config"
	"rhid/internal/control"
)

// errReload wraps why a new configuration was refused; the old one runs on.
var errReload = errors.New("the new configuration was refused, the old one runs on")

// reload reads the configuration again: all of it takes effect, or nothing.
func (l *loop) reload() error {
	l.d.notify.reloading()
	defer l.d.notify.ready()
	// A thousand checks on a busy host take a while to be made; that is not the
	// standstill that noteStall looks for: all but this loop went on.
	defer func() { l.turned = time.Now() }()
	now := time.Now()
	err := l.tryReload(now)
	ev := control.Event{Time: now, Kind: "daemon", Subject: l.m.self.Name, What: "reloaded", Detail: l.m.digest}
	l.lastErr = ""
	if err != nil {
		l.lastErr = err.Error()
		ev.What, ev.Code, ev.Detail = "reload-refused", "config", l.lastErr
		err = fmt.Errorf("%w: %w", errReload, err)
	}
	l.journal.add(ev)
	return err
}

func (l *loop) tryReload(now time.Time) error {
	if l.phase != phaseRunning {
		return errors.New("the daemon is being stopped")
	}
	m, err := l.read()
	if err != nil {
		return err
	}
	if err := restartNeeded(l.m, m); err != nil {
		return err
	}
	wide := merged(l.widest(), m)
	if err := l.d.configure(wide); err != nil {
		return errors.Join(err, l.d.configure(l.widest()))
	}
	if l.d.cluster != nil {
		if err := l.d.cluster.SetNodes(clusterNodes(m.cfg)); err != nil {
			return errors.Join(fmt.Errorf("changing the nodes: %w", err), l.d.configure(l.widest()))
		}
	}
	if err := l.d.runner.Update(m.specs); err != nil {
		return errors.Join(fmt.Errorf("changing the checks: %w", err), l.d.configure(l.widest()))
	}
	l.adopt(m, now)
	l.d.endpoint.reload()
	l.wide = wide
	l.decide(now)
	return nil
}

// makingLimit is for how long the loop counts as alive while it makes a model.
const makingLimit = 10 * time.Second

// read makes a model of the configuration file. One that cannot be read, as on a
// disk that hangs, is a standstill like any other. With hundreds of services on a
// busy host, though, the work behind that takes longer than a lease or a BFD
// session lasts: meanwhile the loop counts as alive, but not for ever.
func (l *loop) read() (m *model, err error) {
	file := l.d.opts.File
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		var cfg *config.Config
		if cfg, err = config.Parse(file, data, os.ReadFile); err == nil {
			m, err = newModel(cfg, l.d.opts.Node, l.m.found)
		}
	}()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for end := time.Now().Add(makingLimit); ; {
		select {
		case <-done:
			return m, err
		case now := <-ticker.C:
			if now.Before(end) {
				l.d.turns.Add(1)
			}
		}
	}
}

// widest is the model that the backends were configured with last.
func (l *loop) widest() *model {
	if l.wide != nil {
		return l.wide
	}
	return l.m
}

// narrow takes VIPs that are no longer configured off the backends, and so out
// of the export filter, once they have left.
func (l *loop) narrow() {
	if l.wide == nil {
		return
	}
	for _, v := range l.d.announcer.Status() {
		if l.byName[v.Service] == nil || !slices.Contains(l.byName[v.Service].conf.VIPs, v.Prefix) {
			return
		}
	}
	if err := l.d.configure(l.m); err != nil {
		l.d.log.Error("VIPs that left are still in the export filter", "error", err)
		return
	}
	l.wide = nil
}

// restartNeeded refuses what a running daemon cannot change.
func restartNeeded(old, now *model) error {
	switch {
	case (old.bgp == nil) != (now.bgp == nil):
		return errors.New("the BGP speaker is added or removed by it: restart the daemon")
	case old.cfg.Cluster != now.cfg.Cluster, (len(old.nodes) > 1) != (len(now.nodes) > 1), old.self.Address != now.self.Address:
		return errors.New("cluster, and the node's address, cannot change at run time: restart the daemon")
	case !reflect.DeepEqual(old.cfg.Control, now.cfg.Control):
		return errors.New("control: the socket and the endpoint for reports cannot change at run time: restart the daemon")
	case old.kernel.Lease != now.kernel.Lease, now.kernel.Lease && old.kernel.Protocol != now.kernel.Protocol:
		return errors.New("kernel.lease, and with it kernel.protocol, cannot change at run time: restart the daemon")
	case !old.kernel.Readback.Equal(now.kernel.Readback):
		return errors.New("kernel.readback cannot change at run time: restart the daemon")
	case old.bgp == nil:
		return nil
	case !slices.Equal(old.interfaces(), now.interfaces()):
		return errors.New("the interfaces of unnumbered routers cannot change at run time: restart the daemon")
	case old.bgp.ASN != now.bgp.ASN:
		return fmt.Errorf("the node's ASN cannot change from %d to %d at run time: restart the daemon", old.bgp.ASN, now.bgp.ASN)
	case old.bgp.RouterID != now.bgp.RouterID, old.bgp.Port != now.bgp.Port,
		!slices.Equal(old.bgp.ListenAddresses, now.bgp.ListenAddresses):
		return errors.New("bgp.router_id, bgp.port and bgp.listen_addresses cannot change at run time: restart the daemon")
	}
	return nil
}

// merged is the new model, with the backends still responsible for the old
// VIPs too: those that are no longer configured must get out in order first.
func merged(old, now *model) *model {
	m := *now
	m.kernel.VIPs = union(old.kernel.VIPs, now.kernel.VIPs)
	m.kernel.Routed = union(old.kernel.Routed, now.kernel.Routed)
	if now.bgp != nil {
		b := *now.bgp
		b.Allowed = union(old.bgp.Allowed, now.bgp.Allowed)
		m.bgp = &b
	}
	return &m
}

func union[T comparable](a, b []T) []T {
	out := slices.Clone(a)
	for _, x := range b {
		if !slices.Contains(out, x) {
			out = append(out, x)
		}
	}
	return out
}

// configure gives the backends the settings of m.
func (d *Daemon) configure(m *model) error {
	d.world.Configure(m.kernel)
	if d.speaker == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := d.speaker.Configure(ctx, *m.bgp); err != nil {
		if errors.Is(err, bgp.ErrNeedsRestart) {
			return fmt.Errorf("%w: restart the daemon", err)
		}
		return fmt.Errorf("changing the BGP speaker: %w", err)
	}
	return d.configureBFD(m)
}
