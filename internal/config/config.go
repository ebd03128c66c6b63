// Package config reads rhid's configuration: one YAML file, the same on every
// node of a cluster. It parses, fills in defaults and validates, and reports
// every error at once with file, line and column. It never touches the network.
package config

import (
	"net/netip"
	"time"
)

// Config is a whole configuration, with every default filled in.
type Config struct {
	Cluster  Cluster           `yaml:"cluster" doc:"the cluster of load-balancer hosts"`
	Control  Control           `yaml:"control" doc:"the control socket"`
	Log      Log               `yaml:"log" doc:"logging"`
	BGP      BGP               `yaml:"bgp" doc:"the embedded BGP speaker"`
	Kernel   Kernel            `yaml:"kernel" doc:"announcing as kernel routes for FRR or BIRD to export"`
	VIP      VIP               `yaml:"vip" doc:"how VIPs are made local on the host; a service may differ"`
	Stop     Stop              `yaml:"stop" doc:"what happens when the daemon is stopped"`
	Allow    []netip.Prefix    `yaml:"allow" doc:"all that may ever be announced; a VIP outside is an error"`
	Overload *CheckRef         `yaml:"overload" doc:"name of a check, or a check in place, mostly of type load; while it is down the node takes over no further service, and goes on with those it announces"`
	Sites    []Site            `yaml:"sites" doc:"the data centres"`
	Nodes    []Node            `yaml:"nodes" doc:"the load-balancer hosts"`
	Checks   map[string]*Check `yaml:"checks" doc:"named checks, shared by services"`
	Services []Service         `yaml:"services" doc:"the business services"`
}

// Cluster names the cluster and says how its nodes keep in touch. With one
// node nothing of it is used.
type Cluster struct {
	Name            string        `yaml:"name" default:"rhid" doc:"the cluster's name; hosts with another name are kept out"`
	Port            int           `yaml:"port" default:"7946" min:"1" max:"65535" doc:"UDP and TCP port of the gossip, the same on every node"`
	KeyFile         string        `yaml:"key_file" doc:"gossip keys, one in base64 a line, the first encrypts; without it the gossip is neither secret nor authenticated"`
	Detection       string        `yaml:"detection" default:"fast" enum:"fast,lan,wan" doc:"how soon a silent node counts as dead: fast well under a second, lan and wan are calmer"`
	SettleTimeout   time.Duration `yaml:"settle_timeout" max:"10m" doc:"how long a starting node waits for the others; by default 3s, 10s or 20s with the three detections"`
	Partition       string        `yaml:"partition" default:"announce" enum:"announce,quorum" doc:"what a node does that hears fewer than half of the nodes: announce all the same, or take over nothing new"`
	WitnessHold     time.Duration `yaml:"witness_hold" default:"10s" max:"1h" doc:"how long nothing moves when gossip lost a node whose route the routers still have"`
	HandoverTimeout time.Duration `yaml:"handover_timeout" default:"10s" max:"10m" doc:"how long a node that hands a service over waits for the next one's route"`
	MaxWithdrawals  int           `yaml:"max_withdrawals" min:"0" doc:"services a minute that may leave a node because of what fails on every node at once; 0 is no limit"`
	StateDir        string        `yaml:"state_dir" default:"/var/lib/rhid" doc:"directory for what must outlive the daemon: incarnation and intents"`
}

// Control is the unix socket for commands.
type Control struct {
	Socket string  `yaml:"socket" default:"/run/rhid/rhid.sock" doc:"path of the unix socket, mode 0660"`
	Group  string  `yaml:"group" doc:"group of the socket; empty leaves the daemon's own"`
	Report *Report `yaml:"report" doc:"where applications report their results over HTTP; nowhere by default"`
}

// Report is an HTTP endpoint for reports alone.
type Report struct {
	Listen    string `yaml:"listen" required:"true" doc:"IP address and port, as 127.0.0.1:9151; self is the node's own address"`
	TokenFile string `yaml:"token_file" required:"true" doc:"file whose first line is the token that each request must carry (Authorization: Bearer), 16 bytes or more"`

	TLS *ReportTLS `yaml:"tls" doc:"for HTTPS, without which only loopback may be listened on: the token would be read on the network"`
}

// ReportTLS is what the endpoint for reports shows its clients.
type ReportTLS struct {
	CertFile string `yaml:"cert_file" required:"true" doc:"file with the certificate and those that lead to its root, in PEM form; rhid reload reads it anew"`
	KeyFile  string `yaml:"key_file" required:"true" doc:"file with the certificate's key, in PEM form"`
}

// Log says how much is logged and in which form.
type Log struct {
	Level  string `yaml:"level" default:"info" enum:"debug,info,warn,error" doc:"debug also logs every probe"`
	Format string `yaml:"format" default:"text" enum:"text,json" doc:"form of a log line"`
}

// BGP is the embedded speaker.
type BGP struct {
	ASN             uint32        `yaml:"asn" min:"1" doc:"autonomous system number of all hosts; a node may have its own"`
	RouterID        netip.Addr    `yaml:"router_id" doc:"written as an IPv4 address; the node's address by default; with several nodes, give it to the node"`
	Port            int           `yaml:"port" default:"179" min:"-1" max:"65535" doc:"TCP port to listen on; -1 only dials"`
	ListenAddresses []netip.Addr  `yaml:"listen_addresses" doc:"addresses to listen on; all by default"`
	Hold            time.Duration `yaml:"hold" default:"9s" min:"3s" max:"18h12m15s" doc:"hold time in whole seconds, 3s at the least (RFC 4271)"`
	Keepalive       time.Duration `yaml:"keepalive" min:"1s" doc:"a third of hold by default"`
	ConnectRetry    time.Duration `yaml:"connect_retry" default:"1s" min:"1s" max:"10m" doc:"pause between two attempts to connect"`
}

// Kernel is the kernel backend.
type Kernel struct {
	Protocol    int           `yaml:"protocol" default:"151" min:"1" max:"255" doc:"rhid's own protocol number in the kernel's tables"`
	Table       int           `yaml:"table" default:"254" min:"1" max:"4294967295" doc:"routing table of the announcement routes; 254 is main"`
	NextHop     string        `yaml:"next_hop" default:"lo" enum:"lo,blackhole,tier" doc:"form of the announcement route: dev lo, blackhole, or the never-used on-link next hop 169.254.100.<tier> that FRR before 9.0 needs to tell costs apart"`
	Tiers       []int         `yaml:"tiers" default:"10,100,200" min:"1" max:"254" doc:"next-hop tier of rank 0, 1, …; the last also for all that follow"`
	TierDevices []string      `yaml:"tier_devices" doc:"devices of the routes of IPv6 VIPs, one for each of tiers, by which FRR before 9.0 tells their costs apart; a dummy device each as a rule, which nothing is ever sent to; without them each rank has the same cost in IPv6"`
	Readback    Readback      `yaml:"readback" doc:"whether a route counts as announced only when the routing daemon beside rhid has it in its OSPF database"`
	Spacing     time.Duration `yaml:"spacing" min:"1ms" max:"1m" doc:"least time between two changes of one VIP's route, because routers drop an LSA that comes too soon; 1.1s by default, 5.1s where readback.from has bird; a withdraw waits 1.1s at the most, and not at all after a quiet time"`
	Lease       bool          `yaml:"lease" default:"true" doc:"the routes leave the kernel within two seconds when the daemon dies or hangs"`
	WitnessHold time.Duration `yaml:"witness_hold" max:"1h" doc:"how long nothing moves when gossip lost a node whose route a routing daemon still has in the kernel's table, at most cluster.witness_hold; OSPF takes seconds to take a dead host's route out, and so much later would be the takeover; 0 goes by gossip"`
}

// Readback says which routing daemons on the host are asked, and where.
type Readback struct {
	From         []string      `yaml:"from" enum:"frr,bird" doc:"routing daemons beside rhid that carry its kernel routes into OSPF, and that it asks for their database; nobody by default"`
	Interval     time.Duration `yaml:"interval" default:"1s" min:"1s" max:"1m" doc:"between two questions while all is as wanted; after a change it is asked more often for a while"`
	FRRDirectory string        `yaml:"frr_directory" default:"/run/frr" doc:"directory of FRR's vty sockets; the daemon must be in the group frrvty"`
	BIRDSocket   string        `yaml:"bird_socket" default:"/run/bird/bird.ctl" doc:"BIRD's control socket; the daemon must be in the group bird"`
}

// VIP says how VIPs are made local.
type VIP struct {
	Bind   string        `yaml:"bind" default:"announcing" enum:"announcing,always,never" doc:"when rhid makes the VIP local on the host"`
	Mode   string        `yaml:"mode" default:"auto" enum:"auto,address,anyip" doc:"an address on lo, or a local route (AnyIP); auto is anyip for services announced by the kernel backend, else address"`
	Linger time.Duration `yaml:"linger" default:"3s" max:"10m" doc:"how long the VIP stays local after the route was read back as gone"`
	Label  string        `yaml:"label" default:"lo:rhid" doc:"label of the IPv4 addresses, lo: and at most 12 characters"`
}

// ServiceVIP is what a service may set other than the top-level VIP.
type ServiceVIP struct {
	Bind   string        `yaml:"bind" enum:"announcing,always,never" doc:"when rhid makes the VIP local on the host; vip.bind by default"`
	Mode   string        `yaml:"mode" enum:"auto,address,anyip" doc:"an address on lo, or a local route (AnyIP); vip.mode by default"`
	Linger time.Duration `yaml:"linger" max:"10m" doc:"how long the VIP stays local after the route was read back as gone; vip.linger by default"`
}

// Stop bounds the end of the daemon.
type Stop struct {
	DrainTime time.Duration `yaml:"drain_time" default:"2s" max:"10m" doc:"how long routes stay with GRACEFUL_SHUTDOWN (RFC 8326) and the worst rank before they are withdrawn, and how long the next node's route must have been in the routers before one that hands over leaves"`
	Timeout   time.Duration `yaml:"timeout" default:"15s" min:"1s" max:"10m" doc:"after this long the daemon ends whatever is still undone"`
}

// Site is a data centre.
type Site struct {
	Name    string   `yaml:"name" required:"true" doc:"the site's name"`
	Routers []Router `yaml:"routers" doc:"BGP neighbours of every node of the site"`

	MinNeighbours int            `yaml:"min_neighbours" default:"1" min:"1" doc:"BGP sessions that a node of the site needs; with fewer it is standby, which serves only when nobody is ready"`
	Attributes    *Attributes    `yaml:"attributes" doc:"how routes look to the site's routers, by rank and state"`
	Allow         []netip.Prefix `yaml:"allow" doc:"all that may be announced from the site"`
	Links         []Link         `yaml:"links" doc:"paths that every node of the site depends on"`
}

// Router is a BGP neighbour.
type Router struct {
	Address      netip.Addr    `yaml:"address" doc:"the neighbour's address; it or interface is needed"`
	Interface    string        `yaml:"interface" doc:"in place of an address: the interface at whose other end it is, known by its router advertisements (unnumbered, IPv6 link-local); rhid sends some, too"`
	ASN          uint32        `yaml:"asn" required:"true" min:"1" doc:"the neighbour's autonomous system number; the own one makes the session iBGP"`
	Name         string        `yaml:"name" doc:"a name for people; the address by default"`
	Port         int           `yaml:"port" default:"179" min:"1" max:"65535" doc:"the neighbour's TCP port"`
	Passive      bool          `yaml:"passive" doc:"wait for the neighbour to connect"`
	Multihop     int           `yaml:"multihop" min:"2" max:"255" doc:"TTL of packets to an eBGP neighbour that is not on a shared link"`
	TTLSecurity  bool          `yaml:"ttl_security" doc:"GTSM (RFC 5082): accept only packets with TTL 255; not together with multihop"`
	PasswordFile string        `yaml:"password_file" doc:"file whose first line is the TCP MD5 password (RFC 2385)"`
	PasswordCred string        `yaml:"password_credential" doc:"the same as a credential of the systemd unit (LoadCredential=), by its name"`
	Source       netip.Addr    `yaml:"source" doc:"local address of the session"`
	Hold         time.Duration `yaml:"hold" min:"3s" max:"18h12m15s" doc:"bgp.hold by default"`
	Keepalive    time.Duration `yaml:"keepalive" min:"1s" doc:"a third of hold by default"`
	ConnectRetry time.Duration `yaml:"connect_retry" min:"1s" max:"10m" doc:"bgp.connect_retry by default"`
	Families     []string      `yaml:"families" enum:"ipv4,ipv6" doc:"address families to exchange; both by default"`
	NextHop      netip.Addr    `yaml:"next_hop" doc:"next hop of IPv4 VIPs: the session's own address by default; an IPv6 address where both sides agree (RFC 8950)"`
	NextHop6     netip.Addr    `yaml:"next_hop6" doc:"next hop of IPv6 VIPs: the session's own address by default, and needed on an IPv4 session"`
	Services     []string      `yaml:"services" doc:"the services it is told of; all by default"`
	Attributes   *Attributes   `yaml:"attributes" doc:"how routes look to it, by rank and state; the site's by default"`
	BFD          *BFD          `yaml:"bfd" doc:"a BFD session beside the BGP session, which ends that when the router is lost"`
	WarnPrefixes int           `yaml:"warn_prefixes" default:"1000" min:"1" doc:"of one family that it may send without an alarm; it should send VIPs only"`
	MaxPrefixes  int           `yaml:"max_prefixes" default:"50000" min:"1" max:"2000000" doc:"of each family that it may send; above it the session is ended, which bounds what a full table costs: 350 bytes each, and other neighbours' withdraws wait when all are dropped"`
}

// Node is a load-balancer host.
type Node struct {
	Name     string     `yaml:"name" required:"true" doc:"the host name, or what --node says"`
	Site     string     `yaml:"site" doc:"the site it stands in"`
	Address  netip.Addr `yaml:"address" required:"true" doc:"the host's own address, for BGP router id and gossip"`
	ID       uint32     `yaml:"id" min:"1" doc:"number of the node in large communities; its place in the list by default, from 1"`
	ASN      uint32     `yaml:"asn" min:"1" doc:"bgp.asn by default"`
	RouterID netip.Addr `yaml:"router_id" doc:"bgp.router_id, or else the address where that is IPv4, by default"`
	Capacity int        `yaml:"capacity" min:"0" doc:"how many services besides its main one it may announce; 0 is no limit"`
	Routers  []Router   `yaml:"routers" doc:"BGP neighbours of this node besides its site's"`

	LinkBandwidth uint32         `yaml:"link_bandwidth" min:"0" max:"4000000" doc:"Mbit/s told to routers in a link-bandwidth community, for weighted ECMP between nodes; 0 leaves it out"`
	Allow         []netip.Prefix `yaml:"allow" doc:"all that this node may announce"`
	Links         []Link         `yaml:"links" doc:"paths that this node depends on besides its site's"`
}

// Service is a business service.
type Service struct {
	Name          string         `yaml:"name" required:"true" doc:"the service's name"`
	VIPs          []netip.Prefix `yaml:"vips" required:"true" doc:"the anycast VIPs: addresses (/32, /128) or small blocks"`
	Fate          string         `yaml:"fate" default:"all" enum:"all,any,per-vip" doc:"where servers are vip:PORT: the service is up while all of its VIPs are, while any is, or each VIP is decided on by itself"`
	Families      string         `yaml:"families" default:"together" enum:"together,apart" doc:"whether the IPv4 and the IPv6 VIPs are decided on together, or each by the servers of their family"`
	ShortPrefixes bool           `yaml:"short_prefixes" doc:"let a VIP be a prefix shorter than /24 or /48"`

	Order       []string `yaml:"order" doc:"takeover order: node names, the main node first; by default the main node, then its site, then the others, each by hashing"`
	Main        string   `yaml:"main" doc:"the main node where there is no order; hashing chooses it by default"`
	Announcers  string   `yaml:"announcers" default:"1" doc:"how many nodes announce at once: a number or all"`
	Scope       string   `yaml:"scope" default:"cluster" enum:"cluster,site" doc:"whether announcers counts for the whole cluster or for each site"`
	Priority    int      `yaml:"priority" doc:"services with a higher one are assigned first"`
	Via         []string `yaml:"via" default:"bgp" enum:"bgp,kernel" doc:"how the VIPs get into the network"`
	Servers     *Servers `yaml:"servers" doc:"the servers whose health decides"`
	Check       CheckRef `yaml:"check" required:"true" doc:"name of a check, a check in place, or a composition of named checks: all, any, at_least, score"`
	Degraded    string   `yaml:"degraded" default:"alarm" enum:"alarm,standby,down" doc:"what it does to this node that the service is up, but degraded: only an alarm, or it is standby or down for the service"`
	Failback    Failback `yaml:"failback" doc:"when a node that failed takes the service back"`
	AllDown     string   `yaml:"all_down" default:"withdraw" enum:"withdraw,keep" doc:"when no node can serve: withdraw, or the last holder goes on, marked as degraded"`
	Damping     Damping  `yaml:"damping" doc:"keeps a node that fails again and again on standby"`
	Metric      Metric   `yaml:"metric" doc:"MED (BGP) or metric (kernel) by rank"`
	Prepend     *int     `yaml:"prepend" min:"0" max:"10" doc:"times the own ASN is prepended for rank 1, twice that for rank 2, …; 1 by default, 0 where all routers are iBGP"`
	LocalPref   uint32   `yaml:"local_preference" doc:"for iBGP neighbours; 0 leaves it out"`
	Communities []string `yaml:"communities" doc:"standard communities 65000:100 or large ones 65000:1:2, or well-known names"`

	LinkBandwidth map[string]uint32 `yaml:"link_bandwidth" doc:"Mbit/s by node, where it is not the node's link_bandwidth; 0 leaves it out"`

	VIP *ServiceVIP `yaml:"vip" doc:"what differs from the top-level vip"`

	PartOf string `yaml:"-"` // see Of
}

// Failback says when a node that failed takes the service back.
type Failback struct {
	Mode  string        `yaml:"mode" default:"auto" enum:"auto,manual,never" doc:"auto: after delay; manual: when an operator says so; never: a healthy holder keeps it"`
	Delay time.Duration `yaml:"delay" default:"60s" max:"24h" doc:"how long it must have been healthy (auto)"`
}

// Damping keeps a node that fails again and again on standby for the service:
// each loss adds penalty, which halves every half_life; from suppress on the
// node is standby, until the sum is below reuse.
type Damping struct {
	Penalty  int           `yaml:"penalty" default:"1000" min:"0" doc:"of one loss; 0 switches damping off"`
	Suppress int           `yaml:"suppress" default:"3000" min:"1" doc:"from this sum on the node is standby"`
	Reuse    int           `yaml:"reuse" default:"1000" min:"1" doc:"below this sum it is ready again"`
	HalfLife time.Duration `yaml:"half_life" default:"5m" min:"1s" max:"24h" doc:"in which the sum halves"`
}

// Metric is MED or kernel metric by rank: base + rank × step.
type Metric struct {
	Base uint32 `yaml:"base" default:"100" doc:"of rank 0"`
	Step uint32 `yaml:"step" default:"100" doc:"more for each rank"`
}
