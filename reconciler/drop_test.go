package reconciler_test

import (
	"context"
	"errors"
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
						t.Errorf("whoever waits is not answered")
					}
				}
			})
		})
	}
}
