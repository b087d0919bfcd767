package reconciler_test

import (
	"context"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// budget is how often rows of these tests are to be tried.
const budget = 4

// notTried are the rows that were not tried often enough, with how it stands up to
// the first comma.
func (w *world) notTried(tries int) (rows []string) {
	w.t.Helper()
	for key, state := range w.r.NotTried(w.db.ReadTxn(), tries) {
		state, _, _ = strings.Cut(state, ",")
		rows = append(rows, key+": "+state)
	}
	return rows
}

// patiently is a world with "a" that fails, and is tried again after 10 s, 20 s and so on.
func patiently(w *world) {
	w.target.will(failing("a"))
	w.config.MinBackoff, w.seed = 10*time.Second, 1
	w.write(row{ID: "a"})
}

// wantTriedOnceTheBudgetIsSpent looks at "a" again and again until it was tried often
// enough. It has been tried so many times already.
func (w *world) wantTriedOnceTheBudgetIsSpent(tried int) {
	w.t.Helper()
	for range 3000 {
		synctest.Wait()
		tried += count(w.target.took(), call{op: "update", id: "a"})
		rows := w.notTried(budget)
		switch {
		case tried > budget: // that it failed is known of one less
			w.equal("in the end", []string(nil), rows)
			return
		case tried < budget && len(rows) != 1:
			w.t.Errorf("tried %d of %d times: %q is waited for", tried, budget, rows)
			return
		}
		w.pass(100 * time.Millisecond)
	}
	w.t.Errorf("tried %d times only", tried)
}

// waitsForX is a world like patiently whose row waits for "x" of a table, and a way
// to end that.
func waitsForX(w *world) (end func()) {
	patiently(w)
	schema := rowSchema()
	schema.Name = "links"
	links := must(statedb.NewTable(w.db, schema))
	w.check(w.db.Update(w.t.Context(), func(txn *statedb.WriteTxn) error {
		_, _, err := links.Insert(txn, row{ID: "x"})
		return err
	}, links))
	w.params = func(p *reconciler.Params[row]) {
		p.DependsOn = []reconciler.Dependency[row]{reconciler.DependsOn(statedb.ReadOnly(links), row.GetStatus, func(row) iter.Seq[statedb.Query[row]] {
			return slices.Values([]statedb.Query[row]{byID.Query("x")})
		})}
	}
	return func() {
		w.check(w.db.Update(w.t.Context(), func(txn *statedb.WriteTxn) error {
			_, _, err := links.Delete(txn, row{ID: "x"})
			return err
		}, links))
	}
}

func TestFirstFailureShortlyAfterAWaitIsNotAllTries(t *testing.T) {
	var end func()
	prepared(t, func(w *world) { end = waitsForX(w) }, func(_ *testing.T, w *world) {
		w.equal("not-done", "waiting", w.notDoneRows()[0].State)
		w.equal("while it waits", []string(nil), w.notTried(budget))
		w.pass(300 * time.Millisecond)
		end()
		synctest.Wait()
		w.equal("status", reconciler.Error, w.status("a").Kind())
		w.equal("not-done is late", "waiting", w.notDoneRows()[0].State)
		w.equal("after a failure", []string{"a: it failed 1 of 4 tries: boom"}, w.notTried(budget))
		w.wantTriedOnceTheBudgetIsSpent(0)
	})
}

func TestFailedRowThatRunsAgainAtOnceIsNotTriedForGood(t *testing.T) {
	prepared(t, func(w *world) {
		patiently(w)
		w.target.will(func(ctx context.Context, c call) (reconciler.Result, error) {
			if c.id == "a" {
				take(5 * time.Second)
			}
			return failing("a")(ctx, c)
		})
	}, func(_ *testing.T, w *world) {
		w.pass(time.Second)
		_, err := w.r.Trigger(w.t.Context(), keys("a")) // while it runs
		w.check(err)
		w.pass(6 * time.Second)
		if rows := w.notDoneRows(); len(rows) != 1 || rows[0].Attempts != 1 || !rows[0].NextDue.IsZero() {
			t.Errorf("not done: %+v, want one attempt and no time", rows)
		}
		w.wantTriedOnceTheBudgetIsSpent(0)
	})
}

func TestFailureShortlyAfterAPauseIsNotAllTries(t *testing.T) {
	prepared(t, patiently, func(_ *testing.T, w *world) {
		w.pass(time.Second)
		w.pause(keys("a"), time.Time{})
		w.equal("while it is paused", []string(nil), w.notTried(budget))
		for w.notDoneRows()[0].State != "paused" {
			w.pass(100 * time.Millisecond)
		}
		w.equal("when its time has come", []string(nil), w.notTried(budget))
		w.resume(keys("a"))
		w.equal("not-done is late", "paused", w.notDoneRows()[0].State)
		w.wantTriedOnceTheBudgetIsSpent(0)
	})
}

func TestNotTriedLeavesOutWhatNothingWillTry(t *testing.T) {
	for name, notDone := range map[string]bool{"with a not-done table": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			var release chan struct{}
			prepared(t, func(w *world) {
				hurried(1)(w)
				release = make(chan struct{})
				w.target.will(ignoring(release, "a"))
				if !notDone {
					w.notDone = nil
				}
				w.write(row{ID: "a"}, row{ID: "b"})
			}, func(_ *testing.T, w *world) {
				pending := ": it has not been tried yet"
				w.equal("at first", []string{"a" + pending, "b" + pending}, w.notTried(budget))
				w.pause(keys("b"), time.Time{})
				w.equal("paused", []string{"a" + pending}, w.notTried(budget))
				w.pass(3 * time.Second)
				w.wantStuck(w.status("a").Err())
				w.equal("stuck", []string(nil), w.notTried(budget))
				close(release)
			})
		})
	}
}

// Its text is that of the failure before, so that the status keeps that one.
func TestRowThatFailsForGoodIsNotTriedAgainWhateverItFailedWithBefore(t *testing.T) {
	prepared(t, patiently, func(_ *testing.T, w *world) {
		w.equal("after a failure", []string{"a: it failed 1 of 4 tries"}, w.notTried(budget))
		w.target.will(func(context.Context, call) (reconciler.Result, error) {
			return reconciler.Result{}, reconciler.Terminal(errBoom)
		})
		w.pass(15 * time.Second)
		w.equal("after the last one", []string(nil), w.notTried(budget))
	})
}

func TestOneFailureIsEnoughWithoutANotDoneTable(t *testing.T) {
	prepared(t, func(w *world) { patiently(w); w.notDone = nil }, func(_ *testing.T, w *world) {
		w.equal("after a failure", []string(nil), w.notTried(budget))
	})
}
