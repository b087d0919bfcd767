package reconciler_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

func (w *world) drop(table statedb.TableMeta) {
	w.t.Helper()
	if err := w.db.Drop(context.Background(), table); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// wantDropped checks that Run has ended because there is no table any more.
func (w *world) wantDropped() {
	w.t.Helper()
	select {
	case err := <-w.ended:
		w.ended = nil
		if !errors.Is(err, statedb.ErrDropped) {
			w.t.Errorf("Run: %v, want that the table was dropped", err)
		}
	default:
		w.t.Error("Run goes on without a table")
	}
}

// That a table is gone does not mean that none of its rows is wanted.
func TestDroppedTableRemovesNothing(t *testing.T) {
	tests := map[string]struct {
		prepare func(*world)
		during  func(*world)
	}{
		"at rest":              {func(*world) {}, func(*world) {}},
		"before the start":     {func(w *world) { w.drop(w.table) }, func(*world) {}},
		"waiting for a source": {func(w *world) { w.source("late") }, func(*world) {}},
		"prunes":               {func(w *world) { w.prunes = true }, func(*world) {}},
		"a failing row": {func(w *world) {
			w.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
				if c.op != "update" {
					return reconciler.Result{}, nil
				}
				return reconciler.Result{}, errors.New("down")
			})
		}, func(*world) {}},
		"a target that is not ready": {func(w *world) {
			w.target.will(func(context.Context, call) (reconciler.Result, error) {
				return reconciler.Result{}, errors.New("down")
			})
		}, func(*world) {}},
		"while it is asked for what is there": {func(w *world) { w.target.answer = time.Minute }, func(w *world) {
			w.r.FullPass()
			w.pass(time.Second)
		}},
		"while an operation runs": {func(*world) {}, func(w *world) {
			w.target.will(func(context.Context, call) (reconciler.Result, error) {
				take(time.Second)
				return reconciler.Result{}, nil
			})
			w.put(row{ID: "a", Want: 2})
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.config.FullInterval = time.Hour
				w.target.corrupt("a", 0)
				if name != "before the start" {
					w.write(row{ID: "a"}, row{ID: "b"})
				}
				test.prepare(w)
				w.start()
				w.pass(2 * time.Minute)
				test.during(w)
				row := w.askRow("a")
				whole := w.askTable()
				if name != "before the start" {
					w.drop(w.table)
				}
				w.pass(3 * time.Hour)
				for _, c := range w.target.took() {
					if c.op == "delete" {
						t.Errorf("%v because the table was dropped", c)
					}
				}
				if _, there := w.target.state()["a"]; !there {
					t.Error("row a is gone from the target")
				}
				w.wantDropped()
				w.equal("health", "stopped: reconciler rows stopped: table rows: table was dropped", w.health.last())
				for _, a := range []*asked{row, whole} {
					if got := a.String(); got == "waiting" {
						t.Errorf("a waiter is not answered")
					}
				}
			})
		})
	}
}

// What cannot be told in the not-done table must not keep statuses from being written.
func TestStatusesAreWrittenWithoutTheNotDoneTable(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.drop(w.notDone)
		w.target.will(failing("bad"))
		w.target.log()
		w.put(row{ID: "a", Want: 1}, row{ID: "bad", Want: 1})
		w.wantStatus("a", "done")
		w.wantStatus("bad", "error: boom")
		w.pass(10 * time.Second)
		w.equal("updates of a", 1, count(w.target.took(), call{op: "update", id: "a", want: 1}))
		w.equal("health", "degraded: rows in error: 1, the not-done table cannot be written: "+
			"update bad: boom; table not-done: table was dropped", w.health.last())
	})
}

// parent is a row of a table that rows depend on.
type parent struct {
	ID     string
	Status reconciler.Status
}

var parentByID = statedb.NewIndex("id", func(p parent) string { return p.ID })

// family is a world whose rows depend on the parents that on names.
func family(t *testing.T, on func(row) iter.Seq[statedb.Query[parent]], status func(parent) reconciler.Status,
	test func(w *world, parents *statedb.RWTable[parent]),
) {
	t.Helper()
	var parents *statedb.RWTable[parent]
	prepared(t, func(w *world) {
		parents = must(statedb.NewTable(w.db, statedb.Schema[parent]{Name: "parents", Primary: parentByID}))
		w.check(w.db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
			_, _, err := parents.Insert(txn, parent{ID: "p"})
			return err
		}, parents))
		w.params = func(p *reconciler.Params[row]) {
			p.DependsOn = []reconciler.Dependency[row]{reconciler.DependsOn(statedb.ReadOnly(parents), status, on)}
		}
	}, func(_ *testing.T, w *world) {
		w.target.log()
		test(w, parents)
	})
}

func parentStatus(p parent) reconciler.Status { return p.Status }

func onP(row) iter.Seq[statedb.Query[parent]] {
	return slices.Values([]statedb.Query[parent]{parentByID.Query("p")})
}

func TestRowsWaitForADroppedTableAndSaySo(t *testing.T) {
	family(t, onP, parentStatus, func(w *world, parents *statedb.RWTable[parent]) {
		w.put(row{ID: "a", Want: 1})
		w.equal("waits for", "dependency: parents p, which is pending", w.notDoneRows()[0].WaitsFor)
		w.drop(parents)
		w.pass(time.Minute)
		w.equal("waits for", "dependency: table parents, which was dropped", w.notDoneRows()[0].WaitsFor)
		w.wantLog()
	})
}

func TestRowsWhoseDependenciesAreNotKnownWait(t *testing.T) {
	for name, test := range map[string]struct {
		on     func(row) iter.Seq[statedb.Query[parent]]
		status func(parent) reconciler.Status
		want   string
	}{
		"no index": {
			func(row) iter.Seq[statedb.Query[parent]] { return slices.Values(make([]statedb.Query[parent], 1)) }, parentStatus,
			`dependency: unknown rows of table parents: table parents: no such index ""; there are: id`,
		},
		"status panics": {
			onP, func(parent) reconciler.Status { panic("broken") },
			"dependency: parents p, which has an unknown status: panic: broken",
		},
	} {
		t.Run(name, func(t *testing.T) {
			family(t, test.on, test.status, func(w *world, _ *statedb.RWTable[parent]) {
				w.put(row{ID: "a", Want: 1})
				w.wantLog()
				w.equal("waits for", test.want, w.notDoneRows()[0].WaitsFor)
			})
		})
	}
}
