package control

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReportOverSocket(t *testing.T) {
	_, c, src := serve(t)
	want := []Report{{Service: "atm", OK: 12, Fail: 1, LatencyMS: 3.5, Detail: "host does not answer"}, {Service: "atm", Fail: 2}}
	if err := c.Report(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, src.reports); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if err := c.Report(t.Context(), []Report{{Service: "pos", OK: 1}}); !errors.Is(err, ErrNotFound) {
		t.Errorf("an unknown service: %v", err)
	}
	if err := c.Report(t.Context(), []Report{{Service: "atm"}}); err == nil || !strings.Contains(err.Error(), "report 0: neither ok nor fail") {
		t.Errorf("an empty report: %v", err)
	}
}

func TestDecodeReportsRefuses(t *testing.T) {
	long := strings.Repeat("x", maxReportDetail+1)
	for body, want := range map[string]string{
		"":                                 "not an array of reports",
		"{}":                               "not an array of reports",
		"[]":                               "has 0",
		"[{}]":                             "report 0: service is missing",
		`[{"service":"atm"}]`:              "report 0: neither ok nor fail",
		`[{"service":"a","ok":-1}]`:        "not an array of reports",
		`[{"service":"a","ok":1.5}]`:       "not an array of reports",
		`[{"service":"a","ok":1,"bad":1}]`: `unknown field "bad"`,
		`[{"service":"a","ok":1000001}]`:   "more than 1000000",
		`[{"service":"a","ok":1},{"service":"a","fail":1000001}]`:                         "report 1: more than",
		`[{"service":"a","ok":1,"latency_ms":-1}]`:                                        "latency_ms is not between",
		`[{"service":"a","fail":1,"detail":"` + long + `"}]`:                              "detail is longer than 200",
		`[{"service":"a","fail":1,"detail":"a\u001b[2J"}]`:                                "control characters",
		`[{"service":"a","ok":1}][]`:                                                      "goes on behind",
		"[" + strings.Repeat(`{"service":"a","ok":1},`, 1000) + `{"service":"a","ok":1}]`: "this one has 1001",
		"[" + strings.Repeat(" ", maxBody) + "]":                                          "longer than 65536 bytes",
	} {
		_, err := decodeReports(strings.NewReader(body))
		var bad *badRequest
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", body, err, want)
		}
	}
}

func FuzzDecodeReports(f *testing.F) {
	f.Add(`[{"service":"atm","ok":12,"fail":1,"latency_ms":3.5,"detail":"x"}]`)
	f.Add(`[{"service":"atm","ok":1e3}]`)
	f.Add("[[[[")
	f.Fuzz(func(t *testing.T, body string) {
		rs, err := decodeReports(strings.NewReader(body))
		if err != nil {
			return
		}
		if len(rs) == 0 || len(rs) > maxReports {
			t.Fatalf("%d reports", len(rs))
		}
		for _, r := range rs {
			if r.Service == "" || r.OK+r.Fail == 0 || r.OK+r.Fail > 2*maxReported || r.Latency() < 0 {
				t.Errorf("%+v", r)
			}
		}
	})
}

// The endpoint takes a batch with the token and nothing else, and not too many
// of them, right or wrong.
func TestReportsOverHTTP(t *testing.T) {
	const token = "0123456789abcdef"
	const good = `[{"service":"atm","ok":1}]`
	src := &source{}
	h := reportsHandler(func() string { return token }, src, slog.New(slog.DiscardHandler))
	ask := func(method, path, auth, body string) int {
		req := httptest.NewRequest(method, path, strings.NewReader(body))
		req.Header.Set("Authorization", auth)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		return w.Code
	}
	for _, tt := range []struct {
		method, path, auth, body string
		want                     int
	}{
		{"POST", "/v1/reports", "Bearer " + token, good, http.StatusOK},
		{"POST", "/v1/reports", "Bearer " + token, `[{"service":"pos","ok":1}]`, http.StatusNotFound},
		{"POST", "/v1/reports", "Bearer " + token, "{}", http.StatusBadRequest},
		{"POST", "/v1/reports", "Bearer " + token[1:], good, http.StatusUnauthorized},
		{"POST", "/v1/reports", "Bearer " + token + "0", good, http.StatusUnauthorized},
		{"POST", "/v1/reports", token, good, http.StatusUnauthorized},
		{"POST", "/v1/reports", "", good, http.StatusUnauthorized},
		{"GET", "/v1/reports", "Bearer " + token, "", http.StatusMethodNotAllowed},
		{"GET", "/v1/status", "Bearer " + token, "", http.StatusNotFound},
		{"POST", "/v1/reload", "Bearer " + token, "", http.StatusNotFound},
		{"GET", "/debug/pprof/", "Bearer " + token, "", http.StatusNotFound},
	} {
		if got := ask(tt.method, tt.path, tt.auth, tt.body); got != tt.want {
			t.Errorf("%s %s %q %s: %d, want %d", tt.method, tt.path, tt.auth, tt.body, got, tt.want)
		}
	}
	if len(src.reports) != 1 {
		t.Errorf("%d reports were taken, want 1", len(src.reports))
	}
	for _, tt := range []struct {
		auth  string
		taken int
	}{{"Bearer wrong", http.StatusUnauthorized}, {"Bearer " + token, http.StatusOK}} {
		codes := map[int]int{}
		for range 3 * reportsBurst {
			codes[ask("POST", "/v1/reports", tt.auth, good)]++
		}
		if codes[http.StatusTooManyRequests] == 0 || codes[tt.taken] < reportsBurst/2 {
			t.Errorf("answers to a flood with %q: %v", tt.auth, codes)
		}
	}
}
