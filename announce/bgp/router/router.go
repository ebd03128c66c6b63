// Package router is a small BGP router in the same process: it accepts the
// sessions of rhid hosts and tells which paths they announce. It stands in for
// the branch router where there is no FRR: in `rhid demo`. It forwards nothing
// and touches no kernel table.
package router

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"rhid/announce"

	api "github.com/osrg/gobgp/v3/api"
	gobgplog "github.com/osrg/gobgp/v3/pkg/log"
	"github.com/osrg/gobgp/v3/pkg/server"
)

// Settings of a Router.
type Settings struct {
	ASN     uint32
	Address netip.Addr // to listen on; also the router id
	Port    int
	Hosts   []Host
}

// Host is a rhid host that may open a session.
type Host struct {
	Name    string
	Address netip.Addr
	ASN     uint32
}

// Path is one path in the router's table.
type Path struct {
	Prefix           netip.Prefix
	From             string // name of the host
	Best             bool
	MED              uint32
	ASPath           []uint32
	Communities      []uint32
	LargeCommunities []announce.LargeCommunity
}

// Router is a running router.
type Router struct {
	bgp     *server.BgpServer
	hosts   map[string]Host // by address
	changes chan struct{}

	mu     sync.Mutex
	up     map[string]bool // by host name
	failed error           // admitting a host anew
}

// Start listens and waits for the hosts to connect. Only one Router and no
// Speaker should live in a process: GoBGP's own goroutine does not end.
func Start(ctx context.Context, set Settings) (*Router, error) {
	r := &Router{
		bgp:   server.NewBgpServer(server.LoggerOption(silent{})),
		hosts: map[string]Host{}, changes: make(chan struct{}, 1), up: map[string]bool{},
	}
	for _, h := range set.Hosts {
		r.hosts[h.Address.String()] = h
	}
	go r.bgp.Serve()
	global := &api.Global{
		Asn: set.ASN, RouterId: set.Address.String(),
		ListenPort: int32(set.Port), ListenAddresses: []string{set.Address.String()}, //nolint:gosec // a port
	}
	if err := r.bgp.StartBgp(ctx, &api.StartBgpRequest{Global: global}); err != nil {
		return nil, fmt.Errorf("starting the router on %s:%d: %w", set.Address, set.Port, err)
	}
	if err := r.watch(ctx); err != nil {
		return nil, err
	}
	for _, h := range set.Hosts {
		if err := r.admit(ctx, h); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// admit lets a host open a session.
func (r *Router) admit(ctx context.Context, h Host) error {
	err := r.bgp.AddPeer(ctx, &api.AddPeerRequest{Peer: &api.Peer{
		Conf:      &api.PeerConf{NeighborAddress: h.Address.String(), PeerAsn: h.ASN},
		Transport: &api.Transport{PassiveMode: true},
		Timers:    &api.Timers{Config: &api.TimersConfig{HoldTime: 3, KeepaliveInterval: 1, ConnectRetry: 1}},
		AfiSafis: []*api.AfiSafi{
			{Config: &api.AfiSafiConfig{Enabled: true, Family: &api.Family{Afi: api.Family_AFI_IP, Safi: api.Family_SAFI_UNICAST}}},
			{Config: &api.AfiSafiConfig{Enabled: true, Family: &api.Family{Afi: api.Family_AFI_IP6, Safi: api.Family_SAFI_UNICAST}}},
		},
	}})
	if err != nil {
		return fmt.Errorf("admitting host %s to the router: %w", h.Name, err)
	}
	return nil
}

// readmit takes a host out and admits it anew: GoBGP otherwise turns it away
// for 5 s after a session ended.
func (r *Router) readmit(ctx context.Context, h Host) {
	err := r.bgp.DeletePeer(ctx, &api.DeletePeerRequest{Address: h.Address.String()})
	if err == nil {
		err = r.admit(ctx, h)
	}
	if err != nil && ctx.Err() == nil {
		r.mu.Lock()
		r.failed = err
		r.mu.Unlock()
	}
}

// watch turns GoBGP's events into signals.
func (r *Router) watch(ctx context.Context) error {
	filters := []*api.WatchEventRequest_Table_Filter{
		{Type: api.WatchEventRequest_Table_Filter_BEST},
		{Type: api.WatchEventRequest_Table_Filter_ADJIN},
	}
	req := &api.WatchEventRequest{Peer: &api.WatchEventRequest_Peer{}, Table: &api.WatchEventRequest_Table{Filters: filters}}
	err := r.bgp.WatchEvent(ctx, req, func(ev *api.WatchEventResponse) {
		if p := ev.GetPeer(); p != nil && p.GetType() == api.WatchEventResponse_PeerEvent_STATE {
			st := p.GetPeer().GetState()
			h := r.hosts[st.GetNeighborAddress()]
			r.mu.Lock()
			was := r.up[h.Name]
			r.up[h.Name] = st.GetSessionState() == api.PeerState_ESTABLISHED
			lost := was && !r.up[h.Name]
			r.mu.Unlock()
			if lost {
				go r.readmit(ctx, h)
			}
		}
		select {
		case r.changes <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return fmt.Errorf("watching the router's table: %w", err)
	}
	return nil
}

// Changes receives a value, never more than one at a time, when Paths or Up
// may have changed.
func (r *Router) Changes() <-chan struct{} { return r.changes }

// Up says whether the session with a host is established.
func (r *Router) Up(host string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.up[host]
}

// Paths returns every path in the table, by prefix, the best first.
func (r *Router) Paths(ctx context.Context) ([]Path, error) {
	var out []Path
	r.mu.Lock()
	bad := r.failed
	r.mu.Unlock()
	for _, afi := range []api.Family_Afi{api.Family_AFI_IP, api.Family_AFI_IP6} {
		req := &api.ListPathRequest{TableType: api.TableType_GLOBAL, Family: &api.Family{Afi: afi, Safi: api.Family_SAFI_UNICAST}}
		err := r.bgp.ListPath(ctx, req, func(d *api.Destination) {
			for i, p := range d.GetPaths() {
				path, err := r.decode(d.GetPrefix(), p, i == 0)
				if err != nil {
					bad = err
					return
				}
				out = append(out, path)
			}
		})
		if err != nil {
			return nil, fmt.Errorf("listing the router's table: %w", err)
		}
	}
	slices.SortStableFunc(out, func(a, b Path) int { return a.Prefix.Compare(b.Prefix) })
	return out, bad
}

func (r *Router) decode(prefix string, p *api.Path, best bool) (Path, error) {
	pfx, err := netip.ParsePrefix(prefix)
	if err != nil {
		return Path{}, fmt.Errorf("prefix in the router's table: %w", err)
	}
	out := Path{Prefix: pfx, From: r.hosts[p.GetNeighborIp()].Name, Best: best}
	for _, a := range p.GetPattrs() {
		m, err := a.UnmarshalNew()
		if err != nil {
			return out, fmt.Errorf("attribute of %s: %w", prefix, err)
		}
		switch m := m.(type) {
		case *api.MultiExitDiscAttribute:
			out.MED = m.GetMed()
		case *api.AsPathAttribute:
			for _, seg := range m.GetSegments() {
				out.ASPath = append(out.ASPath, seg.GetNumbers()...)
			}
		case *api.CommunitiesAttribute:
			out.Communities = m.GetCommunities()
		case *api.LargeCommunitiesAttribute:
			for _, c := range m.GetCommunities() {
				out.LargeCommunities = append(out.LargeCommunities, announce.LargeCommunity{
					Global: c.GetGlobalAdmin(), Local1: c.GetLocalData1(), Local2: c.GetLocalData2(),
				})
			}
		}
	}
	return out, nil
}

// Stop ends all sessions.
func (r *Router) Stop(ctx context.Context) error {
	if err := r.bgp.StopBgp(ctx, &api.StopBgpRequest{}); err != nil {
		return fmt.Errorf("stopping the router: %w", err)
	}
	return nil
}

// Attributes returns a path's attributes as people write them.
func (p Path) Attributes() string {
	var parts []string
	parts = append(parts, fmt.Sprintf("MED %d", p.MED), "AS path"+numbers(p.ASPath))
	for _, c := range p.Communities {
		name := fmt.Sprintf("%d:%d", c>>16, c&0xffff)
		if c == 0xFFFF0000 { // RFC 8326
			name = "GRACEFUL_SHUTDOWN"
		}
		parts = append(parts, name)
	}
	for _, c := range p.LargeCommunities {
		parts = append(parts, fmt.Sprintf("%d:%d:%d", c.Global, c.Local1, c.Local2))
	}
	return strings.Join(parts, ", ")
}

func numbers(path []uint32) string {
	var b strings.Builder
	for _, n := range path {
		fmt.Fprintf(&b, " %d", n)
	}
	return b.String()
}

// silent drops GoBGP's log: what matters is in the table.
type silent struct{}

func (silent) Panic(msg string, _ gobgplog.Fields) { panic(msg) }
func (silent) Fatal(msg string, _ gobgplog.Fields) { panic(msg) }
func (silent) Error(string, gobgplog.Fields)       {}
func (silent) Warn(string, gobgplog.Fields)        {}
func (silent) Info(string, gobgplog.Fields)        {}
func (silent) Debug(string, gobgplog.Fields)       {}
func (silent) SetLevel(gobgplog.LogLevel)          {}
func (silent) GetLevel() gobgplog.LogLevel         { return gobgplog.ErrorLevel }
