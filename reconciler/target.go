package reconciler

import (
	"context"
	"iter"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/engine"
	"github.com/statehive/statehive/statedb"
)

// Target brings rows about in the outside world. All operations are idempotent:
// they may be repeated, with the same row or a newer one, also after a crash
// halfway. They are level-based: obj is the newest row, txn the snapshot it is
// from, and values in between may never be seen. A reconciler never runs two
// operations on one row at a time.
//
// ctx ends when the operation has taken too long or the reconciler stops;
// operations must then return soon. Errors are retried with backoff, unless
// wrapped by [Terminal] or [RetryAfter]. A panic counts as an error.
type Target[Obj any] interface {
	// Init prepares the target. It is called before any other operation and
	// repeated with backoff until it succeeds.
	Init(ctx context.Context) error
	// Update makes the outside world be what obj says.
	Update(ctx context.Context, txn statedb.ReadTxn, obj Obj) (Result, error)
	// Delete removes what obj stands for; its absence is a success. obj is the
	// last row the table had, or one that Observe returned.
	Delete(ctx context.Context, txn statedb.ReadTxn, obj Obj) error
	// Prune removes everything of ours that is not in desired and returns how
	// many things that were. It is not called when the target implements
	// [Observer].
	Prune(ctx context.Context, txn statedb.ReadTxn, desired iter.Seq2[Obj, statedb.Revision]) (pruned int, err error)
}

// Observer is a [Target] that can list what is there. The reconciler then finds
// the surplus by itself and removes it through Delete.
type Observer[Obj any] interface {
	// Observe yields everything that is there and ours. An error means that the
	// listing is not whole: nothing is removed because of it.
	Observe(ctx context.Context) iter.Seq2[Obj, error]
}

// Differ is a [Target] that can say what Update would change, without a write.
type Differ[Obj any] interface {
	// Diff returns no change when obj is in sync.
	Diff(ctx context.Context, txn statedb.ReadTxn, obj Obj) ([]Change, error)
}

// BatchTarget is a [Target] that can work on several rows in one go, such as in
// one request to the kernel. The methods get rows of one kind of operation, each
// once, and return an outcome for each, in their order; ctx ends when the whole has
// taken too long. A row that failed is tried again by itself, through Update or
// Delete: so one row that makes the rest fail, as by a panic, is found and fails
// alone. So are all rows of a batch that does not return as many outcomes as there
// are rows. objs are the target's only until it returns.
type BatchTarget[Obj any] interface {
	Target[Obj]
	// UpdateBatch is Update of each row.
	UpdateBatch(ctx context.Context, txn statedb.ReadTxn, objs []Obj) []BatchResult
	// DeleteBatch is Delete of each row: nil where it succeeded.
	DeleteBatch(ctx context.Context, txn statedb.ReadTxn, objs []Obj) []error
}

// BatchResult is the outcome of one row of UpdateBatch.
type BatchResult = engine.BatchResult

// Change is one field that differs between what is and what is wanted.
type Change = engine.Change

// Result is the outcome of a successful Update. The zero value is "done".
type Result = engine.Result

// untyped returns what the engine calls of a target and of the status of its rows.
func untyped[Obj any](table statedb.RWTable[Obj], target Target[Obj], field StatusField[Obj]) engine.Target {
	core := table.Untyped()
	calls := engine.Target{
		Init: target.Init,
		Update: func(ctx context.Context, txn statedb.ReadTxn, e *store.Entry) (Result, error) {
			return target.Update(ctx, txn, rowOf[Obj](e))
		},
		Delete: func(ctx context.Context, txn statedb.ReadTxn, e *store.Entry) error {
			return target.Delete(ctx, txn, rowOf[Obj](e))
		},
		Prune: func(ctx context.Context, txn statedb.ReadTxn) (int, error) {
			return target.Prune(ctx, txn, table.All(txn))
		},
	}
	if field.Get != nil && field.Set != nil {
		calls.Status = func(e *store.Entry) Status { return field.Get(rowOf[Obj](e)) }
		calls.SetStatus = func(txn *statedb.WriteTxn) engine.SetStatus {
			var row Obj
			var change func(Status) Status
			var set any = func(current Obj) Obj { return field.Set(current, change(field.Get(current))) }
			return func(e *store.Entry, next func(Status) Status) (bool, error) {
				change = next
				return core.AmendEntry(txn, e, pointerTo(&row), set)
			}
		}
	}
	if observer, ok := target.(Observer[Obj]); ok {
		calls.Observe = func(ctx context.Context) ([]*store.Entry, error) { return observe(ctx, core, observer) }
	}
	if differ, ok := target.(Differ[Obj]); ok {
		calls.Diff = func(ctx context.Context, txn statedb.ReadTxn, e *store.Entry) ([]Change, error) {
			return differ.Diff(ctx, txn, rowOf[Obj](e))
		}
	}
	if batches, ok := target.(BatchTarget[Obj]); ok {
		calls.UpdateBatch = func(ctx context.Context, txn statedb.ReadTxn, entries []*store.Entry) []BatchResult {
			return batches.UpdateBatch(ctx, txn, rowsOf[Obj](entries))
		}
		calls.DeleteBatch = func(ctx context.Context, txn statedb.ReadTxn, entries []*store.Entry) []error {
			return batches.DeleteBatch(ctx, txn, rowsOf[Obj](entries))
		}
	}
	return calls
}

// observe makes entries of what there is. A row without a key, as a nil pointer, panics: it
// is the target's mistake.
func observe[Obj any](ctx context.Context, table *store.Table, observer Observer[Obj]) (observed []*store.Entry, err error) {
	for row, err := range observer.Observe(ctx) {
		if err != nil {
			return observed, err
		}
		observed = append(observed, table.NewEntry(pointerTo(&row)))
	}
	return observed, nil
}
