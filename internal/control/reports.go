package control

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"
	"unicode"

	"golang.org/x/net/netutil"
	"golang.org/x/time/rate"
)

// Report is what an application says of its own results for a service: how
// many were good, and how many bad.
type Report struct {
	Service   string  `json:"service"`
	OK        uint64  `json:"ok,omitempty"`
	Fail      uint64  `json:"fail,omitempty"`
	LatencyMS float64 `json:"latency_ms,omitempty"` // milliseconds: the mean of the good ones, where known
	Detail    string  `json:"detail,omitempty"`     // one sentence on the bad ones
}

const (
	maxReports      = 1000            // of one batch
	maxReported     = 1_000_000       // results in one report
	maxReportDetail = 200             // bytes of a detail
	reportsRate     = 100             // batches a second over HTTP
	reportsBurst    = 200             // batches at once
	reportsConns    = 64              // connections at once
	reportsHeader   = 8 << 10         // bytes of a request's header
	reportsTimeout  = 5 * time.Second // for a whole request
	maxLatencyMS    = 3_600_000       // an hour
)

// decodeReports reads a batch: a JSON array of reports. All of them are looked
// at before any counts.
func decodeReports(body io.Reader) ([]Report, error) {
	var rs []Report
	limited := &io.LimitedReader{R: body, N: maxBody + 1}
	dec := json.NewDecoder(limited)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&rs); err != nil {
		if limited.N <= 0 {
			return nil, &badRequest{fmt.Sprintf("the batch is longer than %d bytes", maxBody)}
		}
		return nil, &badRequest{"the body is not an array of reports: " + err.Error()}
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, &badRequest{"the body goes on behind the array of reports"}
	}
	if len(rs) == 0 || len(rs) > maxReports {
		return nil, &badRequest{fmt.Sprintf("a batch has 1 to %d reports, this one has %d", maxReports, len(rs))}
	}
	for i := range rs {
		if err := rs[i].validate(); err != nil {
			return nil, &badRequest{fmt.Sprintf("report %d: %v", i, err)}
		}
	}
	return rs, nil
}

func (r *Report) validate() error {
	switch {
	case r.Service == "":
		return errors.New("service is missing")
	case r.OK == 0 && r.Fail == 0:
		return errors.New("neither ok nor fail says how many results there were")
	case r.OK > maxReported || r.Fail > maxReported:
		return fmt.Errorf("more than %d results", maxReported)
	case r.LatencyMS < 0 || r.LatencyMS > maxLatencyMS:
		return errors.New("latency_ms is not between 0 and an hour")
	case len(r.Detail) > maxReportDetail:
		return fmt.Errorf("detail is longer than %d bytes", maxReportDetail)
	case strings.ContainsFunc(r.Detail, unicode.IsControl):
		return errors.New("detail has control characters; it is one line of text")
	}
	return nil
}

// Latency is LatencyMS as a duration.
func (r *Report) Latency() time.Duration {
	return time.Duration(r.LatencyMS * float64(time.Millisecond))
}

// ServeReports answers POST /v1/reports on l until ctx ends, then closes it.
// Each request must carry the token (RFC 6750: Authorization: Bearer TOKEN),
// and there may be 100 a second. It knows nothing else of the control socket:
// who has the token can report, and do no more. With conf it speaks TLS. The
// token is asked for at each request, so that it can change.
func ServeReports(ctx context.Context, l net.Listener, conf *tls.Config, token func() string, src Source, log *slog.Logger) error {
	srv := &http.Server{
		Handler:           reportsHandler(token, src, log),
		ReadHeaderTimeout: reportsTimeout, ReadTimeout: reportsTimeout, WriteTimeout: 2 * reportsTimeout, IdleTimeout: time.Minute,
		MaxHeaderBytes: reportsHeader,
		BaseContext:    func(net.Listener) context.Context { return ctx },
		ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	l = netutil.LimitListener(l, reportsConns)
	if conf != nil {
		l = tls.NewListener(l, conf)
	}
	return serveUntil(ctx, srv, l)
}

func reportsHandler(token func() string, src Source, log *slog.Logger) http.Handler {
	// Strangers have a limit of their own, so that they cannot use up the other.
	known, strangers := rate.NewLimiter(reportsRate, reportsBurst), rate.NewLimiter(reportsRate, reportsBurst)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/reports", func(w http.ResponseWriter, r *http.Request) {
		given, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		// Of equal length whatever the tokens are, so that comparing them tells
		// nothing of the right one.
		got, want := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(token()))
		right := bearer && subtle.ConstantTimeCompare(got[:], want[:]) == 1
		limit := strangers
		if right {
			limit = known
		}
		switch {
		case !limit.Allow():
			w.Header().Set("Retry-After", "1")
			answer(w, http.StatusTooManyRequests, Problem{Error: fmt.Sprintf("more than %d batches a second", reportsRate)}, log)
		case !right:
			w.Header().Set("WWW-Authenticate", "Bearer")
			answer(w, http.StatusUnauthorized, Problem{Error: "the token is missing or wrong"}, log)
		default:
			reply(w, struct{}{}, takeReports(r, src), log)
		}
	})
	return mux
}

// takeReports hands the batch in a request's body on.
func takeReports(r *http.Request, src Source) error {
	rs, err := decodeReports(r.Body)
	if err != nil {
		return err
	}
	return src.Report(r.Context(), rs)
}
