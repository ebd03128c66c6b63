package control

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"rhid/checks"
)

// CheckSource answers for the checks of the daemon.
type CheckSource interface {
	// Checks returns the checks of a service on a node, or all of the node where
	// of is empty or the node's name. Without a node it is this one, unless of
	// names another. It wraps ErrAway when that one does not answer.
	Checks(ctx context.Context, of, node string) ([]CheckState, error)
	// TestCheck runs a check once now, by its name or its ID, beside those that
	// run at their times. Nothing is changed by it.
	TestCheck(ctx context.Context, name string) ([]CheckTest, error)
}

// CheckState is one check with what it said last.
type CheckState struct {
	checks.Status
	Services []string        `json:"services"` // that use it
	Recent   []checks.Result `json:"recent"`   // the oldest first
}

// CheckTest is one check run once.
type CheckTest struct {
	ID      string        `json:"id"`
	Name    string        `json:"name"`
	Type    string        `json:"type"`
	Target  string        `json:"target,omitempty"`
	Timeout time.Duration `json:"timeout"` // nanoseconds
	Fed     bool          `json:"fed"`     // it has no probe and lives on what is reported
	Result  checks.Result `json:"result"`
}

// checkRoutes are the requests about checks.
func checkRoutes(get func(string, func(*http.Request) (any, error)), src CheckSource) {
	get("GET /v1/checks", func(r *http.Request) (any, error) {
		q := r.URL.Query()
		return src.Checks(r.Context(), q.Get("of"), q.Get("node"))
	})
	get("POST /v1/checks/{name}/test", func(r *http.Request) (any, error) {
		return src.TestCheck(r.Context(), r.PathValue("name"))
	})
}

// Checks asks for the checks of a service on a node, or of a whole node; see
// CheckSource.
func (c *Client) Checks(ctx context.Context, of, node string) ([]CheckState, error) {
	var out []CheckState
	return out, c.do(ctx, http.MethodGet, "/v1/checks?"+url.Values{"of": {of}, "node": {node}}.Encode(), nil, &out)
}

// TestCheck runs a check once now.
func (c *Client) TestCheck(ctx context.Context, name string) ([]CheckTest, error) {
	var out []CheckTest
	return out, c.do(ctx, http.MethodPost, "/v1/checks/"+url.PathEscape(name)+"/test", nil, &out)
}
