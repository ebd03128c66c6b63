//go:build integration

package checks

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// freeradiusConf is a whole server: everybody has the password let-me-in,
// and long a longer one, but slow is kept waiting, other is asked for more, and what signed is told
// has a Message-Authenticator.
const freeradiusConf = `
name = rhid
libdir = /usr/lib/freeradius
raddbdir = DIR
run_dir = DIR
logdir = DIR
pidfile = DIR/pid
log { destination = stdout }
security {
  user = root
  group = root
  reject_delay = 0
  status_server = yes
}
client tests {
  ipaddr = 127.0.0.1
  secret = testing123
}
modules {
  pap { }
  chap { }
  always handled {
    rcode = handled
  }
  exec {
    wait = yes
    input_pairs = request
  }
}
server default {
  listen {
    type = auth
    ipaddr = 127.0.0.1
    port = 7401
  }
  authorize {
    if (&User-Name == "slow") {
      update request {
        Tmp-String-0 := "%{exec:/bin/sleep 1}"
      }
    }
    update control {
      Cleartext-Password := "let-me-in"
    }
    if (&User-Name == "long") {
      update control {
        Cleartext-Password := "a password of more than two blocks of 16 bytes"
      }
    }
    chap
    pap
    if (&User-Name == "other") {
      update control {
        Auth-Type := More
      }
    }
  }
  authenticate {
    Auth-Type More {
      update control {
        Response-Packet-Type := Access-Challenge
      }
      handled
    }
    Auth-Type PAP {
      pap
    }
    Auth-Type CHAP {
      chap
    }
  }
  post-auth {
    if (&User-Name == "signed") {
      update reply {
        Message-Authenticator := 0x00
      }
    }
    Post-Auth-Type REJECT {
      update reply {
        Reply-Message := "account locked"
      }
    }
  }
}
`

// The radius check against FreeRADIUS.
func TestRADIUSSicknesses(t *testing.T) {
	inNamespace(t, func(t *testing.T) {
		ipCommand(t, "ip link set lo up")
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "radiusd.conf"), []byte(strings.ReplaceAll(freeradiusConf, "DIR", dir)), 0o600); err != nil {
			t.Fatal(err)
		}
		server := startServer(t, "udp 7401", "freeradius", "-f", "-l", "stdout", "-d", dir, "-n", "radiusd", "-D", "/usr/share/freeradius")
		startServer(t, "udp 7403", "socat", "UDP4-RECVFROM:7403,fork", "SYSTEM:head -c 1 >/dev/null; echo hello")
		secret := filepath.Join(dir, "secret")
		if err := os.WriteFile(secret, []byte("testing123\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		as := func(user, password string, change func(o *RADIUSOptions)) *RADIUSOptions {
			o := &RADIUSOptions{SecretFile: secret, User: user, Password: password}
			if change != nil {
				change(o)
			}
			return o
		}
		pap := as("probe", "let-me-in", nil)
		chap := as("probe", "let-me-in", func(o *RADIUSOptions) { o.Auth = "chap" })
		status := &RADIUSOptions{SecretFile: secret, Request: "status"}
		signed := as("signed", "let-me-in", func(o *RADIUSOptions) { o.RequireMAC = true })
		alien := &RADIUSOptions{Secret: "testing124", Request: "status"}
		stranger := on(7401, shortLimit)
		stranger.Source = netip.MustParseAddr("127.0.0.9")
		showSicknesses(t, "radius", []sickness{
			{name: "healthy, PAP", opts: pap, to: on(7401, probeLimit), ok: true, says: "answered Access-Accept"},
			{name: "healthy, PAP of 3 blocks", opts: as("long", "a password of more than two blocks of 16 bytes", nil), to: on(7401, probeLimit), ok: true, says: "answered Access-Accept"},
			{name: "healthy, CHAP", opts: chap, to: on(7401, probeLimit), ok: true, says: "answered Access-Accept"},
			{name: "healthy, Status-Server", opts: status, to: on(7401, probeLimit), ok: true, says: "answered Access-Accept"},
			{name: "healthy, Message-Auth.", opts: signed, to: on(7401, probeLimit), ok: true, says: "answered Access-Accept"},
			{name: "healthy, reject wanted", opts: as("probe", "no", func(o *RADIUSOptions) { o.Expect = "reject" }), to: on(7401, probeLimit), ok: true, says: `answered Access-Reject ("account locked")`},
			{name: "healthy, any decision", opts: as("other", "let-me-in", func(o *RADIUSOptions) { o.Expect = "any" }), to: on(7401, probeLimit), ok: true, says: "answered Access-Challenge"},
			{name: "refused", opts: pap, to: on(7409, probeLimit), cause: CauseRefused, says: "port closed"},
			{name: "black hole", opts: pap, to: on(7401, shortLimit), makes: dropped("udp dport 7401"), cause: CauseTimeout, says: "no answer within 300ms"},
			{name: "hung process", opts: status, to: on(7401, shortLimit), makes: server.hung, cause: CauseTimeout, says: "no answer within 300ms"},
			{name: "slow (1 s)", opts: as("slow", "let-me-in", nil), to: on(7401, shortLimit), cause: CauseTimeout, says: "no answer within 300ms"},
			{name: "wrong secret", opts: alien, to: on(7401, shortLimit), cause: CauseTimeout, says: "says nothing to a host, or to a secret, that it does not know"},
			{name: "unknown host", opts: pap, to: stranger, cause: CauseTimeout, says: "says nothing to a host"},
			{name: "no Message-Authenticator", opts: as("probe", "let-me-in", func(o *RADIUSOptions) { o.RequireMAC = true }), to: on(7401, partLimit), cause: CauseAnswer, says: "without a Message-Authenticator"},
			{name: "wrong password", opts: as("probe", "no", nil), to: on(7401, probeLimit), cause: CauseAnswer, says: `answered Access-Reject ("account locked"), wanted Access-Accept`},
			{name: "asks for more", opts: as("other", "let-me-in", nil), to: on(7401, probeLimit), cause: CauseAnswer, says: "answered Access-Challenge, wanted Access-Accept"},
			{name: "accepts a wrong one", opts: as("probe", "let-me-in", func(o *RADIUSOptions) { o.Expect = "reject" }), to: on(7401, probeLimit), cause: CauseAnswer, says: "answered Access-Accept, wanted Access-Reject"},
			{name: "not RADIUS", opts: pap, to: on(7403, partLimit), cause: CauseAnswer, says: "the answer is not RADIUS"},
		})
	})
}
