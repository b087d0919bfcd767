package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

var errBoom = errors.New("boom")

// failing makes every operation on the ids fail.
func failing(ids ...string) behavior {
	return func(_ context.Context, c call) (reconciler.Result, error) {
		for _, id := range ids {
			if c.id == id {
				return reconciler.Result{}, errBoom
			}
		}
		return reconciler.Result{}, nil
	}
}

func TestRowsAreAppliedBeforeOrphansAreRemoved(t *testing.T) {
	prepared(t, func(w *world) {
		w.target.is["old"] = 1
		w.write(row{ID: "a", Want: 1}, row{ID: "b", Want: 2})
	}, func(_ *testing.T, w *world) {
		w.wantLog("init", "update a=1", "update b=2", "observe", "delete old")
		w.wantConverged()
	})
}

func TestOneChangeIsExactlyOneUpdate(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.put(row{ID: "a", Want: 1})
		w.target.log()
		w.put(row{ID: "a", Want: 2})
		w.pass(time.Hour)
		w.wantLog("update a=2")
		w.put(row{ID: "a", Want: 2}) // equal, so no change
		w.wantLog()
		w.delete("a")
		w.pass(time.Hour)
		w.wantLog("delete a")
		w.wantConverged()
	})
}

func TestIncrementalCountsEachChangeOnce(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		const n = 3000 // several rounds
		var rows []row
		for i := range n {
			rows = append(rows, row{ID: strconv.Itoa(i), Want: 1})
		}
		for want := 1; want <= 2; want++ {
			for i := range rows {
				rows[i].Want = want
			}
			w.put(rows...)
			w.pass(time.Minute)
			if got := w.metrics().incremental; got != want*n {
				t.Errorf("incremental: %d, want %d", got, want*n)
			}
		}
		if m := w.metrics(); m.incrementalErrors+m.fullErrors+m.outOfSync != 0 || len(w.target.calls) != 2*n+2 {
			t.Errorf("metrics %+v after %d operations", m, len(w.target.calls))
		}
	})
}

func TestTenThousandTriggersAreAtMostTwoRuns(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		w.target.log()
		w.target.will(func(context.Context, call) (reconciler.Result, error) {
			take(time.Second)
			return reconciler.Result{}, nil
		})
		for i := range 10_000 {
			w.write(row{ID: "a", Want: i})
			if i%100 == 0 {
				synctest.Wait()
			}
		}
		w.pass(time.Minute)
		w.wantLog("update a=0", "update a=9999")
		w.wantConverged()
	})
}

// slow makes the first operation on a key take a second.
func slow(id string) behavior {
	first := true
	return func(_ context.Context, c call) (reconciler.Result, error) {
		if c.id == id && first {
			first = false
			take(time.Second)
		}
		return reconciler.Result{}, nil
	}
}

func TestChangeWhileBeingAppliedIsNotLost(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		w.target.will(slow("a"))
		w.target.log()
		w.put(row{ID: "a", Want: 1})
		w.pass(500 * time.Millisecond)
		w.put(row{ID: "a", Want: 2})
		revision := w.table.Revision(w.db.ReadTxn())
		w.pass(500 * time.Millisecond)
		w.wantLog("update a=1", "update a=2")
		w.wantConverged()
		// The outcome of the first was not written: there is one status write.
		if got := w.table.Revision(w.db.ReadTxn()); got != revision+1 {
			t.Errorf("%d status writes, want 1", got-revision)
		}
	})
}

func TestOnlyTheRowThatChangedMeanwhileIsRunAgain(t *testing.T) {
	prepared(t, func(w *world) { w.config.Workers = 100 }, func(t *testing.T, w *world) {
		w.target.will(func(context.Context, call) (reconciler.Result, error) {
			take(time.Second)
			return reconciler.Result{}, nil
		})
		var rows []row
		for i := range 100 {
			rows = append(rows, row{ID: strconv.Itoa(i), Want: 1})
		}
		w.put(rows...)
		w.put(row{ID: "7", Want: 2})
		w.pass(time.Second)
		done := 0
		for r := range w.table.All(w.db.ReadTxn()) {
			if r.Status.Kind() == reconciler.Done {
				done++
			}
		}
		if done != 99 {
			t.Errorf("%d rows are done, want 99", done)
		}
		w.pass(time.Second)
		if w.metrics().incremental != 101 {
			t.Errorf("%d operations, want 101", w.metrics().incremental)
		}
		w.wantConverged()
	})
}

func TestFailureOfAnOldSpecIsNotWritten(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
			take(time.Second)
			if c.want == 1 {
				return reconciler.Result{}, errBoom
			}
			return reconciler.Result{}, nil
		})
		w.put(row{ID: "a", Want: 1})
		w.put(row{ID: "a", Want: 2})
		w.pass(1100 * time.Millisecond)
		w.wantStatus("a", "pending")
		w.equal("not-done", []reconciler.NotDone{}, w.notDoneRows())
		w.pass(time.Second)
		w.wantConverged()
	})
}

// amend writes the status of another reconciler into a row.
func (w *world) amend(id string, other reconciler.Status) {
	w.t.Helper()
	w.update(func(txn *statedb.WriteTxn) error {
		_, err := w.table.Amend(txn, row{ID: id}, w.table.Revision(txn), func(current row) row {
			current.Other = other
			return current
		})
		return err
	})
}

// otherStatus is some status that is not zero.
func otherStatus(n int) reconciler.Status {
	var s reconciler.Status
	if err := s.UnmarshalJSON(fmt.Appendf(nil, `{"kind":"error","error":"other %d"}`, n)); err != nil {
		panic(err)
	}
	return s
}

func TestStatusWriteOfAnotherIsNoConflictAndNoWork(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.target.will(slow("a"))
		w.target.log()
		w.put(row{ID: "a", Want: 1})
		w.amend("a", otherStatus(1)) // while it is being applied
		w.pass(time.Second)
		w.wantLog("update a=1")
		w.wantStatus("a", "done")
		w.amend("a", otherStatus(2))
		w.pass(time.Hour)
		w.wantLog()
		w.wantStatus("a", "done")
	})
}

func TestFirstStatusWriteOfAnotherDoesNotHideTheChange(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.put(row{ID: "a", Want: 1})
		w.write(row{ID: "a", Want: 2})
		w.amend("a", otherStatus(1)) // the record of the change is gone from the feed
		synctest.Wait()
		w.wantConverged()
	})
}

func TestStatusWriteOfAnotherDuringRetryLeavesTheRetry(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		w.target.will(failing("a"))
		w.put(row{ID: "a", Want: 1})
		w.target.log()
		for i := range 20 {
			w.amend("a", otherStatus(i))
			synctest.Wait()
		}
		w.wantLog()
		w.target.will(slow("a"))
		w.pass(130 * time.Millisecond)
		w.amend("a", otherStatus(99)) // while the retry runs
		w.pass(2 * time.Second)
		w.wantLog("update a=1")
		w.wantConverged()
	})
}

func TestRetryIsNotLostWhenTheFeedIsBehind(t *testing.T) {
	// A row changes while it waits behind another one: the newest spec is applied,
	// and its record comes while it is.
	running(t, func(_ *testing.T, w *world) {
		w.target.log()
		w.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
			if c.id == "0" {
				take(5 * time.Millisecond)
				return reconciler.Result{}, nil
			}
			take(time.Second)
			return reconciler.Result{}, errors.New("boom")
		})
		w.put(row{ID: "0", Want: 1}, row{ID: "a", Want: 1})
		w.pass(2 * time.Millisecond)
		w.put(row{ID: "a", Want: 2})
		w.pass(time.Second + 10*time.Millisecond)
		w.wantLog("update 0=1", "update a=2")
		w.wantStatus("a", "error: boom")
		w.target.will(nil)
		w.pass(time.Second)
		w.wantLog("update a=2")
		w.wantConverged()
	})
}

func TestThreeReconcilersShareARow(t *testing.T) {
	// The test's own writers play the other two: whatever the moment of their
	// status writes, there is one update and the status is kept.
	const moments = 12
	for moment := range moments {
		running(t, func(_ *testing.T, w *world) {
			w.target.will(slow("a"))
			w.target.log()
			w.put(row{ID: "a", Want: 1})
			for i := range moments {
				if i%3 == moment%3 || i == moment {
					w.amend("a", otherStatus(i))
				}
				w.pass(100 * time.Millisecond)
			}
			w.pass(time.Second)
			w.wantLog("update a=1")
			w.wantStatus("a", "done")
		})
	}
}

func TestRowWithCopiedStatusIsPending(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.put(row{ID: "a", Want: 1})
		w.target.log()
		w.put(row{ID: "b", Want: 1, Status: w.status("a")})
		w.wantLog("update b=1")
		w.put(row{ID: "b", Want: 2, Status: w.status("a")})
		w.wantLog("update b=2")
		w.wantConverged()
	})
}

func TestUserSwapsAreNotDisturbedByStatuses(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		w.write(row{ID: "a", Want: 1})
		_, revision, _ := w.table.Get(w.db.ReadTxn(), byID.Query("a"))
		synctest.Wait() // the status is written
		w.update(func(txn *statedb.WriteTxn) error {
			_, err := w.rows().CompareAndSwap(txn, revision, row{ID: "a", Want: 2})
			return err
		})
		synctest.Wait()
		w.wantConverged()
	})
}

func TestTargetGetsTheNewestRow(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.target.will(slow("a"))
		w.put(row{ID: "a", Want: 1})
		w.target.log()
		w.put(row{ID: "b", Want: 2})
		w.put(row{ID: "b", Want: 5})
		w.put(row{ID: "b", Want: 3})
		w.pass(2 * time.Second)
		w.wantLog("update b=3")
	})
}

func TestRowsInErrorAtStartAreTried(t *testing.T) {
	for name, reason := range map[string]string{"complete": "", "incomplete": "broken"} {
		t.Run(name, func(t *testing.T) {
			prepared(t, func(w *world) {
				w.target.will(failing("a"))
				w.write(row{ID: "a", Want: 1}, row{ID: "b", Want: 1})
			}, func(_ *testing.T, w *world) {
				w.stop()
				w.wantStatus("a", "error: boom")
				source := w.source("files")
				w.update(source.Initialized)
				w.update(func(txn *statedb.WriteTxn) error { return source.Incomplete(txn, reason) })
				w.target.will(nil)
				w.target.log()
				w.start()
				if reason == "" {
					w.wantLog("init", "update a=1", "observe")
				} else {
					w.wantLog("init", "update a=1")
				}
				w.pass(time.Second)
				w.wantConverged()
			})
		})
	}
}
