package reconciler_test

import (
	"context"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

func TestStuckOperationsAreReportedWhileATableIsHeld(t *testing.T) {
	prepared(t, hurried(2), func(t *testing.T, w *world) {
		free := make(chan struct{})
		w.target.will(ignoring(free, "a"))
		release := w.holdAfter(row{ID: "a", Want: 1}, row{ID: "b", Want: 1}, row{ID: "c", Want: 1})
		w.pass(4 * time.Second)
		if got := w.health.last(); !strings.HasPrefix(got, "degraded: ") || !strings.Contains(got, "operations stuck: 1") {
			t.Errorf("health is %q, expected an operation that is stuck", got)
		}
		w.equal("stuck", 1, w.r.Stats().Stuck)
		within(t, "Explain", time.Second, func(ctx context.Context) error {
			e, err := w.r.Explain(ctx, "a")
			if err == nil {
				w.equal("waits for", "stuck", e.WaitsFor[0].Cause)
			}
			return err
		})
		if rows := w.notDoneRows(); len(rows) != 1 || rows[0].Key != "a" || rows[0].State != "stuck" {
			t.Errorf("not done is %+v, expected a", rows)
		}
		close(free)
		release(nil)
		w.pass(2 * time.Second)
		w.wantConverged()
		w.equal("operations on a", 1, count(w.target.took(), call{op: "update", id: "a"}))
	})
}

// A table that is held for long is a trouble of its own: statuses are missing.
func TestHealthReportsThatStatusesCannotBeWritten(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		release := w.holdAfter(row{ID: "a", Want: 1}, row{ID: "b", Want: 1})
		w.pass(10 * time.Second)
		if got := w.health.last(); !strings.HasPrefix(got, "degraded: ") || !strings.Contains(got, "table rows") {
			t.Errorf("health is %q, expected that table rows is held", got)
		}
		release(nil)
		w.pass(time.Second)
		w.equal("health", "ok: reconciled", w.health.last())
	})
}

func TestTheReconcilerAnswersWhileATableIsHeld(t *testing.T) {
	for name, tables := range map[string]func(w *world) []statedb.TableMeta{
		"reconciled": func(w *world) []statedb.TableMeta { return []statedb.TableMeta{w.table} },
		"not done":   func(w *world) []statedb.TableMeta { return []statedb.TableMeta{w.notDone} },
	} {
		t.Run(name, func(t *testing.T) {
			running(t, func(t *testing.T, w *world) {
				w.put(row{ID: "c", Want: 1})
				gate := make(chan struct{})
				w.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
					<-gate
					return failing("b")(t.Context(), c)
				})
				w.put(row{ID: "a", Want: 1}, row{ID: "b", Want: 1})
				release := w.hold(tables(w)...)
				close(gate)
				w.pass(10 * time.Second)

				all := reconciler.Selector[row]{}
				within(t, "Explain", time.Second, func(ctx context.Context) error {
					e, err := w.r.Explain(ctx, "b")
					if err == nil && len(e.WaitsFor) == 0 {
						t.Error("Explain does not say what b waits for")
					}
					return err
				})
				within(t, "Plan", time.Second, func(ctx context.Context) error {
					_, err := w.r.Plan(ctx)
					return err
				})
				within(t, "Pause", time.Second, func(ctx context.Context) error { return w.r.Pause(ctx, all, time.Time{}) })
				within(t, "Resume", time.Second, func(ctx context.Context) error { return w.r.Resume(ctx, all) })
				within(t, "WaitRow of a row that is done", time.Second, func(ctx context.Context) error {
					return w.r.WaitRow(ctx, row{ID: "c"})
				})
				w.target.log()
				within(t, "Trigger", time.Second, func(ctx context.Context) error {
					_, err := w.r.Trigger(ctx, keys("c"))
					return err
				})
				synctest.Wait()
				w.equal("triggered", "update c=1", firstOf(w.target.log()))
				s := w.r.Stats()
				w.equal("running", 0, s.Running)
				w.equal("workers", 1, s.Workers)

				w.target.will(nil)
				release(nil)
				w.pass(time.Minute)
				w.wantConverged()
			})
		})
	}
}

func TestStatusesAreWrittenWhenTheTableIsFree(t *testing.T) {
	prepared(t, func(w *world) { w.config.Workers = 2 }, func(_ *testing.T, w *world) {
		w.target.log()
		release := w.holdAfter(row{ID: "a", Want: 1}, row{ID: "b", Want: 1}, row{ID: "c", Want: 1})
		own := w.askRow("b")
		w.pass(time.Hour)
		w.wantAsked("waiting", own)
		release(func(txn *statedb.WriteTxn) {
			_, _, err := w.table.Insert(txn, row{ID: "a", Want: 2}) // what was done of it is outdated
			w.check(err)
		})
		w.pass(20 * time.Millisecond)
		for _, id := range []string{"a", "b", "c"} {
			w.wantStatus(id, "done")
		}
		w.wantAsked("<nil>", own)
		calls := w.target.took()
		for _, id := range []string{"a=1", "b=1", "c=1", "a=2"} {
			n := 0
			for _, c := range calls {
				if c.String() == "update "+id {
					n++
				}
			}
			w.equal("updates "+id, 1, n)
		}
		w.pass(2 * time.Second)
		w.wantConverged()
	})
}

// What is not done is told to somebody: that must not delay what is.
func TestStatusesDoNotWaitForTheNotDoneTable(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		release := w.hold(w.notDone)
		w.target.will(failing("a"))
		w.put(row{ID: "a", Want: 1}, row{ID: "b", Want: 1})
		w.pass(20 * time.Millisecond)
		w.wantStatus("a", "error: boom")
		w.wantStatus("b", "done")
		within(t, "a write to the reconciled table", time.Second, func(ctx context.Context) error {
			return w.db.Update(ctx, func(txn *statedb.WriteTxn) error {
				_, _, err := w.table.Insert(txn, row{ID: "c", Want: 1})
				return err
			}, w.table)
		})
		w.pass(20 * time.Millisecond)
		w.wantStatus("c", "done")
		w.pass(10 * time.Second)
		if took := w.within(10 * time.Second); took == 0 {
			t.Error("a is not tried again")
		}
		release(nil)
		w.pass(2 * time.Second)
		w.equal("not done", []string{"a"}, keysOf(w.notDoneRows()))
		w.target.will(nil)
		w.pass(2 * time.Minute)
		w.wantConverged()
	})
}

// The reconciler must not hold the reconciled table while it waits for the not-done table: a
// writer of rows would wait too, and forever if it holds the not-done table.
func TestTheReconciledTableIsFreeWhileTheNotDoneTableIsHeld(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		w.target.will(failing("a"))
		release := w.hold(w.notDone)
		for i := 0; i < 20 && !t.Failed(); i++ {
			within(t, "a write", 100*time.Millisecond, func(ctx context.Context) error {
				return w.db.Update(ctx, func(txn *statedb.WriteTxn) error {
					_, _, err := w.table.Insert(txn, row{ID: "a", Want: i})
					return err
				}, w.table)
			})
			w.pass(37 * time.Millisecond)
		}
		release(nil)
		w.target.will(nil)
		w.pass(2 * time.Minute)
		w.wantConverged()
	})
}

// An operation that writes to its own table must not wait for the reconciler, nor
// the reconciler for it.
func TestAnOperationMayHoldItsOwnTable(t *testing.T) {
	prepared(t, func(w *world) { w.config.Workers = 2 }, func(t *testing.T, w *world) {
		w.target.will(func(ctx context.Context, c call) (reconciler.Result, error) {
			if c.id != "holds" {
				return reconciler.Result{}, nil
			}
			return reconciler.Result{}, w.db.Update(ctx, func(*statedb.WriteTxn) error {
				take(20 * time.Second)
				return nil
			}, w.table)
		})
		w.put(row{ID: "holds", Want: 1}, row{ID: "other", Want: 1})
		w.pass(time.Second)
		within(t, "Explain", time.Second, func(ctx context.Context) error {
			_, err := w.r.Explain(ctx, "holds")
			return err
		})
		w.pass(30 * time.Second)
		w.wantConverged()
	})
}

// What a user's function does must not keep the process from its end.
func TestStopDoesNotWaitForAFunctionThatNamesRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		limit := briefly(w)
		children := must(statedb.NewTable(w.db, statedb.Schema[child]{Name: "children", Primary: childByID}))
		free := make(chan struct{})
		w.params = func(p *reconciler.Params[row]) {
			p.Related = []reconciler.Related[row]{reconciler.Watches(statedb.ReadOnly(children), func(statedb.ReadTxn, child) iter.Seq[statedb.Query[row]] {
				<-free
				return nil
			})}
		}
		w.start()
		insert(t, w.db, children, child{ID: "x"})
		w.pass(time.Second)
		err := w.endedWithin(limit, func(func(*statedb.WriteTxn)) { close(free) })
		if err == nil || !strings.Contains(err.Error(), "related table children") {
			t.Errorf("the error is %v, expected that it names the related table children", err)
		}
		if !t.Failed() {
			close(free)
		}
	})
}

// An Init that ends after the context has does not begin what then has to be ended.
func TestStopIsBoundedWhenInitEndsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		limit := briefly(w)
		w.write(row{ID: "a", Want: 1})
		w.target.will(func(context.Context, call) (reconciler.Result, error) {
			take(900 * time.Millisecond)
			return reconciler.Result{}, nil
		})
		insert(t, w.db, w.notDone, reconciler.NotDone{Reconciler: "rows", Key: "of an earlier run"})
		w.start()
		release := w.hold(w.notDone, w.table)
		if err := w.endedWithin(limit, release); err != nil {
			t.Errorf("Run: %v, although nothing was done", err)
		}
		release(nil)
		w.wantLog("init")
	})
}
