//go:build integration

package checks

import "testing"

// The dns check against dnsmasq.
func TestDNSSicknesses(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		ipCommand(t, "ip link set lo up")
		dnsmasq := startServer(t, "udp 7301", "dnsmasq", "-k", "--conf-file=/dev/null", "--pid-file=", "--user=root", "--port=7301",
			"--listen-address=127.0.0.1", "--bind-interfaces", "--no-resolv", "--no-hosts", "--local=/bank.example/",
			"--host-record=www.bank.example,10.1.2.3,fd00::3", "--host-record=www.bank.example,10.1.2.4",
			"--mx-host=bank.example,mail.bank.example,10", "--txt-record=bank.example,v=spf1 -all",
			"--server=/slow.example/127.0.0.1#7302")
		eventually(t, "dnsmasq listens on TCP, too", func() bool { return listening(t, "tcp", "7301") })
		startServer(t, "udp 7302", "socat", "-u", "UDP4-RECV:7302", "OPEN:/dev/null") // whom dnsmasq asks in vain
		startServer(t, "udp 7303", "socat", "UDP4-RECVFROM:7303,fork", "SYSTEM:head -c 1 >/dev/null; echo hello")
		acceptsAndCloses(t, "7304")
		www := &DNSOptions{Query: "www.bank.example", Expect: []string{"10.1.2.3", "10.1.2.4"}, Match: "exact"}
		moved := &DNSOptions{Query: "www.bank.example", Expect: []string{"10.1.2.9"}}
		tcp := &DNSOptions{Query: "www.bank.example", Record: "AAAA", Expect: []string{"fd00::3"}, Transport: "tcp"}
		showSicknesses(t, "dns", []sickness{
			{name: "healthy", opts: www, to: on(7301, probeLimit), ok: true, says: "answered 10.1.2.3, 10.1.2.4"},
			{name: "healthy, TCP", opts: tcp, to: on(7301, probeLimit), ok: true, says: "answered fd00::3"},
			{name: "healthy, MX", opts: &DNSOptions{Query: "bank.example", Record: "MX", Expect: []string{"10 mail.bank.example"}}, to: on(7301, probeLimit), ok: true, says: "answered 10 mail.bank.example."},
			{name: "healthy, TXT", opts: &DNSOptions{Query: "bank.example", Record: "TXT", Expect: []string{"v=spf1 -all"}}, to: on(7301, probeLimit), ok: true, says: `answered "v=spf1 -all"`},
			{name: "healthy, NXDOMAIN wanted", opts: &DNSOptions{Query: "no.bank.example", ExpectRcode: "NXDOMAIN"}, to: on(7301, probeLimit), ok: true, says: "answered NXDOMAIN"},
			{name: "refused", opts: www, to: on(7309, probeLimit), cause: CauseRefused, says: "port closed"},
			{name: "refused, TCP", opts: tcp, to: on(7309, probeLimit), cause: CauseRefused, says: "connection refused"},
			{name: "black hole", opts: www, to: on(7301, shortLimit), makes: dropped("udp dport 7301"), cause: CauseTimeout, says: "no answer within 300ms"},
			{name: "black hole, TCP", opts: tcp, to: on(7301, shortLimit), makes: dropped("tcp dport 7301"), cause: CauseTimeout, says: "SYN not answered"},
			{name: "hung process", opts: www, to: on(7301, shortLimit), makes: dnsmasq.hung, cause: CauseTimeout, says: "no answer within 300ms"},
			{name: "hung process, TCP", opts: tcp, to: on(7301, shortLimit), makes: dnsmasq.hung, cause: CauseTimeout, says: "connected, but no answer within 300ms"},
			{name: "slow: waits for another", opts: &DNSOptions{Query: "a.slow.example"}, to: on(7301, shortLimit), cause: CauseTimeout, says: "no answer within 300ms"},
			{name: "wrong answer", opts: moved, to: on(7301, probeLimit), cause: CauseAnswer, says: "answered 10.1.2.3, 10.1.2.4, wanted 10.1.2.9"},
			{name: "name is gone", opts: &DNSOptions{Query: "old.bank.example"}, to: on(7301, probeLimit), cause: CauseAnswer, says: "answered NXDOMAIN, wanted NOERROR"},
			{name: "does not serve the zone", opts: &DNSOptions{Query: "www.other.example"}, to: on(7301, probeLimit), cause: CauseAnswer, says: "answered REFUSED, wanted NOERROR"},
			{name: "no such record", opts: &DNSOptions{Query: "bank.example", Record: "SRV"}, to: on(7301, probeLimit), cause: CauseAnswer, says: "no record of type SRV"},
			{name: "not DNS", opts: www, to: on(7303, probeLimit), cause: CauseAnswer, says: "the answer is not DNS"},
			{name: "half-closed", opts: tcp, to: on(7304, probeLimit), cause: CauseAnswer, says: "closed the connection without a whole answer"},
		})
	})
}
