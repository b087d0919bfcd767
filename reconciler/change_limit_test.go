package reconciler_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// idsOf returns those of numbered rows.
func idsOf(from, to int) (ids []string) {
	for i := from; i < to; i++ {
		ids = append(ids, strconv.Itoa(10_000+i))
	}
	return ids
}

func (w *world) plan() reconciler.Plan {
	w.t.Helper()
	plan, err := w.r.Plan(w.t.Context())
	if err != nil {
		w.t.Error(err)
	}
	return plan
}

// approve approves what is held, and lets it be done.
func (w *world) approve() {
	w.t.Helper()
	if err := w.r.Approve(w.t.Context(), w.plan().ID); err != nil {
		w.t.Error(err)
	}
	w.pass(2 * time.Second) // the table of what is not done is written now and then
}

// wantHeld checks of which rows operations are held.
func (w *world) wantHeld(keys ...string) {
	w.t.Helper()
	var held []string
	for _, op := range w.plan().Operations {
		held = append(held, op.Key)
	}
	w.equal("held", keys, held)
}

// deleted returns the keys of the deletes since the last look.
func (w *world) deleted() (keys []string) {
	for _, c := range w.target.took() {
		if c.op == "delete" {
			keys = append(keys, c.id)
		}
	}
	slices.Sort(keys)
	return keys
}

func TestMassDeleteIsHeldUntilItIsApproved(t *testing.T) {
	for _, workers := range []int{1, 4} {
		prepared(t, func(w *world) { w.config.Workers = workers }, func(_ *testing.T, w *world) {
			w.put(numbered(30, 1)...)
			w.target.log()
			held := idsOf(0, 20)
			began := time.Now()
			w.delete(held...)
			w.put(row{ID: "10025", Want: 2})
			w.pass(time.Hour)
			w.fullPass()
			w.equal("deletes", []string(nil), w.deleted())
			w.equal("updates go on", 2, w.target.state()["10025"])
			plan := w.plan()
			w.equal("held", 20, plan.Deletes)
			w.equal("of", 30, plan.Rows)
			w.equal("since", began, plan.Since)
			w.equal("limits", []string{"delete: more than 10 rows and 30 % of the table within 1m0s"}, plan.Limits)
			w.equal("first", reconciler.Planned{Key: "10000", Operation: "delete"}, plan.Operations[0])
			w.wantHeld(held...)
			w.equal("health", "degraded: deletes held: 20: deletes of more than 10 rows and 30 % of the table within 1m0s: look at the plan and approve it", w.health.last())
			notDone := w.notDoneRows()
			w.equal("not done", 20, len(notDone))
			w.equal("operation", "delete", notDone[0].Operation)
			w.equal("deleting", 20, w.r.Summary(w.db.ReadTxn()).Deleting)

			w.approve()
			w.pass(time.Second)
			w.equal("deletes", held, w.deleted())
			w.wantConverged()
			w.equal("health", "ok: reconciled", w.health.last())
			w.equal("plan", reconciler.Plan{}, w.plan())
		})
	}
}

func TestLimitOfDeletesNeedsManyRowsAndAGreatPart(t *testing.T) {
	for _, test := range []struct{ rows, deletes, pass int }{
		{100, 11, 11},
		{100, 30, 30},
		{100, 31, 0},
		{20, 7, 7},
		{20, 10, 10},
		{33, 11, 0},
		{12, 12, 0},
	} {
		t.Run(fmt.Sprintf("%d of %d", test.deletes, test.rows), func(t *testing.T) {
			running(t, func(_ *testing.T, w *world) {
				w.put(numbered(test.rows, 1)...)
				w.target.log()
				w.delete(idsOf(0, test.deletes)...)
				w.pass(time.Hour)
				w.equal("deleted", test.pass, len(w.deleted()))
			})
		})
	}
}

func TestDeletesOneByOneCountTogetherWithinTheWindow(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.put(numbered(40, 1)...)
		w.target.log()
		for _, id := range idsOf(0, 14) {
			w.delete(id)
			w.pass(3 * time.Second)
		}
		w.wantHeld("10012", "10013")
		w.equal("deleted", idsOf(0, 12), w.deleted())
	})
	running(t, func(_ *testing.T, w *world) {
		w.put(numbered(80, 1)...)
		w.target.log()
		for _, id := range idsOf(0, 30) {
			w.delete(id)
			w.pass(6 * time.Second)
		}
		w.equal("deleted", idsOf(0, 30), w.deleted())
	})
}

func TestMassDeleteIsHeldBeforeItsFirstRowHoweverSmallTheRound(t *testing.T) {
	for _, size := range []int{1, 7, 40} {
		prepared(t, func(w *world) { w.config.Limits.RoundSize = size }, func(_ *testing.T, w *world) {
			w.put(numbered(100, 1)...)
			w.target.log()
			w.update(func(txn *statedb.WriteTxn) error {
				for i, id := range idsOf(0, 40) {
					if _, _, err := w.table.Delete(txn, row{ID: id}); err != nil {
						return err
					}
					if _, _, err := w.table.Insert(txn, row{ID: "10090", Want: i}); err != nil {
						return err
					}
				}
				return nil
			})
			synctest.Wait()
			w.wantLog("update 10090=39")
			w.equal("held", 40, w.plan().Deletes)
		})
	}
}

// What the feed had was looked at, but is not there any more when it is taken.
func TestDeletesThatWereExpectedInVainAreNotCounted(t *testing.T) {
	prepared(t, func(w *world) { w.config.Limits.RoundSize = 1 }, func(_ *testing.T, w *world) {
		w.put(numbered(100, 1)...)
		w.target.log()
		back := false
		w.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
			if c.id == "10099" && !back {
				back = true
				w.write(numbered(100, 1)[5:40]...)
			}
			return reconciler.Result{}, nil
		})
		w.update(func(txn *statedb.WriteTxn) error {
			for _, id := range idsOf(0, 40) {
				if _, _, err := w.table.Delete(txn, row{ID: id}); err != nil {
					return err
				}
				if id == "10000" {
					_, _, _ = w.table.Insert(txn, row{ID: "10099", Want: 2})
				}
			}
			return nil
		})
		w.pass(time.Second)
		w.equal("deleted", idsOf(0, 5), w.deleted())
		w.wantConverged()
	})
}

func TestHeldDeletesOfRowsThatReturnAreDropped(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		rows := numbered(30, 1)
		w.put(rows...)
		w.target.log()
		w.delete(idsOf(0, 20)...)
		w.put(rows[0:5]...)
		w.pass(time.Hour)
		w.wantHeld(idsOf(5, 20)...)
		w.put(rows[5:9]...)
		w.wantHeld(idsOf(9, 20)...)
		w.put(rows[9:10]...)
		w.pass(time.Second)
		w.equal("plan", reconciler.Plan{}, w.plan())
		w.equal("deleted", idsOf(10, 20), w.deleted())
		w.wantConverged()
	})
}
