package reconciler_test

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// voids are the ways in which deletes that are held come to nothing, while
// nothing else is there to do.
func voids() map[string]func(w *world, ids []string) {
	back := func(w *world, ids []string) { w.put(numbered(len(ids), 1)...) }
	return map[string]func(*world, []string){
		"the rows are back, and applying them takes long": func(w *world, ids []string) {
			w.target.will(lasting(time.Hour))
			back(w, ids)
		},
		"the rows are back one by one": func(w *world, ids []string) {
			w.target.will(lasting(time.Second))
			for _, r := range numbered(len(ids), 1) {
				w.put(r)
				w.pass(100 * time.Millisecond)
			}
		},
		"the rows are back, and paused": func(w *world, ids []string) {
			w.pause(reconciler.Selector[row]{}, time.Time{})
			back(w, ids)
		},
		"the rows are back, and the rate is low": func(w *world, ids []string) {
			w.check(w.r.SetLimits(reconciler.Limits{Limiter: rate.NewLimiter(rate.Every(time.Hour), 1)}))
			back(w, ids)
		},
		"the rows are back, and a source is not initialized": func(w *world, ids []string) {
			late := w.source("late")
			back(w, ids)
			w.target.will(lasting(time.Hour))
			w.update(late.Initialized)
			w.pass(0)
		},
		"the deletes are forgotten": func(w *world, ids []string) {
			w.target.will(lasting(time.Hour)) // the last ones are within the limit
			for _, id := range ids {
				w.check(w.r.Forget(w.t.Context(), id))
			}
		},
		"some deletes are forgotten, and the others approved": func(w *world, ids []string) {
			w.target.will(lasting(time.Hour))
			for _, id := range ids[:15] {
				w.check(w.r.Forget(w.t.Context(), id))
			}
			w.equal("held", 5, w.plan().Deletes)
			w.approve()
		},
		"the rows are back, and then deleted one by one": func(w *world, ids []string) {
			back(w, ids)
			for _, id := range ids[:5] {
				w.delete(id)
				w.pass(2 * time.Minute)
			}
			w.target.will(lasting(time.Hour))
			w.delete(ids[5])
		},
	}
}

func TestHealthForgetsHeldDeletesThatAreVoid(t *testing.T) {
	for name, void := range voids() {
		t.Run(name, func(t *testing.T) {
			prepared(t, func(w *world) { w.config.OperationTimeout = 2 * time.Hour }, func(t *testing.T, w *world) {
				w.put(numbered(30, 1)...)
				ids := idsOf(0, 20)
				w.delete(ids...)
				w.equal("held", 20, w.plan().Deletes)
				void(w, ids)
				w.equal("plan", reconciler.Plan{}, w.plan())
				if got := w.health.last(); !strings.HasPrefix(got, "ok: ") {
					t.Errorf("health is %q, although nothing is held", got)
				}
				w.equal("held rows", 0, w.r.Stats().Held["limit"])
				w.target.will(nil)
				w.check(w.r.SetLimits(reconciler.Limits{}))
				w.resume(reconciler.Selector[row]{})
				w.pass(3 * time.Hour)
				w.equal("health at the end", "ok: reconciled", w.health.last())
			})
		})
	}
}

// Who reads that a delete is to be approved must not be misled: the row is there.
func TestNotDoneForgetsHeldDeletesThatAreVoid(t *testing.T) {
	prepared(t, func(w *world) { w.config.OperationTimeout = 2 * time.Hour }, func(t *testing.T, w *world) {
		w.put(numbered(30, 1)...)
		w.delete(idsOf(0, 20)...)
		w.pass(2 * time.Second)
		w.equal("held", 20, len(w.notDoneRows()))
		w.target.will(lasting(time.Hour))
		w.put(numbered(20, 1)...)
		w.pass(2 * time.Second) // each key is written once a second
		for _, n := range w.notDoneRows() {
			if n.Operation == "delete" || n.State == "held" {
				t.Errorf("not done: %+v, although the row is there", n)
			}
		}
		w.target.will(nil)
		w.pass(3 * time.Hour)
		w.wantConverged()
	})
}

// The held deletes of orphans are void once the orphans are rows.
func TestHealthForgetsHeldOrphansThatHaveBecomeRows(t *testing.T) {
	prepared(t, func(w *world) {
		w.config.OperationTimeout = 2 * time.Hour
		for _, r := range numbered(20, 1) {
			w.target.is[r.ID] = 1
		}
		w.target.promise = func(call, statedb.ReadTxn, row) string { return "" }
	}, func(t *testing.T, w *world) {
		w.pass(time.Second)
		w.equal("held", 20, w.plan().Deletes)
		w.target.will(lasting(time.Hour))
		w.put(numbered(20, 1)...)
		w.pass(time.Second)
		w.equal("plan", reconciler.Plan{}, w.plan())
		if got := w.health.last(); !strings.HasPrefix(got, "ok: ") {
			t.Errorf("health is %q, although nothing is held", got)
		}
		w.target.will(nil)
		w.pass(3 * time.Hour)
		w.wantConverged()
	})
}
