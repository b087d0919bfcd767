package reconciler

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/engine"
	"github.com/statehive/statehive/statedb"
)

// Target brings rows about in the outside world.
//
// The row of an operation is the newest one, and txn the snapshot it is from: what a row was
// in between may never be seen. No two operations on one row run at a time. ctx ends when an
// operation has taken too long or the reconciler stops. Errors are retried with backoff, unless
// wrapped by [Terminal] or [RetryAfter], and a panic counts as an error. So any operation may
// come again, with the same row or a newer one, also after a crash halfway.
//
// These are the rules that a target keeps, each of which package reconciler/targettest checks
// of any target. Those about Observe, Diff, batches and Prune are for targets that have them:
//
//   - Deleting what is absent succeeds: also for a row that was never applied.
//   - Update brings a row about and says so: Changed is true, and Again is not negative.
//   - Delete removes it.
//   - Deleting again succeeds.
//   - Update again changes nothing: Changed is false.
//   - Init may be repeated: it leaves what is there as it is.
//   - Observe yields what is there once: all that is ours, and nothing else.
//   - Observe may be left early.
//   - What observe yields can be deleted: with that row alone, whatever it lacks.
//   - Diff writes nothing.
//   - Diff says what update would change: with the field and two values that differ, and no
//     change when the row is in sync.
//   - Delete removes what an older row made: the row it gets may never have been applied.
//   - A changed row is brought about: from each row with a key to each other.
//   - Prune removes what is not desired: also what an earlier process made, and returns how
//     many things that were.
//   - An ended context stops operations: Init, Update and Delete return an error soon, and
//     have no effect. Diff and Observe return an error or what is so.
//   - An ended context stops prune: in the same way.
//   - Observe that is interrupted says so: unless the listing is whole, it yields an error.
//   - An interrupted operation can be repeated: whatever was done of it, the next Update
//     or Delete does the rest.
//   - The end of a context is no terminal error.
//   - A new process finds what the last one made: it is in sync, observed, and can be deleted.
//   - An interrupted init can be repeated: by the same process and by the next one.
//   - An interrupted prune can be repeated: by the next process.
//   - A crash inside an operation loses nothing: a new process goes on where that one died.
//   - What is removed behind its back is made again.
//   - What is changed behind its back is repaired.
//   - What is removed during an operation is made by the next.
//   - Different keys do not disturb each other: operations on them run at the same time,
//     and Observe beside them.
//   - What others made stays and is not observed: Init, Update, Delete and Prune leave it alone.
//   - A row that cannot be is refused for good: Update returns a [Terminal] error and Diff an
//     error; there is nothing to delete.
//   - A batch brings each of its rows about: it returns an outcome of each, in their order.
//   - A batch of deletes removes each of its rows: likewise, also where some are absent.
//   - An ended context stops a batch: each of its rows fails, and nothing is done.
//   - An interrupted batch can be repeated: a row whose outcome is no error is done.
//   - A crash inside a batch loses nothing.
//   - A batch does not keep its slice: it may be used for something else afterwards.
//   - A row that cannot be fails alone in its batch.
//   - A batch of diffs says what diff says of each row.
type Target[Obj any] interface {
	// Init prepares the target. It is called before any other operation and
	// repeated with backoff until it succeeds. [NoInit] is for targets that have
	// nothing to prepare.
	Init(ctx context.Context) error
	// Update makes the outside world be what obj says.
	Update(ctx context.Context, txn statedb.ReadTxn, obj Obj) (Result, error)
	// Delete removes what obj stands for. obj is the last row the table had, or one
	// that Observe returned.
	Delete(ctx context.Context, txn statedb.ReadTxn, obj Obj) error
	// Prune removes everything of ours that is not in desired and returns how
	// many things that were. It is not called when the target implements
	// [Observer], for which there is [NoPrune].
	Prune(ctx context.Context, txn statedb.ReadTxn, desired iter.Seq2[Obj, statedb.Revision]) (pruned int, err error)
}

// NoInit is for targets that have nothing to prepare, which embed it.
type NoInit struct{}

// Init returns the error of ctx.
func (NoInit) Init(ctx context.Context) error { return ctx.Err() }

// NoPrune is for targets that are observers, which embed it: they are not pruned. [New]
// refuses it in a target that is no [Observer], because nothing would remove orphans.
type NoPrune[Obj any] struct{}

// Prune returns [errors.ErrUnsupported].
func (NoPrune[Obj]) Prune(context.Context, statedb.ReadTxn, iter.Seq2[Obj, statedb.Revision]) (pruned int, err error) {
	return 0, errors.ErrUnsupported
}

func (NoPrune[Obj]) neverPruned() {}

// checkOrphans refuses a target that can neither list what there is nor prune it.
func checkOrphans[Obj any](target Target[Obj]) error {
	_, neverPruned := target.(interface{ neverPruned() })
	if _, observes := target.(Observer[Obj]); neverPruned && !observes {
		return fmt.Errorf("Params.Target is %T, which has NoPrune and no Observe: it must have one of Prune and Observe, or what no row wants would stay for ever", target)
	}
	return nil
}

// Observer is a [Target] that can list what is there. The reconciler then finds
// orphans itself and removes them through Delete.
type Observer[Obj any] interface {
	// Observe yields everything that is there and ours, without a write. It may be called
	// at any time, also before Init. Because of a listing with an error nothing is removed.
	Observe(ctx context.Context) iter.Seq2[Obj, error]
}

// Differ is a [Target] that can say what Update would change, without a write. Its methods
// may be called at any time: also before Init, and beside an Update of the same row, of which
// they see something or nothing. The row need not be in a table.
type Differ[Obj any] interface {
	// Diff returns what differs, and nothing when obj is in sync. Of what is absent as a
	// whole, and would be made, Change.Is is empty throughout. The error is that which Update
	// would return, as far as that can be told.
	Diff(ctx context.Context, txn statedb.ReadTxn, obj Obj) ([]Change, error)
}

// BatchDiffer is a [Differ] that can compare many rows in one go, which costs less than one
// by one. Without it each row is compared by itself.
type BatchDiffer[Obj any] interface {
	Differ[Obj]
	// DiffBatch is Diff of each row, in their order.
	DiffBatch(ctx context.Context, txn statedb.ReadTxn, objs []Obj) []DiffResult
}

// DiffResult is the outcome of one row of DiffBatch.
type DiffResult struct {
	Changes []Change
	Err     error
}

// BatchTarget is a [Target] that can work on several rows in one go, such as in
// one request to the kernel. The methods get rows of one kind of operation, each
// once; ctx ends when the whole has taken too long. A row that failed is tried
// again by itself, through Update or Delete: so one row that makes the rest fail,
// as by a panic, is found and fails alone. So are all rows of a batch that does not
// return as many outcomes as there are rows.
type BatchTarget[Obj any] interface {
	Target[Obj]
	// UpdateBatch is Update of each row.
	UpdateBatch(ctx context.Context, txn statedb.ReadTxn, objs []Obj) []BatchResult
	// DeleteBatch is Delete of each row: nil where it succeeded.
	DeleteBatch(ctx context.Context, txn statedb.ReadTxn, objs []Obj) []error
}

// BatchResult is the outcome of one row of UpdateBatch.
type BatchResult = engine.BatchResult

// Change is a field whose observed value differs from the desired one.
type Change = engine.Change

// Result is the outcome of a successful Update. The zero value is "done".
type Result = engine.Result

// untyped returns what the engine calls of a target and of the status of its rows.
func untyped[Obj any](table *statedb.RWTable[Obj], target Target[Obj], field StatusField[Obj]) engine.Target {
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
