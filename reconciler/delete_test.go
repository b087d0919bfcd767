package reconciler_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// wantNotDone checks the not-done table, except for the times and what follows
// from the rest.
func (w *world) wantNotDone(want ...reconciler.NotDone) {
	w.t.Helper()
	for i := range want {
		want[i].Reconciler, want[i].Table = "rows", "rows"
	}
	if diff := cmp.Diff(append([]reconciler.NotDone{}, want...), w.notDoneRows(), cmpopts.IgnoreFields(reconciler.NotDone{}, "NextDue", "State", "WaitsFor", "Reasons")); diff != "" {
		w.t.Errorf("not-done (-want +got):\n%s", diff)
	}
}

func (w *world) deleting() int { return w.latest().Summary(w.db.ReadTxn()).Deleting }

func TestFailingDeleteIsVisibleAndRetried(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.put(row{ID: "a", Want: 1})
		w.target.will(failing("a"))
		w.target.log()
		w.delete("a")
		w.wantNotDone(reconciler.NotDone{Key: "a", Operation: "delete", Attempts: 1, LastError: "boom"})
		w.equal("deleting", 1, w.deleting())
		w.equal("errors", 1, w.metrics().errorsCurrent)
		w.pass(time.Minute)
		w.equal("health", "degraded: rows in error: 1: delete a: boom", w.health.last())
		w.wantGaps("a", 100*time.Millisecond, 200*time.Millisecond, 400*time.Millisecond)
		w.target.will(nil)
		w.pass(2 * time.Minute)
		w.wantTarget(map[string]int{})
		w.wantConverged()
		w.equal("deleting", 0, w.deleting())
		w.equal("health", "ok: reconciled", w.health.last())
	})
}

func TestDeleteGetsTheLastRow(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.put(row{ID: "a", Want: 1})
		w.put(row{ID: "a", Want: 2})
		w.target.will(failing("a"))
		w.put(row{ID: "a", Want: 3}) // fails
		w.target.took()
		w.delete("a")
		w.fullPass()
		w.pass(time.Minute)
		for _, c := range w.target.took() {
			if c.op == "delete" && c.want != 3 {
				w.t.Errorf("Delete got the row with %d, want 3", c.want)
			}
		}
		w.target.will(nil)
		w.pass(2 * time.Minute)
		w.wantConverged()
	})
}

func TestDeleteDuringAFullPassGetsTheLastRow(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.put(row{ID: "a", Want: 1}, row{ID: "b", Want: 1})
		w.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
			take(time.Second)
			return reconciler.Result{}, nil
		})
		w.fullPass() // a is being applied
		w.write(row{ID: "b", Want: 2})
		w.delete("b")
		w.target.took()
		w.pass(time.Minute)
		for _, c := range w.target.took() {
			if c.op == "delete" && c.want != 2 {
				w.t.Errorf("Delete got the row with %d, want 2", c.want)
			}
		}
		w.wantConverged()
		w.equal("out of sync", 0, w.metrics().outOfSync)
	})
}

func TestRecreatedRowIsNotDeleted(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.put(row{ID: "a", Want: 1})
		w.target.will(failing("a"))
		w.delete("a")
		w.pass(time.Minute)
		w.target.will(nil)
		w.target.log()
		w.put(row{ID: "a", Want: 2})
		w.pass(time.Hour)
		w.wantLog("update a=2")
		w.wantConverged()
		w.equal("deleting", 0, w.deleting())
	})
}

// A delete is given to a worker with others, and may begin long after: each looks first whether
// the row has come back meanwhile.
func TestRowRecreatedWhileItsDeleteWaitsInASlowBatchIsNotDeleted(t *testing.T) {
	const slow = 10 * time.Second
	prepared(t, func(w *world) {
		w.config.Workers = 1
		w.config.OperationTimeout = time.Minute
		w.config.DeleteLimit.Off = true
	}, func(_ *testing.T, w *world) {
		w.put(numbered(20, 1)...)
		w.target.log()
		w.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
			if c.op == "delete" {
				take(slow)
			}
			return reconciler.Result{}, nil
		})
		for _, r := range numbered(20, 1) {
			w.erase(r.ID)
		}
		w.pass(slow + slow/2) // the second one runs
		w.write(row{ID: "10018", Want: 2})
		w.pass(time.Hour)
		log := w.target.log()
		if slices.Contains(log, "delete 10018") || !slices.Contains(log, "update 10018=2") || !slices.Contains(log, "delete 10019") {
			w.t.Errorf("operations: %q", log)
		}
		w.wantTarget(map[string]int{"10018": 2})
		w.wantConverged()
	})
}

func TestRowRecreatedWhileItsDeleteRunsIsApplied(t *testing.T) {
	for name, err := range map[string]error{"delete succeeds": nil, "delete fails": errBoom} {
		t.Run(name, func(t *testing.T) {
			running(t, func(_ *testing.T, w *world) {
				w.put(row{ID: "a", Want: 1})
				w.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
					if c.op == "delete" {
						take(time.Second)
						return reconciler.Result{}, err
					}
					return reconciler.Result{}, nil
				})
				w.target.log()
				w.delete("a")
				w.put(row{ID: "a", Want: 2})
				w.pass(time.Hour)
				w.wantLog("delete a", "update a=2")
				w.wantConverged()
			})
		})
	}
}

func TestRowDeletedWhileItIsAppliedIsDeletedAfterwards(t *testing.T) {
	for name, err := range map[string]error{"update succeeds": nil, "update fails": errBoom} {
		t.Run(name, func(t *testing.T) {
			running(t, func(_ *testing.T, w *world) {
				w.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
					if c.op == "update" {
						take(time.Second)
						return reconciler.Result{}, err
					}
					return reconciler.Result{}, nil
				})
				w.target.log()
				w.put(row{ID: "a", Want: 1})
				w.delete("a")
				w.pass(time.Hour)
				w.wantLog("update a=1", "delete a")
				w.wantConverged()
				w.equal("deleting", 0, w.deleting())
			})
		})
	}
}

func TestDeleteAndRecreateInOneTransactionIsAnUpdate(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.put(row{ID: "a", Want: 1})
		w.target.log()
		w.update(func(txn *statedb.WriteTxn) error {
			if _, _, err := w.table.Delete(txn, row{ID: "a"}); err != nil {
				return err
			}
			_, _, err := w.table.Insert(txn, row{ID: "a", Want: 1})
			return err
		})
		w.pass(time.Second)
		w.wantLog("update a=1")
		w.wantConverged()
	})
}

func TestFailingDeleteSurvivesARestart(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.put(row{ID: "a", Want: 1})
		w.target.will(failing("a"))
		w.delete("a")
		w.pass(time.Minute)
		w.stop()
		w.start()
		w.pass(time.Minute)
		w.equal("deleting", 1, w.deleting())
		w.equal("operation", "delete", w.notDoneRows()[0].Operation)
		w.target.will(nil)
		w.pass(2 * time.Minute)
		w.wantConverged()
	})
}

func TestNotDoneSaysWhatIsNotDone(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		w.target.will(outcomes(reconciler.RetryAfter(time.Hour, errBoom), errBoom, reconciler.Result{Again: time.Hour}, nil))
		now := time.Now()
		w.put(row{ID: "a", Want: 1}, row{ID: "b", Want: 1})
		row := reconciler.NotDone{Key: "a", Operation: "update", Attempts: 1, LastError: "boom"}
		w.wantNotDone(row)
		if due := w.notDoneRows()[0].NextDue; !due.Equal(now.Add(time.Hour)) {
			t.Errorf("next due %v, want in an hour", due)
		}
		w.pass(time.Hour)
		row.Attempts = 2
		w.wantNotDone(row)
		w.pass(2 * time.Second)
		row.Attempts, row.LastError = 0, ""
		w.wantNotDone(row) // will be run again
		w.pass(2 * time.Hour)
		w.wantConverged()
	})
}

func TestTerminalErrorIsNotDoneWithoutATime(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		w.target.will(outcomes(reconciler.Terminal(errBoom)))
		w.put(row{ID: "a"})
		w.wantNotDone(reconciler.NotDone{Key: "a", Operation: "update", Attempts: 1, LastError: "boom"})
		if due := w.notDoneRows()[0].NextDue; !due.IsZero() {
			t.Errorf("next due %v, want none", due)
		}
		w.target.will(nil)
		w.delete("a")
		w.pass(time.Second)
		w.wantConverged()
	})
}

func TestNotDoneIsWrittenOnceASecond(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		w.target.will(func(context.Context, call) (reconciler.Result, error) {
			return reconciler.Result{}, reconciler.RetryAfter(10*time.Millisecond, errBoom)
		})
		w.put(row{ID: "a"})
		w.pass(500 * time.Millisecond)
		for i := range 10 {
			before := w.notDone.Revision(w.db.ReadTxn())
			w.pass(time.Second)
			if n := w.notDone.Revision(w.db.ReadTxn()) - before; n != 1 {
				t.Errorf("second %d: %d writes", i, n)
			}
		}
	})
}

func TestNotDoneOfAnEarlierRunIsCleared(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.target.will(failing("a"))
		w.put(row{ID: "a", Want: 1})
		w.stop()
		w.equal("not-done", 1, len(w.notDoneRows()))
		w.delete("a") // nobody sees it
		w.target.will(nil)
		w.start()
		w.wantConverged()
	})
}
