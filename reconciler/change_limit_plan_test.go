package reconciler_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

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
		`plan "a-1" cannot be approved: nothing is held`:                           {ID: "a-1"},
		`plan "a-1" cannot be approved before it has been shown`:                   {ID: "a-1", Current: "a-1"},
		`plan "a-1" cannot be approved: it is outdated, the current plan is "a-2"`: {ID: "a-1", Current: "a-2"},
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

// heldMemory is a reconciler.Memory.
type heldMemory struct {
	held *reconciler.HeldDeletes

	mu     sync.Mutex
	err    error
	stored int // calls of SetDeletesHeld
}

func (m *heldMemory) fails(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

func (m *heldMemory) DeletesHeld() *reconciler.HeldDeletes { return m.held }

func (m *heldMemory) SetDeletesHeld(held *reconciler.HeldDeletes) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stored++
	if m.err == nil {
		m.held = held
	}
	return m.err
}

// withHeld runs fn after ten of thirty deletes within a minute are held: the ten are within the limit, if they are counted alone.
func withHeld(t *testing.T, fn func(w *world, m *heldMemory)) {
	t.Helper()
	m := &heldMemory{}
	set := func(w *world) { w.params = func(p *reconciler.Params[row]) { p.Memory = m } }
	prepared(t, set, func(_ *testing.T, w *world) {
		w.put(numbered(30, 1)...)
		w.delete(idsOf(0, 9)...)
		w.pass(time.Second)
		w.delete(idsOf(9, 19)...)
		w.pass(2 * time.Minute)
		w.wantHeld(idsOf(9, 19)...)
		w.equal("remembered", &reconciler.HeldDeletes{Done: 9, Allowed: 10}, m.held)
		fn(w, m)
	})
}

func TestARestartReleasesNothing(t *testing.T) {
	withHeld(t, func(w *world, m *heldMemory) {
		for range 3 {
			w.stop()
			w.target.log()
			w.start()
			w.pass(time.Hour)
			w.fullPass()
			w.equal("deleted", []string(nil), w.deleted())
			w.wantHeld(idsOf(9, 19)...)
		}
		w.approve()
		w.wantConverged()
		w.equal("remembered", (*reconciler.HeldDeletes)(nil), m.held)
	})
}

func TestDeletesAreHeldWhenItIsOnlyKnownThatSomeWere(t *testing.T) {
	withHeld(t, func(w *world, m *heldMemory) {
		w.stop()
		w.target.log()
		m.held = &reconciler.HeldDeletes{}
		before := m.stored
		w.start()
		w.pass(time.Hour)
		w.equal("deleted", []string(nil), w.deleted())
		w.wantHeld(idsOf(9, 19)...)
		w.equal("stored", before+1, m.stored)
		w.put(numbered(18, 1)...)
		w.pass(time.Minute)
		w.wantHeld(idsOf(18, 19)...)
		w.approve()
		w.wantConverged()
		w.equal("remembered", (*reconciler.HeldDeletes)(nil), m.held)
	})
}

func TestWhatWasHeldBeforeARestartIsReleasedByWithdrawals(t *testing.T) {
	for name, back := range map[string][]row{"all": numbered(19, 1), "some": numbered(17, 1)} {
		t.Run(name, func(t *testing.T) {
			withHeld(t, func(w *world, m *heldMemory) {
				w.stop()
				w.put(back...)
				w.start()
				w.pass(time.Minute)
				if name == "some" { // with the nine that were deleted there are eleven
					w.wantHeld(idsOf(17, 19)...)
					w.put(row{ID: "other", Want: 1})
					w.pass(time.Minute)
					w.delete("other")
					w.pass(time.Minute)
					w.wantHeld(append(idsOf(17, 19), "other")...)
					w.put(row{ID: "other", Want: 1})
					w.pass(time.Minute)
					w.wantHeld(idsOf(17, 19)...)
					w.put(numbered(18, 1)...)
					w.pass(time.Minute)
				}
				w.wantHeld()
				w.equal("remembered", (*reconciler.HeldDeletes)(nil), m.held)
				w.delete("10025")
				w.pass(time.Second)
				w.wantConverged()
			})
		})
	}
}

// A document is broken, so that rows may be missing and what is not declared is not known to be an orphan.
func TestWhatIsHeldIsHeldAgainAfterASourceWasIncomplete(t *testing.T) {
	withHeld(t, func(w *world, m *heldMemory) {
		source := w.source("files")
		w.update(source.Initialized)
		w.stop()
		w.start()
		w.pass(time.Minute)
		w.wantHeld(idsOf(9, 19)...)
		w.target.log()
		w.update(func(txn *statedb.WriteTxn) error { return source.Incomplete(txn, "broken") })
		w.fullPass()
		w.pass(time.Hour)
		w.equal("remembered", &reconciler.HeldDeletes{Done: 9, Allowed: 10}, m.held)
		// Another one is removed and approved: that does not say anything about those that nobody sees.
		w.delete("10025")
		w.pass(time.Second)
		w.approve()
		w.equal("deleted", []string{"10025"}, w.deleted())
		w.update(source.Complete)
		w.pass(time.Hour)
		w.equal("deleted", []string(nil), w.deleted())
		w.wantHeld(idsOf(9, 19)...)
		w.approve()
		w.wantConverged()
		w.equal("remembered", (*reconciler.HeldDeletes)(nil), m.held)
	})
}

func TestForgettingSomeDeletesReleasesNoOthers(t *testing.T) {
	m := &heldMemory{}
	set := func(w *world) { w.params = func(p *reconciler.Params[row]) { p.Memory = m } }
	prepared(t, set, func(_ *testing.T, w *world) {
		w.put(numbered(30, 1)...)
		w.delete(idsOf(0, 12)...)
		w.pass(time.Second)
		w.target.log()
		for _, id := range idsOf(0, 5) {
			w.check(w.r.Forget(w.t.Context(), id))
		}
		w.pass(time.Minute)
		w.equal("deleted", []string(nil), w.deleted())
		w.wantHeld(idsOf(5, 12)...)
		w.equal("remembered", &reconciler.HeldDeletes{Done: 5, Allowed: 10}, m.held)
		for _, id := range idsOf(5, 12) {
			w.check(w.r.Forget(w.t.Context(), id))
		}
		w.pass(time.Second)
		w.wantHeld()
		w.equal("deleted", []string(nil), w.deleted())
		w.equal("remembered", (*reconciler.HeldDeletes)(nil), m.held)
	})
}

func TestAMemoryOfHeldDeletesThatFailsIsReported(t *testing.T) {
	var log bytes.Buffer
	m := &heldMemory{err: errors.New("disk full")}
	set := func(w *world) {
		w.params = func(p *reconciler.Params[row]) {
			p.Memory, p.Logger = m, slog.New(slog.NewTextHandler(&log, nil))
		}
	}
	prepared(t, set, func(_ *testing.T, w *world) {
		w.put(numbered(30, 1)...)
		w.delete(idsOf(0, 20)...)
		w.pass(time.Second)
		w.wantHeld(idsOf(0, 20)...)
		const limit = "deletes of more than 10 rows and 30 % of the table within 1m0s: look at the plan and approve it"
		w.equal("health", "degraded: deletes held: 20, held deletes cannot be stored: "+limit+"; a restart would forget whether deletes are held: disk full", w.health.last())
		m.fails(nil)
		w.pass(10 * time.Second)
		w.equal("health", "degraded: deletes held: 20: "+limit, w.health.last())
		w.equal("remembered", &reconciler.HeldDeletes{Done: 0, Allowed: 10}, m.held)
	})
	if !strings.Contains(log.String(), "cannot remember whether deletes are held") || !strings.Contains(log.String(), "disk full") {
		t.Errorf("log: %s", &log)
	}
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
