package reconciler_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

func TestTargetThatCannotObserveIsPruned(t *testing.T) {
	prepared(t, func(w *world) {
		pruning(w)
		w.target.is["old"] = 1
		w.write(row{ID: "a", Want: 1})
	}, func(_ *testing.T, w *world) {
		w.wantLog("init", "update a=1", "prune")
		w.wantConverged()
		w.equal("out of sync", 1, w.metrics().outOfSync)
		w.target.corrupt("new", 1)
		w.fullPass()
		w.wantLog("update a=1", "prune")
		w.wantConverged()
	})
}

func TestPruneRunsAlone(t *testing.T) {
	prepared(t, func(w *world) {
		pruning(w)
		w.config.Workers = 8
	}, func(_ *testing.T, w *world) {
		w.target.will(func(context.Context, call) (reconciler.Result, error) {
			take(100 * time.Millisecond)
			return reconciler.Result{}, nil
		})
		for i := range 50 {
			w.put(numbered(20, i)...)
			w.r.FullPass()
			w.pass(70 * time.Millisecond)
		}
		w.pass(time.Minute)
		w.wantConverged()
		w.equal("most at one time", 8, w.target.most)
	})
}

func TestFailingPruneIsRepeatedWithBackoff(t *testing.T) {
	prepared(t, func(w *world) {
		pruning(w)
		w.target.is["old"] = 1
		w.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
			if c.op == "prune" {
				return reconciler.Result{}, errBoom
			}
			return reconciler.Result{}, nil
		})
	}, func(_ *testing.T, w *world) {
		w.pass(5 * time.Second)
		w.wantGaps("", 100*time.Millisecond, 200*time.Millisecond, 400*time.Millisecond)
		w.equal("health", "degraded: orphans cannot be found: boom", w.health.last())
		w.target.will(nil)
		w.pass(time.Minute)
		w.wantConverged()
	})
}

func TestStuckOperationDoesNotStopOthersBeforeAPrune(t *testing.T) {
	prepared(t, func(w *world) {
		pruning(w)
		w.config.Workers = 2
		w.config.OperationTimeout = time.Hour
	}, func(_ *testing.T, w *world) {
		w.put(row{ID: "b", Want: 1})
		w.target.will(func(ctx context.Context, c call) (reconciler.Result, error) {
			if c.id == "a" {
				<-ctx.Done()
				return reconciler.Result{}, ctx.Err()
			}
			take(100 * time.Millisecond)
			return reconciler.Result{}, nil
		})
		w.target.log()
		w.fullPass()
		w.put(row{ID: "a", Want: 1}) // the full pass has gone past it
		w.pass(200 * time.Millisecond)
		w.put(row{ID: "b", Want: 2})
		w.pass(500 * time.Millisecond)
		w.wantStatus("b", "pending") // to let a prune in
		w.pass(time.Second)
		w.wantStatus("b", "done")
		w.equal("prunes", 0, count(w.target.took(), call{op: "prune"}))
		w.target.will(nil)
		w.pass(3 * time.Hour)
		w.wantConverged()
		w.equal("prunes", true, count(w.target.took(), call{op: "prune"}) > 0)
	})
}

func TestResetOfTheFeedMakesAFullPassDue(t *testing.T) {
	prepared(t, func(w *world) { w.config.Limits.RoundSize = 1 }, func(_ *testing.T, w *world) {
		w.put(row{ID: "a", Want: 1}, row{ID: "b", Want: 1}, row{ID: "z", Want: 1})
		w.target.log()
		w.target.will(slow("a"))
		w.put(row{ID: "a", Want: 2}) // takes a while
		w.put(row{ID: "c", Want: 1}) // waits for it: a full round
		w.erase("b")
		for range 40 { // more deletes than the feed keeps
			w.update(func(txn *statedb.WriteTxn) error {
				for range 1000 {
					if _, _, err := w.table.Insert(txn, row{ID: "busy"}); err != nil {
						return err
					}
					if _, _, err := w.table.Delete(txn, row{ID: "busy"}); err != nil {
						return err
					}
				}
				return nil
			})
		}
		w.pass(time.Minute)
		// What has just been applied is not applied again.
		w.wantLog("update a=2", "update c=1", "update z=1", "observe", "delete b")
		w.wantConverged()
		w.equal("out of sync", 1, w.metrics().outOfSync)
	})
}

func TestOrphansAreHeldWhileASourceIsIncomplete(t *testing.T) {
	var source *statedb.Source
	complete := func(w *world, reason string) {
		w.update(func(txn *statedb.WriteTxn) error { return source.Incomplete(txn, reason) })
		synctest.Wait()
	}
	prepared(t, func(w *world) {
		source = w.source("files")
		w.target.is["old"] = 1
		w.write(row{ID: "a", Want: 1})
		w.update(func(txn *statedb.WriteTxn) error {
			return errors.Join(source.Initialized(txn), source.Incomplete(txn, "a.yaml is broken"))
		})
	}, func(_ *testing.T, w *world) {
		w.wantLog("init", "update a=1")
		w.equal("health", "ok: removal of orphans is held: files: a.yaml is broken", w.health.last())
		w.equal("incomplete", map[string]string{"files": "a.yaml is broken"}, w.r.Summary(w.db.ReadTxn()).Incomplete)
		// Updates and deletes of rows run.
		w.put(row{ID: "b", Want: 1})
		w.delete("a")
		w.wantLog("update b=1", "delete a")
		w.fullPass()
		w.pass(time.Hour)
		w.wantLog("update b=1")
		w.wantTarget(map[string]int{"b": 1, "old": 1})
		complete(w, "")
		w.wantLog("observe", "delete old")
		w.wantConverged()
		complete(w, "again")
		complete(w, "")
		w.pass(time.Hour)
		w.wantLog() // no search for orphans is pending
		w.equal("health", "ok: reconciled", w.health.last())
		complete(w, "and again")
		w.target.corrupt("old", 1)
		w.fullPass()
		w.wantLog("update b=1")
		complete(w, "")
		w.wantLog("observe", "delete old") // of the orphans alone
		w.wantConverged()
	})
}

func TestOrphansThatWereFoundAreHeldToo(t *testing.T) {
	for name, moment := range map[string]time.Duration{
		"while observing":        500 * time.Millisecond,
		"before the first":       1000 * time.Millisecond,
		"after the first":        1500 * time.Millisecond,
		"while one is retried":   2500 * time.Millisecond,
		"while one is postponed": 4000 * time.Millisecond,
	} {
		t.Run(name, func(t *testing.T) {
			prepared(t, func(w *world) {
				w.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
					take(time.Second)
					if c.id == "old1" && c.op == "delete" {
						return reconciler.Result{}, errBoom
					}
					return reconciler.Result{}, nil
				})
			}, func(_ *testing.T, w *world) {
				w.pass(time.Minute)
				source := w.source("files")
				w.update(source.Initialized)
				w.target.corrupt("old1", 1)
				w.target.corrupt("old2", 1)
				w.fullPass()
				w.pass(moment)
				w.update(func(txn *statedb.WriteTxn) error { return source.Incomplete(txn, "broken") })
				w.pass(2 * time.Second) // what is running ends
				w.target.log()
				w.pass(time.Hour)
				w.wantLog()
				w.equal("not-done", []reconciler.NotDone{}, w.notDoneRows())
				w.equal("deleting", 0, w.deleting())
				w.target.will(nil)
				w.update(source.Complete)
				w.pass(time.Minute)
				w.wantConverged()
			})
		})
	}
}

func TestFlickeringSourceLosesNothing(t *testing.T) {
	prepared(t, func(w *world) {
		w.config.Workers, w.config.DeleteLimit.Off = 3, true
	}, func(_ *testing.T, w *world) {
		source := w.source("files")
		w.update(source.Initialized)
		w.target.will(func(context.Context, call) (reconciler.Result, error) {
			take(7 * time.Millisecond)
			return reconciler.Result{}, nil
		})
		for i := range 500 {
			w.target.corrupt("old"+strconv.Itoa(i), 1)
			w.r.FullPass()
			w.update(func(txn *statedb.WriteTxn) error { return source.Incomplete(txn, strconv.Itoa(i)) })
			take(time.Duration(i%5) * time.Millisecond)
			w.update(source.Complete)
			take(time.Duration(i%11) * time.Millisecond)
			synctest.Wait()
		}
		w.pass(time.Minute)
		w.wantConverged()
	})
}
