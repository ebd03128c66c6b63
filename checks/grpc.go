package checks

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

const (
	grpcMessageLimit = 64 << 10  // bytes of an answer
	grpcHeaderLimit  = 64 << 10  // bytes of its headers
	grpcBytesLimit   = 256 << 10 // bytes of all that comes
)

// GRPCOptions are the settings of a grpc check: one call of Check of
// grpc.health.v1.Health.
type GRPCOptions struct {
	Service    string `yaml:"service" doc:"the service to ask for; the server as a whole by default"`
	Authority  string `yaml:"authority" doc:"the :authority to send; server_name or the target by default"`
	TLS        bool   `yaml:"tls" doc:"speak TLS"`
	CAFile     string `yaml:"ca_file" doc:"PEM file of the authorities to trust; those of the system by default"`
	CertFile   string `yaml:"cert_file" doc:"PEM file of the client certificate and its chain"`
	KeyFile    string `yaml:"key_file" doc:"PEM file of the client certificate's key"`
	ServerName string `yaml:"server_name" doc:"name that the certificate must have, and that is sent as SNI; the host by default"`
	SkipVerify bool   `yaml:"skip_verify" doc:"take any certificate, even an expired one"`
}

// NeedsTarget implements Options.
func (*GRPCOptions) NeedsTarget() TargetKind { return TargetPort }

// Problems implements Options.
func (o *GRPCOptions) Problems() []Problem {
	ps := o.settings().problems()
	if !o.TLS {
		ps = o.settings().unusedWithout("tls: true")
	}
	if strings.ContainsAny(o.Authority, "/ @?#") {
		ps = append(ps, Problem{"authority", fmt.Sprintf("%q is not a host name or host:port", o.Authority)})
	}
	for _, c := range o.Service {
		if c <= ' ' || c > '~' {
			ps = append(ps, Problem{"service", fmt.Sprintf("%q is not the name of a gRPC service", o.Service)})
			break
		}
	}
	return ps
}

func (o *GRPCOptions) settings() tlsSettings {
	return tlsSettings{caFile: o.CAFile, certFile: o.CertFile, keyFile: o.KeyFile, serverName: o.ServerName, skipVerify: o.SkipVerify}
}

// grpcProbe is a grpc check of one target.
type grpcProbe struct {
	*aim
	service   string
	authority string
	tls       *tls.Config // nil without TLS
}

// Prober implements Options.
func (o *GRPCOptions) Prober(t Target) (Prober, error) {
	if ps := o.Problems(); len(ps) > 0 {
		return nil, fmt.Errorf("grpc check: %s %s", ps[0].Key, ps[0].Msg)
	}
	a, err := newAim(t, TargetPort)
	if err != nil {
		return nil, fmt.Errorf("grpc check: %w", err)
	}
	p := &grpcProbe{aim: a, service: o.Service, authority: o.Authority}
	if p.authority == "" {
		p.authority = net.JoinHostPort(orDefault(o.ServerName, t.Host), strconv.Itoa(int(t.Port)))
	}
	if o.TLS {
		if p.tls, err = o.settings().config(); err != nil {
			return nil, fmt.Errorf("grpc check: %w", err)
		}
		p.tls.NextProtos = []string{"h2"}
	}
	return timed(p.probe), nil
}

// probe connects by itself, so that it knows in which phase it failed, and
// gives the one connection to the library, which may not make another.
func (p *grpcProbe) probe(ctx context.Context) Result {
	conn, f := p.connect(ctx)
	if f != nil {
		return f.result("")
	}
	defer conn.Close()
	heard := &heardConn{Conn: conn, left: grpcBytesLimit}
	client, err := grpc.NewClient("passthrough:///"+p.authority,
		grpc.WithAuthority(p.authority),
		grpc.WithTransportCredentials(p.credentials()),
		grpc.WithContextDialer(heard.once),
		grpc.WithUserAgent("rhid"),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithNoProxy(),
		grpc.WithMaxHeaderListSize(grpcHeaderLimit),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(grpcMessageLimit)))
	if err != nil {
		return failf(CauseInternal, "make a gRPC client: %v", err).result("")
	}
	defer client.Close()
	answer, err := grpc_health_v1.NewHealthClient(client).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: p.service})
	if err != nil {
		return p.callFailure(ctx, err, heard.err()).result("")
	}
	return p.judge(answer.GetStatus()).result(p.asked() + " is SERVING")
}

func (p *grpcProbe) connect(ctx context.Context) (net.Conn, *failure) {
	conn, f := p.dial(ctx)
	if f != nil || p.tls == nil {
		return conn, f
	}
	tc, f := p.secure(ctx, conn, p.tls)
	if f != nil {
		return nil, f
	}
	if tc.ConnectionState().NegotiatedProtocol != "h2" {
		_ = tc.Close() // nothing was said yet
		return nil, &failure{CauseTLS, "the target speaks TLS, but not HTTP/2 (ALPN)"}
	}
	return tc, nil
}

// judge says what a status of grpc.health.v1 means.
func (p *grpcProbe) judge(s grpc_health_v1.HealthCheckResponse_ServingStatus) *failure {
	if s == grpc_health_v1.HealthCheckResponse_SERVING {
		return nil
	}
	return failf(CauseAnswer, "%s is %s", p.asked(), s)
}

// asked is what the check asked for, in a sentence.
func (p *grpcProbe) asked() string {
	if p.service == "" {
		return "the server"
	}
	return "service " + p.service
}

// callFailure explains why the call failed. heard is the error of the network,
// if there was one.
func (p *grpcProbe) callFailure(ctx context.Context, err, heard error) *failure {
	s := status.Convert(err)
	switch s.Code() {
	case codes.NotFound:
		return failf(CauseAnswer, "the server does not know %s", p.asked())
	case codes.Unimplemented:
		return failf(CauseAnswer, "the server has no health service (grpc.health.v1): %s", oneLine([]byte(s.Message()), 120))
	case codes.DeadlineExceeded, codes.Canceled:
		return netFailure(ctx, err, "connected, but no gRPC answer within "+p.limitText())
	}
	if f := alertFailure(heard); f != nil {
		return f
	}
	switch {
	case errors.Is(heard, io.EOF), errors.Is(heard, io.ErrUnexpectedEOF):
		return &failure{CauseAnswer, "the target closed the connection without a whole answer"}
	case heard != nil && !errors.Is(heard, net.ErrClosed):
		return netFailure(ctx, heard, "connected, but no gRPC answer within "+p.limitText())
	case s.Code() == codes.Unavailable, s.Code() == codes.Internal, s.Code() == codes.Unknown && strings.Contains(s.Message(), "HTTP"):
		return failf(CauseAnswer, "the target does not speak gRPC as it should: %s", bareMessage(s.Message()))
	}
	return failf(CauseAnswer, "the server refused with %s: %s", s.Code(), oneLine([]byte(s.Message()), 160))
}

// bareMessage takes the library's own words off what it has to say.
func bareMessage(s string) string {
	if _, inner, ok := strings.Cut(s, `desc = "`); ok {
		s, _, _ = strings.Cut(strings.TrimSuffix(inner, `"`), ", note that")
	}
	return oneLine([]byte(s), 160)
}

// credentials tell the library that TLS is taken care of, or that there is
// none.
func (p *grpcProbe) credentials() credentials.TransportCredentials {
	if p.tls == nil {
		return insecure.NewCredentials()
	}
	return secured{insecure.NewCredentials()}
}

// secured are credentials for a connection that has its TLS already.
type secured struct {
	credentials.TransportCredentials
}

// Info makes the library send the scheme https.
func (s secured) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// Clone implements credentials.TransportCredentials.
func (s secured) Clone() credentials.TransportCredentials { return s }
