package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// unreadable is an error that panics when it is nil.
type unreadable struct{ text string }

func (e *unreadable) Error() string { return e.text }

// A nil pointer that is returned as an error is not nil: a common mistake.
func TestErrorsThatPanicAreErrorsOfTheirRows(t *testing.T) {
	for _, op := range []string{"init", "update", "delete", "observe"} {
		t.Run(op, func(t *testing.T) {
			prepared(t, func(w *world) {
				w.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
					if c.op == op {
						return reconciler.Result{}, (*unreadable)(nil)
					}
					return reconciler.Result{}, nil
				})
			}, func(t *testing.T, w *world) {
				w.put(row{ID: "a", Want: 1})
				w.delete("a")
				w.put(row{ID: "b", Want: 1})
				w.pass(3 * time.Second)
				const want = "the target returned an error of type *reconciler_test.unreadable whose Error method panics: panic: "
				if last := w.health.last(); !strings.Contains(last, want) {
					t.Errorf("health: %s", last)
				}
				var panicked *reconciler.PanicError
				if err := w.health.err(); !errors.As(err, &panicked) || len(panicked.Stack) == 0 {
					t.Errorf("%v does not say where", err)
				}
				w.target.will(nil)
				w.pass(time.Hour)
				w.wantConverged()
			})
		})
	}
}

// nilObserver yields a row that is a nil pointer.
type nilObserver struct{ noTarget }

func (nilObserver) Observe(context.Context) iter.Seq2[*pointerRow, error] {
	return func(yield func(*pointerRow, error) bool) { yield(nil, nil) }
}

func TestObservedNilRowIsAnErrorOfTheTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, log := statedb.New(), &healthLog{}
		table := must(statedb.NewTable(db, reconciler.Reconciled(statedb.Schema[*pointerRow]{
			Name: "pointers", Primary: statedb.NewIndex("id", func(r *pointerRow) string { return r.id }),
		})))
		r := must(reconciler.New(reconciler.Params[*pointerRow]{DB: db, Table: table, Target: nilObserver{}, Health: log}))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(5 * time.Second)
		if last := log.last(); !strings.HasPrefix(last, "degraded: orphans cannot be found: panic: ") {
			t.Error(last)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// The deciding goroutine waits for the lock that an operation holds, and the
// operation for its deadline, which somebody has to look after meanwhile.
func TestDeadlinesHoldWhileAnOperationHoldsTheTable(t *testing.T) {
	prepared(t, func(w *world) {
		w.config.Workers = 2
		w.config.OperationTimeout = 3 * time.Second
	}, func(t *testing.T, w *world) {
		w.target.will(func(ctx context.Context, c call) (reconciler.Result, error) {
			if c.id == "holds" {
				return reconciler.Result{}, w.db.Update(ctx, func(*statedb.WriteTxn) error {
					<-ctx.Done()
					return ctx.Err()
				}, w.table)
			}
			take(time.Millisecond)
			return reconciler.Result{}, nil
		})
		w.put(row{ID: "holds", Want: 1}, row{ID: "other", Want: 1})
		w.pass(4 * time.Second)
		w.wantStatus("other", "done")
		w.wantStatus("holds", "error: took longer than 3s: context deadline exceeded")
		w.target.will(nil)
		w.pass(time.Minute)
		w.wantConverged()
	})
}

func TestOriginThatPanicsIsNotKnown(t *testing.T) {
	prepared(t, func(w *world) {
		w.origin = func(string, string) string { panic("broken") }
	}, func(t *testing.T, w *world) {
		w.put(row{ID: "a", Want: 1})
		e, err := w.r.Explain(t.Context(), "a")
		w.check(err)
		w.equal("origin", "unknown: panic: broken", e.Origin)
	})
}

// A reconciler that stops before it began is no member of its group any more.
func TestGroupForgetsReconcilersThatNeverBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, group := statedb.New(), &reconciler.Group{}
		a := must(statedb.NewTable(db, rowSchema()))
		schema := rowSchema()
		schema.Name = "others"
		b := must(statedb.NewTable(db, schema))
		dependsOn := func(on *statedb.Table[row]) []reconciler.Dependency[row] {
			return []reconciler.Dependency[row]{reconciler.DependsOn(on, row.GetStatus, func(r row) iter.Seq[statedb.Query[row]] {
				return func(yield func(statedb.Query[row]) bool) { yield(byID.Query(r.ID)) }
			})}
		}
		if err := db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
			_, err := a.RegisterSource(txn, "late")
			return err
		}, a); err != nil {
			t.Fatal(err)
		}
		first := must(reconciler.New(reconciler.Params[row]{DB: db, Table: a, Target: newFake(), Group: group, DependsOn: dependsOn(statedb.ReadOnly(b))}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := first.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := reconciler.New(reconciler.Params[row]{DB: db, Table: b, Target: newFake(), Group: group, DependsOn: dependsOn(statedb.ReadOnly(a))}); err != nil {
			t.Error(err)
		}
	})
}

// A full pass must not make an item of every row at once: they take memory, and
// changes wait until that is done.
func TestFullPassMakesASliceOfRowsReadyAtATime(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		rows := make([]row, 0, 1000)
		for i := range 1000 {
			rows = append(rows, row{ID: fmt.Sprintf("%04d", i), Want: 1})
		}
		w.put(rows...)
		most := 0
		w.target.will(func(context.Context, call) (reconciler.Result, error) {
			take(time.Millisecond)
			return reconciler.Result{}, nil
		})
		w.r.FullPass()
		for range 100 {
			w.pass(10 * time.Millisecond)
			most = max(most, len(w.r.Items()))
		}
		w.pass(time.Minute)
		if most == 0 || most > 128 {
			t.Errorf("%d rows were ready at a time, want a slice and what of the one before waits for its commit", most)
		}
		w.wantConverged()
	})
}
