package checks

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"strings"
	"testing"
	"time"
)

func TestTLSJudgesDays(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ending := func(in time.Duration, name string) *x509.Certificate {
		return &x509.Certificate{Raw: []byte(name), NotAfter: now.Add(in), Subject: pkix.Name{CommonName: name}}
	}
	leaf, root := ending(90*day, "leaf"), ending(3000*day, "root")
	soon := ending(9*day, "soon")
	tests := []struct {
		name       string
		warn, fail int
		chains     [][]*x509.Certificate
		leaf       *x509.Certificate
		want       outcome
		degraded   bool
	}{
		{"good", 14, 0, [][]*x509.Certificate{{leaf, root}}, leaf, outcome{true, "", "TLS 1.3; certificate ends in 90 days, on 2026-05-30"}, false},
		{"warn", 100, 0, [][]*x509.Certificate{{leaf, root}}, leaf, outcome{true, "", "certificate ends in 90 days, on 2026-05-30; warn_days is 100"}, true},
		{"at the limit", 90, 0, [][]*x509.Certificate{{leaf, root}}, leaf, outcome{true, "", "TLS 1.3; certificate ends in 90 days, on 2026-05-30"}, false},
		{"fail", 100, 91, [][]*x509.Certificate{{leaf, root}}, leaf, outcome{false, CauseTLS, "certificate ends in 90 days, on 2026-05-30; fail_days is 91"}, false},
		{"never warn", -1, 0, [][]*x509.Certificate{{soon, root}}, soon, outcome{true, "", "TLS 1.3; certificate ends in 9 days, on 2026-03-10"}, false},
		{"an authority ends first", 14, 0, [][]*x509.Certificate{{leaf, soon, root}}, leaf,
			outcome{true, "", "the authority's certificate CN=soon ends in 9 days, on 2026-03-10; warn_days is 14"}, true},
		{"another chain lasts longer", 14, 0, [][]*x509.Certificate{{leaf, soon, root}, {leaf, root}}, leaf,
			outcome{true, "", "TLS 1.3; certificate ends in 90 days, on 2026-05-30"}, false},
		{"not verified", 14, 0, nil, soon, outcome{true, "", "certificate ends in 9 days, on 2026-03-10; warn_days is 14"}, true},
		{"not verified, expired", 14, 0, nil, ending(-3*day, "old"), outcome{false, CauseTLS, "certificate expired 3 days ago"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := &tlsProbe{warn: tt.warn, fail: tt.fail}
			res := p.judge(tls.ConnectionState{Version: tls.VersionTLS13, PeerCertificates: []*x509.Certificate{tt.leaf}, VerifiedChains: tt.chains}, now)
			wantOutcome(t, res, tt.want)
			if res.Degraded != tt.degraded {
				t.Errorf("degraded %t, want %t", res.Degraded, tt.degraded)
			}
		})
	}
}

func TestTLSUnusable(t *testing.T) {
	to := Target{Host: "10.0.0.1", Port: 443}
	for want, o := range map[string]*TLSOptions{
		"read ca_file":                    {CAFile: "/nonexistent/ca.pem"},
		"fail_days 14 must be below":      {FailDays: 14},
		"load cert_file and key_file":     {CertFile: "/nonexistent/c", KeyFile: "/nonexistent/k"},
		"warn_days -2 is not between -1":  {WarnDays: -2},
		"fail_days 3651 is not between 0": {FailDays: 3651},
	} {
		if _, err := o.Prober(to); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
