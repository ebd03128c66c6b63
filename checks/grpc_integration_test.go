//go:build integration

package checks

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// grpcServer is a real server with the library's own health service, unless
// without is set.
func grpcServer(t *testing.T, cert *tls.Certificate, without bool, options ...grpc.ServerOption) netip.AddrPort {
	t.Helper()
	if cert != nil {
		options = append(options, grpc.Creds(credentials.NewServerTLSFromCert(cert)))
	}
	s := grpc.NewServer(options...)
	if !without {
		h := health.NewServer()
		h.SetServingStatus("atm", grpc_health_v1.HealthCheckResponse_SERVING)
		h.SetServingStatus("pos", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
		grpc_health_v1.RegisterHealthServer(s, h)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return addrPort(t, l.Addr())
}

// The grpc check against servers of google.golang.org/grpc, which is where the
// health protocol comes from.
func TestGRPCSicknesses(t *testing.T) {
	const day = 24 * time.Hour
	ours, other := newAuthority(t, "Bank CA"), newAuthority(t, "Other CA")
	good := ours.issue(t, -day, day, "atm.example")
	expired := ours.issue(t, -30*day, -3*day-time.Hour, "atm.example")
	foreign := other.issue(t, -day, day, "atm.example")
	refuse := grpc.UnaryInterceptor(func(context.Context, any, *grpc.UnaryServerInfo, grpc.UnaryHandler) (any, error) {
		return nil, status.Error(codes.PermissionDenied, "not from here")
	})
	plain, secure := grpcServer(t, nil, false), grpcServer(t, &good, false)
	whole, atm := &GRPCOptions{}, &GRPCOptions{Service: "atm"}
	trusting := &GRPCOptions{TLS: true, CAFile: ours.file, ServerName: "atm.example", Service: "atm"}
	showSicknesses(t, "grpc", []sickness{
		{name: "healthy", opts: whole, to: targetOf(plain, probeLimit), ok: true, says: "the server is SERVING"},
		{name: "healthy service", opts: atm, to: targetOf(plain, probeLimit), ok: true, says: "service atm is SERVING"},
		{name: "healthy, TLS", opts: trusting, to: targetOf(secure, probeLimit), ok: true, says: "service atm is SERVING"},
		{name: "refused", opts: whole, to: targetOf(closedPort(t), probeLimit), cause: CauseRefused, says: "connection refused"},
		{name: "black hole", opts: whole, to: targetOf(blackHole(t), shortLimit), cause: CauseTimeout, says: "SYN not answered"},
		{name: "mute", opts: whole, to: targetOf(silent(t), shortLimit), cause: CauseTimeout, says: "connected, but no gRPC answer within 300ms"},
		{name: "slow", opts: whole, to: targetOf(relay(t, plain, 2*shortLimit, 1<<20), shortLimit), cause: CauseTimeout, says: "connected, but no gRPC answer within 300ms"},
		{name: "half-closed", opts: whole, to: targetOf(halfClosed(t), probeLimit), cause: CauseAnswer, says: "closed the connection without a whole answer"},
		{name: "broken off", opts: whole, to: targetOf(relay(t, plain, 0, 40), probeLimit), cause: CauseAnswer, says: "closed the connection without a whole answer"},
		{name: "not gRPC", opts: whole, to: targetOf(babbler(t, "HTTP/1.1 400 Bad Request\r\n\r\n"), probeLimit), cause: CauseAnswer, says: "does not speak gRPC as it should"},
		{name: "not serving", opts: &GRPCOptions{Service: "pos"}, to: targetOf(plain, probeLimit), cause: CauseAnswer, says: "service pos is NOT_SERVING"},
		{name: "unknown service", opts: &GRPCOptions{Service: "counter"}, to: targetOf(plain, probeLimit), cause: CauseAnswer, says: "the server does not know service counter"},
		{name: "no health service", opts: whole, to: targetOf(grpcServer(t, nil, true), probeLimit), cause: CauseAnswer, says: "the server has no health service"},
		{name: "not permitted", opts: whole, to: targetOf(grpcServer(t, nil, false, refuse), probeLimit), cause: CauseAnswer, says: "refused with PermissionDenied: not from here"},
		{name: "certificate expired", opts: trusting, to: targetOf(grpcServer(t, &expired, false), probeLimit), cause: CauseTLS, says: "certificate expired 3 days ago"},
		{name: "certificate of another CA", opts: trusting, to: targetOf(grpcServer(t, &foreign, false), probeLimit), cause: CauseTLS, says: "not trusted: CN=Other CA"},
		{name: "certificate of another name", opts: &GRPCOptions{TLS: true, CAFile: ours.file, ServerName: "pos.example"}, to: targetOf(secure, probeLimit), cause: CauseTLS, says: "certificate is for atm.example, not for pos.example"},
		{name: "no TLS where wanted", opts: trusting, to: targetOf(plain, probeLimit), cause: CauseTLS, says: "does not speak TLS"},
		// By way of the relay, because the server's end may be a reset.
		{name: "TLS where not wanted", opts: whole, to: targetOf(relay(t, secure, 0, 1<<20), probeLimit), cause: CauseAnswer, says: "closed the connection without a whole answer"},
	})
}
