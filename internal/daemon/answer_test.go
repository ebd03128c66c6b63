package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rhid/checks"
	"rhid/internal/control"
)

// manyChecks makes checks as a node with many servers has them.
func manyChecks(n int, now time.Time) []control.CheckState {
	all := make([]control.CheckState, n)
	for i := range all {
		c := &all[i]
		c.ID = fmt.Sprintf("web@10.9.%03d.%03d:8080", i/250, i%250)
		c.Name, c.Type, c.State, c.Services = "web", "http", checks.Down, []string{"atm", "pos"}
		c.Since, c.NextRun = now.Add(-time.Hour), now.Add(time.Second)
		for k := range checks.History {
			c.Recent = append(c.Recent, checks.Result{
				Cause: checks.CauseRefused, Detail: fmt.Sprintf("nobody listens on port 8080 (attempt %d)", i*k),
				Start: now.Add(time.Duration(k-checks.History) * time.Second), Took: time.Duration(i) * time.Microsecond,
			})
		}
		c.Last, c.Why = c.Recent[checks.History-1], "3 of 3 failed: nobody listens on port 8080"
	}
	return all
}

// TestPagesOfChecks: thousands of checks come in pages, each within bounds, and
// with the times of the clock of whoever asked.
func TestPagesOfChecks(t *testing.T) {
	for _, n := range []int{0, 1, 1500} {
		here := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		there := here.Add(time.Hour)
		all := manyChecks(n, there)
		var got []control.CheckState
		after, pages := "", 0
		for more := true; more; pages++ {
			a, err := pageOf(all, after, there)
			if err != nil {
				t.Fatal(err)
			}
			b, err := json.Marshal(a)
			if err != nil || len(b) > pageBytes+pageBytes/4 {
				t.Fatalf("a page of %d bytes, %v", len(b), err)
			}
			var page []control.CheckState
			if page, more, err = readChecks(b, after, here); err != nil {
				t.Fatal(err)
			}
			if got = append(got, page...); more {
				after = got[len(got)-1].ID
			}
		}
		t.Logf("%d checks in %d pages", n, pages)
		if pages > maxPages/2 {
			t.Errorf("%d checks take %d pages", n, pages)
		}
		if d := cmp.Diff(manyChecks(n, here), append([]control.CheckState{}, got...)); d != "" {
			t.Error(d)
		}
	}
}

func TestReadChecks(t *testing.T) {
	for _, tt := range []struct {
		name, text, err string
	}{
		{"nothing", `{"now":"2026-03-01T12:00:00Z","checks":[]}`, ""},
		{"fields of a later version", `{"new":1,"checks":[{"id":"b","state":"asleep","new":{}}]}`, ""},
		{"missing", `{"missing":"not found: there is no service x"}`, "not found: there is no service x"},
		{"not JSON", `checks`, "reading the answer: "},
		{"a check that is none", `{"checks":[7]}`, "reading the answer: "},
		{"out of order", `{"checks":[{"id":"c"},{"id":"b"}]}`, errPage.Error()},
		{"before what was asked for", `{"checks":[{"id":"a"}]}`, errPage.Error()},
		{"a clock of another age", `{"now":"9999-01-01T00:00:00Z","checks":[{"id":"b","since":"0001-01-01T00:00:01Z"}]}`, errTimes.Error()},
		{"more of nothing", `{"checks":[],"more":true}`, errPage.Error()},
	} {
		_, _, err := readChecks([]byte(tt.text), "a", time.Now())
		if (err == nil) != (tt.err == "") || err != nil && !strings.HasPrefix(err.Error(), tt.err) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.err)
		}
		if errors.Is(err, control.ErrNotFound) != (tt.name == "missing") {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// What another node answers is read without harm, and each page goes on where
// the one before ended.
func FuzzReadChecks(f *testing.F) {
	a, err := pageOf(manyChecks(2, time.Unix(0, 0)), "", time.Unix(5, 0))
	if err != nil {
		f.Fatal(err)
	}
	b, err := json.Marshal(a)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"now":"9999-01-01T00:00:00Z","checks":[{"id":"b","since":"0001-01-01T00:00:01Z"}],"more":true}`))
	f.Add([]byte(`{"missing":"no"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		page, more, err := readChecks(b, "a", time.Unix(0, 0))
		if err == nil && more && (len(page) == 0 || page[len(page)-1].ID <= "a") {
			t.Fatal("the next question would be the same again")
		}
		if _, err := json.Marshal(page); err != nil {
			t.Fatalf("what was read cannot be told: %v", err)
		}
	})
}
