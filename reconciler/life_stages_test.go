package reconciler_test

import (
	"context"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// stageWay is how the row "a" comes to a stage, as an update or as a delete.
type stageWay struct {
	prepare func(*world)
	reach   func(w *world, gone bool)
}

// failingWith brings "a" to a stage by an error.
func failingWith(err error) func(*world, bool) {
	return func(w *world, gone bool) {
		if gone {
			w.putFirst()
		}
		w.target.will(outcomes(err))
		w.change(gone)
	}
}

// putFirst has "a" applied.
func (w *world) putFirst() {
	w.put(row{ID: "a", Want: 1})
	w.pass(2 * w.config.Debounce)
}

// change makes the change whose operation a test is about.
func (w *world) change(gone bool) {
	if gone {
		w.delete("a")
	} else {
		w.put(row{ID: "a", Want: 2})
	}
}

// behindAnother is a change of "a" that a row which takes an hour is before.
func behindAnother(w *world) {
	w.target.will(slowly("0"))
	w.put(row{ID: "0"}, row{ID: "a"})
}

func anHour(w *world) { w.config.OperationTimeout = 2 * time.Hour }

var stageWays = map[string]stageWay{
	"rest":  {reach: func(w *world, _ bool) { w.putFirst() }},
	"round": {prepare: anHour, reach: func(w *world, _ bool) { behindAnother(w) }},
	"queued": {prepare: anHour, reach: func(w *world, _ bool) {
		behindAnother(w)
		w.pass(time.Second)
	}},
	"running": {prepare: anHour, reach: func(w *world, gone bool) {
		w.target.will(slowly("a"))
		w.change(gone)
		w.pass(time.Second)
	}},
	"stuck": {prepare: hurried(1), reach: func(w *world, gone bool) {
		w.target.will(slowly("a"))
		w.change(gone)
		w.pass(3 * time.Second)
	}},
	"committing": {prepare: func(w *world) {
		anHour(w)
		w.config.Workers, w.config.Debounce = 2, time.Millisecond
	}, reach: func(w *world, gone bool) {
		w.target.will(slowly("0"))
		w.put(row{ID: "0"})
		w.pass(time.Second)
		w.change(gone)
		w.pass(w.config.Debounce)
	}},
	"backoff":  {reach: failingWith(reconciler.RetryAfter(time.Hour, errBoom))},
	"terminal": {reach: failingWith(reconciler.Terminal(errBoom))},
	"again": {reach: func(w *world, gone bool) {
		w.target.will(outcomes(reconciler.Result{Again: time.Hour}))
		w.change(gone)
	}},
	"refresh": {prepare: func(w *world) { w.params = hourly }, reach: func(w *world, _ bool) { w.putFirst() }},
	"debounce": {prepare: func(w *world) { w.config.Debounce = time.Minute }, reach: func(w *world, gone bool) {
		if gone {
			w.putFirst()
		}
		w.change(gone)
	}},
	"unread": {prepare: func(w *world) {
		anHour(w)
		w.config.Workers, w.config.Limits.RoundSize = 2, 1
	}, reach: func(w *world, _ bool) {
		w.target.will(outcomes(reconciler.RetryAfter(time.Second, errBoom)))
		w.change(false)
		w.pass(time.Second - 5*time.Millisecond)
		w.target.will(slowly("0"))
		w.update(func(txn *statedb.WriteTxn) error {
			_, _, err := w.table.Insert(txn, row{ID: "0"})
			if err == nil {
				_, _, err = w.table.Delete(txn, row{ID: "a"})
			}
			return err
		})
		w.pass(5 * time.Millisecond) // the round of 0 is under way, and nothing else is read
	}},
	"paused": {reach: func(w *world, gone bool) {
		w.putFirst()
		w.check(w.r.Pause(w.t.Context(), reconciler.Selector[row]{}, time.Time{}))
		w.change(gone)
	}},
	"limit": {prepare: func(w *world) { w.config.DeleteLimit.Rows = 1 }, reach: func(w *world, _ bool) {
		w.put(row{ID: "a"}, row{ID: "b"}, row{ID: "c"})
		w.pass(2 * w.config.Debounce)
		w.delete("a", "b", "c")
		w.pass(2 * w.config.Debounce)
	}},
	"dependency": {prepare: func(w *world) { w.others = newDependents(w) }, reach: func(w *world, gone bool) {
		w.others.put(row{ID: "x"})
		w.change(gone)
		w.pass(2 * w.config.Debounce)
	}},
	"settle": {prepare: func(w *world) {
		withSightings(w)
		w.config.Drift.Settle = time.Hour
	}, reach: func(w *world, _ bool) {
		w.putFirst()
		w.sights.see(sighting{"a", 7})
	}},
	"drift": {prepare: func(w *world) {
		withSightings(w)
		w.config.Drift.Policy = reconciler.DriftReport
	}, reach: func(w *world, _ bool) {
		w.putFirst()
		w.sights.see(sighting{"a", 1})
		w.pass(time.Minute)
		w.sights.see(sighting{"a", 7})
	}},
	"order": {prepare: func(w *world) {
		w.others = newDependents(w)
		w.others.after = true
	}, reach: func(w *world, _ bool) {
		w.putFirst()
		w.others.start()
		w.others.put(row{ID: "x"})
		w.others.target.will(func(context.Context, call) (reconciler.Result, error) {
			return reconciler.Result{}, reconciler.RetryAfter(time.Hour, errBoom)
		})
		w.others.delete("x")
		w.delete("a")
		w.pass(2 * w.config.Debounce)
	}},
}

// at runs a test in a world in which the row "a" is at a stage; gone: it is to be
// deleted.
func at(t *testing.T, stage string, gone bool, tune func(*world), test func(t *testing.T, w *world)) {
	t.Helper()
	way := stageWays[stage]
	if way.reach == nil {
		t.Errorf("stage %s: nobody knows how to come there", stage)
		return
	}
	prepared(t, func(w *world) {
		if way.prepare != nil {
			way.prepare(w)
		}
		tune(w)
	}, func(t *testing.T, w *world) {
		way.reach(w, gone)
		w.equal("stage", stage, w.r.Stage(byID.Query("a").Encoded()))
		test(t, w)
		w.target.will(nil)
		w.pass(3 * time.Hour)
		if w.others != nil {
			w.others.stop()
		}
	})
}

// newDependents is a world around another table in the same database: rows of w
// depend on its rows, or they on those of w if after is set before the start.
func newDependents(w *world) *world {
	other := *w
	o := &other
	schema := rowSchema()
	schema.Name = "others"
	o.table = must(statedb.NewTable(w.db, schema))
	o.target, o.health, o.made = newFake(), &healthLog{}, nil
	o.target.promise = o.promise
	group := &reconciler.Group{}
	dependsOn := func(table *statedb.Table[row], id string) []reconciler.Dependency[row] {
		return []reconciler.Dependency[row]{reconciler.DependsOn(table, row.GetStatus, func(row) iter.Seq[statedb.Query[row]] {
			return slices.Values([]statedb.Query[row]{byID.Query(id)})
		})}
	}
	w.params = func(p *reconciler.Params[row]) {
		p.Group = group
		if !o.after {
			p.DependsOn = dependsOn(statedb.ReadOnly(o.rows()), "x")
		}
	}
	o.params = func(p *reconciler.Params[row]) {
		p.Group, p.DependsOn = group, dependsOn(statedb.ReadOnly(w.rows()), "a")
	}
	return o
}

// endHolds ends what holds "a" because of other rows.
func (w *world) endHolds() {
	if w.others.after {
		w.others.target.will(nil)
		_, err := w.others.r.Trigger(w.t.Context(), reconciler.Selector[row]{})
		w.check(err)
	} else {
		w.others.delete("x")
	}
}

// looks describes the state of "a": its status, its not-done row, and its explanation.
func (w *world) looks() []string {
	looks := []string{"gone", "–", "–"}
	if r, _, found := w.table.Get(w.db.ReadTxn(), byID.Query("a")); found {
		looks[0] = r.Status.Kind().String()
	}
	for _, r := range w.notDoneRows() {
		if r.Key == "a" {
			looks[1] = r.State
		}
	}
	if e, err := w.r.Explain(w.t.Context(), "a"); err == nil {
		looks[2] = e.WaitsFor[0].Cause
	}
	return looks
}
