package readback

import (
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	ospfdReply = `{ "routerId": "10.1.0.11", "AS External Link States": {
 "10.255.0.20": { "lsaAge": 11, "lsaType": "AS-external-LSA", "linkStateId": "10.255.0.20", "networkMask": 32, "metric": 10 },
 "10.255.0.21": { "lsaAge": 3600, "lsaType": "AS-external-LSA", "linkStateId": "10.255.0.21", "networkMask": 32, "metric": 10 },
 "10.8.0.255": { "lsaAge": 2, "networkMask": 24 } } }`
	ospf6dReply = `{ "asScopedLinkStateDb":[ { "lsa":[
 { "type":"ASE", "lsId":"0.0.0.1", "advRouter":"10.1.0.11", "age":12, "payload":"fd00:255::20/128" },
 { "type":"ASE", "lsId":"0.0.0.2", "advRouter":"10.1.0.11", "age":3600, "payload":"fd00:255::21/128" } ] } ] }`
	birdProtocols = `2002-Name       Proto      Table      State  Since         Info
1002-device1    Device     ---        up     02:16:20.519  
 k4         Kernel     master4    up     02:16:20.519  
 o4         OSPF       master4    up     02:16:20.519  Running
 o5         OSPF       master4    down   02:16:20.519  
0000 
`
	birdState = `1016-
 area 0.0.0.0
 
 	router 10.1.0.11
 		distance 40
 		router 10.1.0.3 metric 10
 		external 10.255.0.30/32 metric 10
 
 	router 10.1.0.12
 		distance 0
 		router 10.1.0.4 metric 10
 		stubnet 10.1.4.0/30 metric 10
 		external 10.255.0.20/32 metric 10 tag 0000fe7f
 		nssa-ext fd00:255::20/128 metric2 100
 
 	network 10.2.0.0/24
 		distance 10
 		router 10.2.0.1
 		external 10.255.0.31/32 metric 10
0000 
`
)

func prefixes(has map[netip.Prefix]bool) []string {
	out := []string{}
	for p := range has {
		out = append(out, p.String())
	}
	slices.Sort(out)
	return out
}

func TestParse(t *testing.T) {
	bird := func(b []byte) (map[netip.Prefix]bool, error) {
		lines, err := birdLines(b)
		if err != nil {
			return nil, err
		}
		has := map[netip.Prefix]bool{}
		return has, ownExternals(lines, has)
	}
	for _, tt := range []struct {
		name  string
		parse func([]byte) (map[netip.Prefix]bool, error)
		text  string
		want  []string
		err   string
	}{
		{"ospfd", parseOspfd, ospfdReply, []string{"10.255.0.20/32", "10.8.0.0/24"}, ""},
		{"ospfd, later", parseOspfd, `{"routerId":"10.1.0.11","asExternalLinkStates":[{"lsaAge":5,"linkStateId":"10.255.0.20","networkMask":32},{"lsaAge":3600,"linkStateId":"10.255.0.21","networkMask":32}]}`, []string{"10.255.0.20/32"}, ""},
		{"ospfd without OSPF", parseOspfd, "\n", []string{}, ""},
		{"ospfd, other text", parseOspfd, "% OSPF is not enabled", nil, "not JSON"},
		{"ospfd, cut", parseOspfd, ospfdReply[:80], nil, "not as expected"},
		{"ospfd, no address", parseOspfd, `{"AS External Link States":{"x":{"networkMask":32}}}`, nil, "not an IPv4 address"},
		{"ospfd, no mask", parseOspfd, `{"AS External Link States":{"10.0.0.1":{"networkMask":40}}}`, nil, "LSA 10.0.0.1"},
		{"ospf6d", parseOspf6d, ospf6dReply, []string{"fd00:255::20/128"}, ""},
		{"ospf6d, no prefix", parseOspf6d, `{"asScopedLinkStateDb":[{"lsa":[{"payload":"x"}]}]}`, nil, "reading an LSA"},
		{"bird", bird, birdState, []string{"10.255.0.20/32", "fd00:255::20/128"}, ""},
		{"bird refuses", bird, "8003 No protocols match\n", nil, "No protocols match"},
		{"bird, no prefix", bird, "1016-\n \t\tdistance 0\n \t\texternal x metric 1\n0000 \n", nil, "reading an external route"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			has, err := tt.parse([]byte(tt.text))
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, prefixes(has)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestOSPFProtocols(t *testing.T) {
	lines, err := birdLines([]byte(birdProtocols))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"o4"}, ospfProtocols(lines)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestClients(t *testing.T) {
	got := parseClients([]byte("Name     Connect Time    Last Read\n-----\nospf    00:12:13     00:00:13  4/0\nospf6   00:12:13     00:00:13  4/0\n\nRoutes\n"))
	if diff := cmp.Diff(map[string]bool{"Name": true, "ospf": true, "ospf6": true}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestHelp tells a daemon that zebra does not know from one that it does.
func TestHelp(t *testing.T) {
	d := New(Settings{From: []string{FRR}, Interval: time.Second}, slog.New(slog.DiscardHandler)).Daemons[0]
	if a := d.Answer(vip); a.Helper != "" {
		t.Errorf("before zebra was asked: %q", a.Helper)
	}
	d.parts[2].learn(answer{clients: map[string]bool{"ospf6": true}}, time.Now())
	if a := d.Answer(vip); a.Helper != "ospfd is not connected to zebra" {
		t.Errorf("not connected: %q", a.Helper)
	}
	d.parts[2].learn(answer{clients: map[string]bool{"ospf": true}}, time.Now())
	if a := d.Answer(vip); a.Helper != "" {
		t.Errorf("connected: %q", a.Helper)
	}
}

// TestAnswersInPieces has answers arrive byte by byte, with the next one's
// beginning behind them.
func TestAnswersInPieces(t *testing.T) {
	for _, tt := range []struct {
		name, sent, want, rest string
		end                    func([]byte) int
	}{
		{"vty", "text\x00\x00\x00\x01more", "text\x00\x00\x00\x01", "more", vtyEnd},
		{"bird", "1002-a\n b\n0000 \n1016-", "1002-a\n b\n0000 \n", "1016-", birdEnd},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer ours.Close()
			go func() {
				for _, b := range []byte(tt.sent) {
					if _, err := theirs.Write([]byte{b}); err != nil {
						return
					}
				}
				theirs.Close()
			}()
			c := &conn{Conn: ours, late: func() {}}
			b, err := c.until(tt.end)
			if err != nil || string(b) != tt.want {
				t.Fatalf("got %q, %v, want %q", b, err, tt.want)
			}
			if b, err = c.until(tt.end); err == nil || string(c.buf) != tt.rest {
				t.Errorf("then %q, %v, and %q left, want %q left and an error", b, err, c.buf, tt.rest)
			}
		})
	}
}

// FuzzParse feeds all parsers: none may fail in another way than by an error, and
// none may invent a prefix that is not valid.
func FuzzParse(f *testing.F) {
	for _, s := range []string{ospfdReply, ospf6dReply, birdProtocols, birdState, "8003 no\n", "0000 ", "\x00\x00\x00\x00"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		check := func(has map[netip.Prefix]bool, err error) {
			for p := range has {
				if err == nil && (!p.IsValid() || p != p.Masked()) {
					t.Errorf("prefix %v", p)
				}
			}
		}
		check(parseOspfd(b))
		check(parseOspf6d(b))
		parseClients(b)
		if n := vtyEnd(b); n > len(b) {
			t.Errorf("the end of a vty answer of %d bytes is at %d", len(b), n)
		}
		if n := birdEnd(b); n > len(b) {
			t.Errorf("the end of a BIRD answer of %d bytes is at %d", len(b), n)
		}
		lines, err := birdLines(b)
		if err != nil {
			return
		}
		ospfProtocols(lines)
		has := map[netip.Prefix]bool{}
		err = ownExternals(lines, has)
		check(has, err)
	})
}
