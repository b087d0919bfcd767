package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
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

func TestOnlyThePlanThatWasShownCanBeApproved(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		w.put(numbered(50, 1)...)
		w.target.log()
		w.delete(idsOf(0, 20)...)
		first := w.plan()
		w.delete(idsOf(20, 25)...)
		w.put(row{ID: "10003", Want: 1}) // is back, and gone once more
		w.delete("10003")
		ctx := t.Context()
		wrong := func(id, current string) {
			t.Helper()
			var approval *reconciler.ApprovalError
			if err := w.r.Approve(ctx, id); !errors.As(err, &approval) {
				t.Errorf("approve %q: %v", id, err)
			} else {
				w.equal("error", reconciler.ApprovalError{ID: id, Current: current}, *approval)
			}
		}
		second := strings.TrimSuffix(first.ID, "1") + "2"
		wrong("nonsense", second)
		wrong(second, second) // nobody has seen it
		if err := w.r.Approve(ctx, first.ID); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		w.equal("deleted", slices.DeleteFunc(idsOf(0, 20), func(id string) bool { return id == "10003" }), w.deleted())
		wrong(first.ID, second)
		w.equal("id", second, w.plan().ID)
		w.pass(time.Hour)
		w.wantHeld(append([]string{"10003"}, idsOf(20, 25)...)...)
		w.approve()
		w.wantConverged()
		wrong(second, "")
		// What was approved counts for nothing, and no approval is for later.
		w.delete(idsOf(25, 33)...)
		w.pass(time.Second)
		w.wantConverged()
		w.delete(idsOf(40, 43)...)
		w.wantHeld(idsOf(40, 43)...)
		wrong(second, w.plan().ID)
	})
}

func TestErrorOfAnApprovalSaysWhatIsHeld(t *testing.T) {
	for want, err := range map[string]reconciler.ApprovalError{
		`plan "a-1" cannot be approved: nothing is held`:                               {ID: "a-1"},
		`plan "a-1" cannot be approved before it was looked at`:                        {ID: "a-1", Current: "a-1"},
		`plan "a-1" cannot be approved: it is out of date, what is held is plan "a-2"`: {ID: "a-1", Current: "a-2"},
	} {
		if err.Error() != want {
			t.Errorf("%q, want %q", err.Error(), want)
		}
	}
}

func TestPlanListsSomeAndCountsAll(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.put(numbered(2500, 1)...)
		w.delete(idsOf(0, 2000)...)
		plan := w.plan()
		w.equal("held", 2000, plan.Deletes)
		w.equal("listed", 1000, len(plan.Operations))
		w.approve()
		w.wantConverged()
	})
}

func TestRetriesOfADeleteAreNotCountedAgain(t *testing.T) {
	prepared(t, func(w *world) { w.config.MaxBackoff = time.Second }, func(_ *testing.T, w *world) {
		w.put(numbered(20, 1)...)
		fail := func(_ context.Context, c call) (reconciler.Result, error) {
			if c.op == "delete" {
				return reconciler.Result{}, errBoom
			}
			return reconciler.Result{}, nil
		}
		w.target.will(fail)
		w.delete(idsOf(0, 10)...)
		w.pass(time.Hour)
		w.equal("plan", reconciler.Plan{}, w.plan())
		w.delete("10010") // those that fail may succeed together with it
		w.wantHeld("10010")
		w.approve()
		w.pass(time.Hour) // and what is approved stays so
		w.equal("plan", reconciler.Plan{}, w.plan())
		w.target.will(nil)
		w.pass(time.Minute)
		w.wantConverged()
	})
}

func TestRowThatComesAndGoesCountsOnce(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		for i := range 100 {
			w.put(row{ID: "a", Want: i})
			w.pass(time.Second)
			w.delete("a")
			w.pass(time.Second)
		}
		w.equal("deletes", 100, len(w.deleted()))
	})
}

func TestRestartHoldsAgainWhatWasHeld(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.put(numbered(30, 1)...)
		w.delete(idsOf(0, 20)...)
		old := w.plan().ID
		w.stop()
		w.equal("not-done rows at the stop", 20, len(w.notDoneRows()))
		w.pass(time.Second)
		w.target.log()
		w.start()
		w.pass(time.Hour)
		w.equal("deleted", []string(nil), w.deleted())
		plan := w.plan()
		w.equal("held", 20, plan.Deletes)
		w.equal("first", reconciler.Planned{Key: "10000", Operation: "delete", Orphan: true}, plan.Operations[0])
		w.equal("approval of the plan of another run", error(&reconciler.ApprovalError{ID: old, Current: plan.ID}), w.r.Approve(w.t.Context(), old))
		w.approve()
		w.wantConverged()
		w.equal("out of sync", 20, w.metrics().outOfSync)
	})
}

func TestOrphansAreCountedAsAWholeBeforeAnyIsRemoved(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.put(numbered(12_000, 1)...)
		for i := range 6000 { // more than are compared at a time
			w.target.corrupt("old"+strconv.Itoa(10_000+i), 1)
		}
		w.target.log()
		passes := w.metrics().full
		w.fullPass()
		w.pass(time.Second)
		w.equal("deleted", []string(nil), w.deleted())
		w.equal("held", 6000, w.plan().Deletes)
		w.equal("the full pass ended", passes+1, w.metrics().full)
		w.fullPass()
		w.pass(time.Second)
		w.equal("the next one too", passes+2, w.metrics().full)
		w.approve()
		w.equal("deleted", 6000, len(w.deleted()))
		w.wantConverged()
	})
}

func TestApprovedOrphansAreNotRemovedWhileASourceIsIncomplete(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		source := w.source("files")
		w.update(source.Initialized)
		for i := range 20 {
			w.target.corrupt("old"+strconv.Itoa(i), 1)
		}
		w.fullPass()
		w.update(func(txn *statedb.WriteTxn) error { return source.Incomplete(txn, "broken") })
		w.approve()
		w.equal("deleted", []string(nil), w.deleted())
		w.equal("plan", reconciler.Plan{}, w.plan())
		w.update(source.Complete)
		w.pass(time.Second)
		w.equal("held anew", 20, w.plan().Deletes)
		w.approve()
		w.wantConverged()
	})
}

func TestTriggersAndPausesDoNotReleaseWhatIsHeld(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		w.put(numbered(30, 1)...)
		w.target.log()
		w.delete(idsOf(0, 20)...)
		if _, err := w.r.Trigger(ctx, reconciler.Selector[row]{Keys: []string{"10003"}}); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if err := w.r.Pause(ctx, reconciler.Selector[row]{}, time.Now().Add(time.Minute)); err != nil {
			t.Error(err)
		}
		w.pass(time.Hour)
		w.equal("deleted", []string(nil), w.deleted())
		w.wantHeld(idsOf(0, 20)...)
		if err := w.r.Pause(ctx, reconciler.Selector[row]{Keys: []string{"10003"}}, time.Time{}); err != nil {
			t.Error(err)
		}
		w.approve()
		w.equal("deleted", 19, len(w.deleted()))
		w.equal("plan", reconciler.Plan{}, w.plan())
		if err := w.r.Resume(ctx, reconciler.Selector[row]{}); err != nil {
			t.Error(err)
		}
		w.pass(time.Second)
		w.wantConverged()
	})
}

func TestLimitOfUpdatesHoldsChangesOfAppliedRows(t *testing.T) {
	prepared(t, func(w *world) {
		w.config.UpdateLimit = reconciler.ChangeLimit{Rows: 5, Percent: 20}
		w.config.Limits.RoundSize = 3
	}, func(t *testing.T, w *world) {
		w.put(numbered(20, 1)...) // the first time it is no change
		w.wantConverged()
		w.target.log()
		w.put(numbered(20, 2)[:5]...)
		w.pass(2 * time.Minute)
		w.wantConverged()
		w.put(numbered(20, 3)...)
		w.delete("10019")
		w.put(row{ID: "new", Want: 1})
		w.fullPass()
		w.pass(time.Hour)
		w.equal("updated", 2, w.target.state()["10000"])
		w.equal("inserted", 1, w.target.state()["new"])
		w.wantHeld(idsOf(0, 19)...)
		plan := w.plan()
		w.equal("updates", 19, plan.Updates)
		w.equal("changes", []reconciler.Change{{Field: "want", Is: "2", Want: "3"}}, plan.Operations[0].Changes)
		if health := w.health.last(); !strings.HasPrefix(health, "degraded: updates held: 19: updates of more than 5 rows and 20 %") {
			t.Error(health)
		}
		w.approve()
		w.wantConverged()
	})
}

// Diff implements [reconciler.Differ].
func (f *fake) Diff(_ context.Context, _ statedb.ReadTxn, r row) ([]reconciler.Change, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	is, there := f.is[r.ID]
	if there && is == r.Want {
		return nil, nil
	}
	return []reconciler.Change{{Field: "want", Is: strconv.Itoa(is), Want: strconv.Itoa(r.Want)}}, nil
}

func TestNoLimitHoldsNothing(t *testing.T) {
	prepared(t, func(w *world) { w.config.DeleteLimit.Off = true }, func(_ *testing.T, w *world) {
		w.put(numbered(100, 1)...)
		w.delete(idsOf(0, 100)...)
		w.wantConverged()
	})
}

func TestPlansNeedARunningReconciler(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		w.stop()
		if _, err := w.r.Plan(t.Context()); !errors.Is(err, reconciler.ErrNotRunning) {
			t.Error(err)
		}
		if err := w.r.Approve(t.Context(), ""); !errors.Is(err, reconciler.ErrNotRunning) {
			t.Error(err)
		}
	})
}
