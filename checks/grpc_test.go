package checks

import "testing"

func TestGRPCProblems(t *testing.T) {
	wantProblems(t, &GRPCOptions{TLS: true, Service: "sign.v1.Signer", Authority: "sign.example:443"})
	wantProblems(t, &GRPCOptions{CAFile: "c", SkipVerify: true}, "ca_file: has no effect without tls: true", "skip_verify: has no effect")
	wantProblems(t, &GRPCOptions{Authority: "http://x", Service: "a b"}, `authority: "http://x" is not`, `service: "a b" is not`)
	wantProblems(t, &GRPCOptions{TLS: true, KeyFile: "k"}, "cert_file: is missing")
}
