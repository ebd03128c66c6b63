//go:build integration

package checks

import "testing"

// The udp check against socat.
func TestUDPSicknesses(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		ipCommand(t, "ip link set lo up")
		pong := startServer(t, "udp 7001", "socat", "-T2", "UDP4-RECVFROM:7001,fork", "SYSTEM:read x; echo PONG $x")
		startServer(t, "udp 7002", "socat", "-T2", "UDP4-RECVFROM:7002,fork", "SYSTEM:head -c 1 >/dev/null; sleep 1; echo PONG")
		startServer(t, "udp 7003", "socat", "-T2", "UDP4-RECVFROM:7003,fork", "SYSTEM:head -c 1 >/dev/null; echo ERR busy")
		startServer(t, "udp 7004", "socat", "-u", "UDP4-RECV:7004", "OPEN:/dev/null")
		ping := &UDPOptions{Send: "PING\n", Expect: "PONG PING", Match: "prefix"}
		oneWay := &UDPOptions{Send: "<14>test", Silence: "ok"}
		hex := &UDPOptions{SendHex: "50 0a", ExpectHex: "504f4e47 20 50"}
		showSicknesses(t, "udp", []sickness{
			{name: "healthy", opts: ping, to: on(7001, probeLimit), ok: true, says: "answered as expected"},
			{name: "healthy, hexadecimal", opts: hex, to: on(7001, probeLimit), ok: true, says: "answered as expected"},
			{name: "healthy, never answers", opts: oneWay, to: on(7004, shortLimit), ok: true, says: "nothing came back"},
			{name: "refused", opts: ping, to: on(7009, probeLimit), cause: CauseRefused, says: "port closed"},
			{name: "refused, one-way", opts: oneWay, to: on(7009, probeLimit), cause: CauseRefused, says: "port closed"},
			{name: "black hole", opts: ping, to: on(7001, shortLimit), makes: dropped("udp dport 7001"), cause: CauseTimeout, says: "no answer within 300ms"},
			{name: "slow (1 s)", opts: ping, to: on(7002, shortLimit), cause: CauseTimeout, says: "no answer within 300ms"},
			{name: "hung process", opts: ping, to: on(7001, shortLimit), makes: pong.hung, cause: CauseTimeout, says: "no answer within 300ms"},
			{name: "wrong answer", opts: ping, to: on(7003, probeLimit), cause: CauseAnswer, says: `answered "ERR busy\n", wanted "PONG PING" at the start`},
			{name: "no route", opts: ping, to: Target{Host: "10.1.1.1", Port: 7001, Limit: probeLimit}, cause: CauseNetwork, says: "no route"},
		})
	})
}
