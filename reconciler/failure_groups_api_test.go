package reconciler_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/statehive/statehive/reconciler"
)

func TestFailuresForOneReasonAreOneGroup(t *testing.T) {
	failingTable(t, func(t *testing.T, w *world, _ *lineLog) {
		groups := w.r.FailureGroups()
		if len(groups) != 1 {
			t.Fatalf("%d groups, expected one", len(groups))
		}
		g := groups[0]
		w.equal("operation", "update", g.Operation)
		w.equal("error", "no such device", g.Error)
		w.equal("count", failingRows, g.Count)
		w.equal("examples", []string{"10000", "10001", "10002"}, g.Examples)
		if age := time.Since(g.Since); age < 59*time.Second || age > time.Minute {
			t.Errorf("since %v ago, expected a minute", age)
		}
		w.target.will(nil)
		w.pass(10 * time.Minute)
		w.equal("groups", []reconciler.FailureGroup(nil), w.r.FailureGroups())
	})
}

// Groups are ordered by how many rows they have, then by error: the first is what
// to look at.
func TestGroupsOfFailuresFollowTheirRows(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		began := time.Now()
		again := errors.New("no such device")
		w.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
			err := fmt.Errorf("%s", "no such device") // another value with the same text
			switch {
			case c.op == "delete":
				err = again
			case c.id == "10000":
				err = errors.New("permission denied\nand more")
			}
			if c.op == "observe" {
				return reconciler.Result{}, nil
			}
			return reconciler.Result{}, reconciler.RetryAfter(time.Hour, err)
		})
		w.put(numbered(4, 1)...)
		w.delete("10003")
		w.pass(time.Second)
		want := []reconciler.FailureGroup{
			{Operation: "update", Error: "no such device", Count: 2, Examples: []string{"10001", "10002"}, Since: began},
			{Operation: "delete", Error: "no such device", Count: 1, Examples: []string{"10003"}, Since: began},
			{Operation: "update", Error: "permission denied", Count: 1, Examples: []string{"10000"}, Since: began},
		}
		if diff := cmp.Diff(want, w.r.FailureGroups(), cmpopts.EquateApproxTime(100*time.Millisecond)); diff != "" {
			t.Errorf("groups (-want +got):\n%s", diff)
		}

		// A row that fails for another reason changes its group, and one that is
		// forgotten leaves it.
		w.check(w.r.Forget(t.Context(), "10003"))
		w.target.will(func(context.Context, call) (reconciler.Result, error) {
			return reconciler.Result{}, reconciler.Terminal(errors.New("permission denied"))
		})
		w.put(row{ID: "10001", Want: 2})
		w.pass(time.Second)
		got := map[string]int{}
		for _, g := range w.r.FailureGroups() {
			got[g.Operation+" "+g.Error] += g.Count
		}
		w.equal("counts", map[string]int{"update no such device": 1, "update permission denied": 2}, got)

		w.target.will(nil)
		w.fullPass()
		w.equal("groups at the end", 0, len(w.r.FailureGroups()))
	})
}

// Reasons that are all different are many groups: their number is bounded, and
// what is beyond that is counted together.
func TestGroupsOfFailuresAreBounded(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		w.target.will(fails(func(c call) string { return "invalid row r" + c.id }))
		w.put(numbered(5000, 1)...)
		w.pass(time.Second)
		groups, all := w.r.FailureGroups(), 0
		for _, g := range groups {
			all += g.Count
		}
		w.equal("rows in all groups", 5000, all)
		if len(groups) == 0 || len(groups) > 1000 {
			t.Fatalf("%d groups, expected a thousand at most", len(groups))
		}
		if last := groups[len(groups)-1]; last.Error != "other errors" || last.Count < 4000 {
			t.Errorf("the last group is %+v, expected what is beyond the others", last)
		}
	})
}

// A target that does not answer must not keep anybody from asking why.
func TestGroupsOfFailuresAreKnownWhileTheTableIsHeld(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		w.target.will(failing("a", "b"))
		release := w.holdAfter(row{ID: "a", Want: 1}, row{ID: "b", Want: 1})
		w.pass(10 * time.Second)
		groups := w.r.FailureGroups()
		if len(groups) != 1 || groups[0].Count != 2 {
			t.Errorf("groups are %+v, expected one of two rows", groups)
		}
		release(nil)
		w.stop()
		w.equal("groups after the stop", 0, len(w.r.FailureGroups()))
	})
}

func TestAGroupOfFailuresAsJSON(t *testing.T) {
	group := reconciler.FailureGroup{
		Operation: "update", Error: "boom", Count: 3, Examples: []string{"a", "b", "c"}, Since: time.Unix(1, 0).UTC(),
	}
	text, err := json.Marshal(group)
	want := `{"operation":"update","error":"boom","count":3,"examples":["a","b","c"],"since":"1970-01-01T00:00:01Z"}`
	if err != nil || string(text) != want {
		t.Errorf("got %s and %v, want %s", text, err, want)
	}
}

func TestErrorsThatNameTheirRowsAreOneGroup(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		w.target.will(fails(func(c call) string { return "row " + c.id + ": invalid" }))
		w.put(numbered(100, 1)...)
		w.pass(time.Second)
		groups := w.r.FailureGroups()
		if len(groups) != 1 || groups[0].Error != "row <key>: invalid" || groups[0].Count != 100 {
			t.Errorf("groups are %+v, expected one of all rows", groups)
		}
		w.equal("reasons", 1, w.r.Stats().Reasons)
	})
}

// The failure of an outdated operation does not apply to the newest row.
func TestOutdatedFailuresAreInNoGroup(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		w.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
			if c.op != "update" {
				return reconciler.Result{}, nil
			}
			take(time.Second)
			if c.want == 1 {
				return reconciler.Result{}, errors.New("boom")
			}
			take(time.Minute)
			return reconciler.Result{}, nil
		})
		w.put(row{ID: "a", Want: 1})
		w.put(row{ID: "a", Want: 2})
		w.pass(30 * time.Second)
		w.equal("groups", []reconciler.FailureGroup(nil), w.r.FailureGroups())
		w.equal("health", "ok: reconciled", w.health.last())
		w.pass(time.Hour)
		w.wantConverged()
	})
}
