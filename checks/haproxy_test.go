package checks

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// haproxyHead are the columns that are of use, in another order than HAProxy's.
const haproxyHead = "# pxname,svname,status,qcur,scur,stot,econ,eresp,wretr,weight,uweight,act,bck,hrsp_1xx,hrsp_2xx,hrsp_3xx,hrsp_4xx,hrsp_5xx,hrsp_other,\n"

const haproxyText = haproxyHead + `app,FRONTEND,OPEN,,3,90,,,,,,,,0,0,0,0,0,0,
app,a,UP,0,1,40,0,0,0,10,10,1,0,0,30,0,4,6,0,
app,b,DOWN 1/2,0,0,12,4,4,2,30,30,1,0,0,0,0,0,0,0,
app,c,no check,0,0,0,0,0,0,5,5,0,1,0,0,0,0,0,0,
app,BACKEND,UP,2,1,50,4,4,2,10,40,1,1,0,30,0,4,14,0,
sql,d,MAINT,0,0,7,1,2,3,1,1,1,0,,,,,,,
sql,BACKEND,DOWN,0,0,4,1,2,3,0,0,0,0,,,,,,,
`

func TestReadHAProxyStats(t *testing.T) {
	app, err := readHAProxyStats(strings.NewReader(haproxyText), "app")
	if err != nil {
		t.Fatal(err)
	}
	want := &haproxyBackend{
		sum: haproxyRow{"BACKEND", "UP", 1, 10, 40, 2, 1, true, haproxyCounters{50, 48, 14, 8}},
		servers: []haproxyRow{
			{"a", "UP", 1, 10, 10, 0, 1, true, haproxyCounters{40, 40, 6, 0}},
			{"b", "DOWN 1/2", 1, 30, 30, 0, 0, true, haproxyCounters{10, 0, 0, 8}},
			{"c", "no check", 0, 5, 5, 0, 0, true, haproxyCounters{}},
		},
	}
	if d := cmp.Diff(want, app, cmp.AllowUnexported(haproxyBackend{}, haproxyRow{}, haproxyCounters{})); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if up, all := app.activeServers(); up != 1 || all != 2 {
		t.Errorf("%d of %d active servers, want 1 of 2", up, all)
	}
	if w := app.weightPercent(); w != 25 {
		t.Errorf("%d %% of the weight, want 25", w)
	}
	sql, err := readHAProxyStats(strings.NewReader(haproxyText), "sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		row      *haproxyRow
		all, bad uint64
	}{{&app.sum, 48, 14}, {app.server("a"), 40, 6}, {app.server("b"), 8, 8}, {&sql.sum, 4, 3}, {sql.server("d"), 4, 3}} {
		if all, bad := tt.row.judged(); all != tt.all || bad != tt.bad {
			t.Errorf("%s: %d of %d bad, want %d of %d", tt.row.name, bad, all, tt.bad, tt.all)
		}
	}
}

func TestReadHAProxyStatsRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "nothing came",
		"<html>401</html>\n":            `not the statistics of HAProxy: <html>401</html>`,
		"# pxname,svname,status\n":      "lack the column act",
		haproxyText:                     `HAProxy has no backend "none"`,
		haproxyHead + "none,a,UP,x\n":   "column qcur of none/a is \"x\", not a number",
		haproxyHead + "none,a,UP,1,-1":  `"-1", not a number`,
		haproxyHead + "none,a,\"UP,1,1": "reading the statistics",
	} {
		if _, err := readHAProxyStats(strings.NewReader(text), "none"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzReadHAProxyStats(f *testing.F) {
	f.Add(haproxyText)
	f.Add("# pxname,svname,status,act,weight,stot,hrsp_2xx,hrsp_5xx,econ,eresp\napp,BACKEND,\"UP\"\n")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		b, err := readHAProxyStats(strings.NewReader(text), "app")
		if err != nil {
			return
		}
		for _, row := range append(b.servers, b.sum) {
			if all, bad := row.judged(); bad > all {
				t.Errorf("%+v: %d of %d are bad", row, bad, all)
			}
		}
		if up, all := b.activeServers(); up > all || len(b.servers) > haproxyServersLimit {
			t.Errorf("%d of %d", up, all)
		}
		b.weightPercent()
	})
}

// The rates need two readings and enough between them, and a HAProxy that was
// started anew begins from nothing.
func TestHAProxyRates(t *testing.T) {
	probe := &haproxyProbe{o: HAProxyOptions{Max5xx: 10, MaxErrors: 5, MinSamples: 20}}
	probe.past.span = 10 * time.Second
	start := time.Now()
	steps := []struct {
		at    time.Duration
		c     haproxyCounters
		wrong []string
	}{
		{0, haproxyCounters{1000, 1000, 500, 100}, nil},
		{1 * time.Second, haproxyCounters{1019, 1019, 502, 101}, nil},
		{2 * time.Second, haproxyCounters{1020, 1020, 503, 101}, []string{"15 % of 20 answers were of class 5xx in 2s, max_5xx is 10 %"}},
		{3 * time.Second, haproxyCounters{1100, 1100, 510, 106}, []string{"6 % of 100 sessions had a connection that failed or broke in 3s, max_errors is 5 %"}},
		{20 * time.Second, haproxyCounters{1200, 1200, 510, 106}, nil},
		{21 * time.Second, haproxyCounters{50, 50, 50, 50}, nil},
		{22 * time.Second, haproxyCounters{100, 100, 100, 50}, []string{"100 % of 50 answers were of class 5xx in 1s, max_5xx is 10 %"}},
	}
	for _, s := range steps {
		got := probe.rates(s.c, start.Add(s.at))
		if d := cmp.Diff(s.wrong, got.wrong); d != "" {
			t.Errorf("after %s (-want +got):\n%s", s.at, d)
		}
	}
}

func TestPassiveProblems(t *testing.T) {
	tests := []struct {
		opts Options
		want string
	}{
		{&HAProxyOptions{}, "backend: is missing"},
		{&HAProxyOptions{Backend: "a b"}, `backend: "a b" is not the name`},
		{&HAProxyOptions{Backend: "a", Socket: "run/x"}, "socket: \"run/x\" must be an absolute path"},
		{&HAProxyOptions{Backend: "a", Socket: "/x", User: "y"}, "user: is of the statistics page"},
		{&HAProxyOptions{Backend: "a", Path: "y"}, `path: "y" must begin with /`},
		{&HAProxyOptions{Backend: "a", Password: "x"}, "user: is missing"},
		{&HAProxyOptions{Backend: "a", User: "u", Password: "x", PasswordFile: "/x"}, "password_file: cannot stand together"},
		{&HAProxyOptions{Backend: "a", MinWeight: 101}, "min_weight: 101 is not between 1 and 100"},
		{&HAProxyOptions{Backend: "a", Max5xx: -1}, "max_5xx: -1 is not between"},
		{&HAProxyOptions{Backend: "a", Over: 2 * time.Hour}, "over: 2h0m0s is not between"},
		{&HAProxyOptions{Backend: "a", Server: "s", MinServers: 1}, "server: cannot stand together"},
		{&HAProxyRateOptions{}, "backend: is missing"},
		{&TCPDiagOptions{Count: "bytes"}, `count: "bytes" is neither`},
		{&CaptureOptions{}, "device: is missing"},
		{&CaptureOptions{Device: "a/b"}, `device: "a/b" is not the name`},
		{&CaptureOptions{Device: "lo", Count: "bytes"}, `count: "bytes" is none of`},
		{&CaptureOptions{Device: "lo", Sample: 3}, "sample: 3 is not a power of two"},
		{&CaptureOptions{Device: "lo", MaxPackets: 99}, "max_packets: 99 is not between"},
	}
	for _, tt := range tests {
		ps := tt.opts.Problems()
		if len(ps) != 1 || !strings.HasPrefix(ps[0].Key+": "+ps[0].Msg, tt.want) {
			t.Errorf("%+v: %+v, want %q", tt.opts, ps, tt.want)
		}
	}
}
