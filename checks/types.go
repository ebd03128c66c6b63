package checks

import "time"

// Types returns the check types, in the order in which the manual describes
// them. Each call makes a new slice.
//
// The fields of the option structs are plain (string, bool, int,
// time.Duration, []string, map[string]string), and the zero value of each
// means its default, so that Options are usable without a configuration, too.
func Types() []Type {
	return []Type{
		{Name: "tcp", Doc: "connects to a TCP port, and optionally sends something and expects an answer", New: func() Options { return new(TCPOptions) }},
		{Name: "http", Doc: "makes one HTTP/1.1 request on a fresh connection and looks at status and body", New: func() Options { return new(HTTPOptions) }},
		{Name: "https", Doc: "is http over TLS, and looks at the certificate as well", New: func() Options { return new(HTTPSOptions) }},
		{Name: "icmp", Doc: "sends ICMP echo requests and looks at loss and round trip time", New: func() Options { return new(ICMPOptions) }},
		{Name: "exec", Doc: "runs a command and takes its exit status as Nagios plugins mean it", New: func() Options { return new(ExecOptions) }},
		{Name: "grpc", Doc: "asks a gRPC server for its health (grpc.health.v1), with or without TLS", New: func() Options { return new(GRPCOptions) }},
		{Name: "iso8583", Doc: "sends a network management request (0800) of ISO 8583 and looks at the response (0810)", New: func() Options { return new(ISO8583Options) }},
		{Name: "ldap", Doc: "binds to an LDAP server, or reads an entry of it or its root DSE; plain, StartTLS or ldaps", New: func() Options { return new(LDAPOptions) }},
		{Name: "postgres", Doc: "begins to log in to PostgreSQL and tells whether it accepts connections", New: func() Options { return new(PostgresOptions) }},
		{Name: "mysql", Doc: "logs in to MySQL or MariaDB without a password and tells whether it accepts connections", New: func() Options { return new(MySQLOptions) }},
		{Name: "file", Doc: "looks at a file of this host: that it is there, its age and its content", New: func() Options { return new(FileOptions) }},
		{Name: "process", Doc: "looks whether a process runs on this host, by name or by a file with its number", New: func() Options { return new(ProcessOptions) }},
		{Name: "unit", Doc: "asks systemd for the state of a unit of this host", New: func() Options { return new(UnitOptions) }},
		{Name: "udp", Doc: "sends a datagram and looks at the one that comes back", New: func() Options { return new(UDPOptions) }},
		{Name: "interface", Doc: "looks whether an interface of this host is up, has carrier and has its addresses", New: func() Options { return new(InterfaceOptions) }},
		{Name: "route", Doc: "looks whether the kernel has a route for a prefix, and where it leads", New: func() Options { return new(RouteOptions) }},
		{Name: "load", Doc: "looks at this host's processors, memory, open files and connection tracking", New: func() Options { return new(LoadOptions) }},
		{Name: "haproxy", Doc: "asks HAProxy for a backend or one of its servers: state, weight, sessions, queue, errors", New: func() Options { return new(HAProxyOptions) }},
		{Name: "report", Doc: "counts the results that applications report for the service (rhid report, or over HTTP)", New: func() Options { return new(ReportOptions) }, Passive: true, PerService: true},
		{Name: "tcp-diag", Doc: "watches this host's TCP connections to a server by what the kernel knows of them", New: func() Options { return new(TCPDiagOptions) }, Passive: true},
		{Name: "capture", Doc: "watches TCP connections and plain HTTP to a server by a sample of their packets", New: func() Options { return new(CaptureOptions) }, Passive: true},
		{Name: "haproxy-rate", Doc: "watches HAProxy's counters of a backend or a server: answers of class 5xx, and connections that failed", New: func() Options { return new(HAProxyRateOptions) }, Passive: true},
		{Name: "held", Doc: "holds one TCP or TLS connection open; that it breaks is a failure at once, between two probes", New: func() Options { return new(HeldOptions) }},
		{Name: "tls", Doc: "makes a TLS handshake and looks at the certificate: chain, name, and days that are left", New: func() Options { return new(TLSOptions) }},
		{Name: "dns", Doc: "asks a name server over UDP or TCP, and looks at the records it answers", New: func() Options { return new(DNSOptions) }},
		{Name: "bfd", Doc: "asks whether the BFD session with a router is up", New: func() Options { return new(BFDOptions) }},
		{Name: "radius", Doc: "asks a RADIUS server to let a user in, or for its status, and verifies that the answer is its own", New: func() Options { return new(RADIUSOptions) }},
		{Name: "smtp", Doc: "greets a mail server, with or without TLS", New: func() Options { return new(SMTPOptions) }},
		{Name: "ftp", Doc: "logs in to an FTP server, with or without TLS, and changes to a directory or fetches a file", New: func() Options { return new(FTPOptions) }},
	}
}

// TCPOptions are the settings of a tcp check. Without any it only connects.
type TCPOptions struct {
	Send      string `yaml:"send" doc:"text to send once connected; write line ends as \\r\\n in double quotes"`
	SendHex   string `yaml:"send_hex" doc:"the same as hexadecimal digits, blanks allowed; instead of send"`
	Expect    string `yaml:"expect" doc:"text that must come within the first 64 KiB of the answer"`
	ExpectHex string `yaml:"expect_hex" doc:"the same as hexadecimal digits, blanks allowed; instead of expect"`
	Match     string `yaml:"match" default:"contains" enum:"contains,prefix" doc:"where the expected bytes must stand in the answer: anywhere, or at its start"`
}

// HTTPOptions are the settings of an http check.
type HTTPOptions struct {
	Method          string            `yaml:"method" default:"GET" doc:"request method"`
	Path            string            `yaml:"path" default:"/" doc:"path, with query where needed"`
	Host            string            `yaml:"host" doc:"Host header; the target by default"`
	Headers         map[string]string `yaml:"headers" doc:"more request headers"`
	ExpectStatus    []string          `yaml:"expect_status" default:"200-299" doc:"wanted status codes: single ones and ranges, as in [200-299, 301]"`
	ExpectBody      string            `yaml:"expect_body" doc:"regular expression (RE2) that must match within the first 256 KiB of the body"`
	FollowRedirects bool              `yaml:"follow_redirects" doc:"follow up to 5 redirects, and judge the last answer"`
}

// HTTPSOptions are the settings of an https check: those of HTTPOptions, and
// TLS. They are written out and not embedded, so that whoever makes a schema
// of them needs no rule for embedding.
type HTTPSOptions struct {
	Method          string            `yaml:"method" default:"GET" doc:"request method"`
	Path            string            `yaml:"path" default:"/" doc:"path, with query where needed"`
	Host            string            `yaml:"host" doc:"Host header; the target by default"`
	Headers         map[string]string `yaml:"headers" doc:"more request headers"`
	ExpectStatus    []string          `yaml:"expect_status" default:"200-299" doc:"wanted status codes: single ones and ranges, as in [200-299, 301]"`
	ExpectBody      string            `yaml:"expect_body" doc:"regular expression (RE2) that must match within the first 256 KiB of the body"`
	FollowRedirects bool              `yaml:"follow_redirects" doc:"follow up to 5 redirects, and judge the last answer"`
	CAFile          string            `yaml:"ca_file" doc:"PEM file of the authorities to trust; those of the system by default"`
	CertFile        string            `yaml:"cert_file" doc:"PEM file of the client certificate and its chain"`
	KeyFile         string            `yaml:"key_file" doc:"PEM file of the client certificate's key"`
	ServerName      string            `yaml:"server_name" doc:"name that the certificate must have, and that is sent as SNI; the host by default"`
	SkipVerify      bool              `yaml:"skip_verify" doc:"take any certificate, even an expired one"`
}

// ICMPOptions are the settings of an icmp check.
type ICMPOptions struct {
	Count   int           `yaml:"count" default:"1" doc:"echo requests of one probe, 1 to 100"`
	Spacing time.Duration `yaml:"spacing" default:"100ms" doc:"between two echo requests of one probe; all must leave within the timeout"`
	MaxLoss int           `yaml:"max_loss" doc:"percentage of echo requests that may stay unanswered, 0 to 99"`
	MaxRTT  time.Duration `yaml:"max_rtt" doc:"limit of the average round trip time; none by default"`
}

// ExecOptions are the settings of an exec check.
type ExecOptions struct {
	Command   []string          `yaml:"command" required:"true" doc:"the command and its arguments; with shell, the script as one element"`
	Shell     bool              `yaml:"shell" doc:"run the command with sh -c"`
	Env       map[string]string `yaml:"env" doc:"environment besides PATH, LANG and RHID_TARGET_HOST, RHID_TARGET_PORT, RHID_SOURCE, RHID_TIMEOUT"`
	WarningIs string            `yaml:"warning_is" default:"ok" enum:"ok,fail" doc:"what exit status 1 means"`
}

// NeedsTarget implements Options.
func (*TCPOptions) NeedsTarget() TargetKind { return TargetPort }

// NeedsTarget implements Options.
func (*HTTPOptions) NeedsTarget() TargetKind { return TargetPort }

// NeedsTarget implements Options.
func (*HTTPSOptions) NeedsTarget() TargetKind { return TargetPort }

// NeedsTarget implements Options.
func (*ICMPOptions) NeedsTarget() TargetKind { return TargetHost }

// NeedsTarget implements Options. A command is told its target where the
// service has servers, and does without one otherwise.
func (*ExecOptions) NeedsTarget() TargetKind { return TargetMaybe }
