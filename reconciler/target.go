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

// Target applies rows to the outside world, and removes what it has made.
//
// An operation is given the newest version of the row, and the snapshot txn that the row is
// from; intermediate versions may never be seen. Operations on the same row never overlap. ctx
// ends when an operation has taken too long or the reconciler stops. Errors are retried with
// backoff, unless wrapped by [Terminal] or [RetryAfter], and a panic counts as an error. So any
// operation may be repeated, with the same row or a newer one, even after a crash in the middle
// of it.
//
// A target keeps the following rules. Package reconciler/targettest checks them for any target.
// The rules about Observe, Diff, batches and Prune apply to targets that have these methods:
//
//   - Deleting what is absent succeeds: even for a row that was never applied.
//   - Update applies a row and reports a change: Changed is true, and Again is not negative.
//   - Delete removes the object.
//   - Deleting again succeeds.
//   - Update again changes nothing: Changed is false.
//   - Init may be repeated: it leaves existing objects as they are.
//   - Observe yields each object once: all that are ours, and nothing else.
//   - Observe may be stopped early.
//   - What observe yields can be deleted: the yielded row is enough, even if it lacks fields.
//   - Diff writes nothing.
//   - Diff reports what update would change: with the field and two values that differ, and no
//     change when the row is in sync.
//   - Delete removes what an older row made: the row it gets may never have been applied.
//   - A changed row is applied: from any row with a key to any other row with that key.
//   - Prune removes what is not desired: also what an earlier process made. It returns the
//     number of removed objects.
//   - An ended context stops operations: Init, Update and Delete return an error soon, and
//     have no effect. Diff and Observe return an error or the correct result.
//   - An ended context stops prune: in the same way.
//   - An interrupted observe yields an error: unless the listing is complete.
//   - An interrupted operation can be repeated: however much of it was done, the next Update
//     or Delete does the rest.
//   - The end of a context is not a terminal error.
//   - A new process finds what the last one made: it is in sync, observed, and can be deleted.
//   - An interrupted init can be repeated: by the same process and by the next one.
//   - An interrupted prune can be repeated: by the next process.
//   - A crash inside an operation loses nothing: a new process completes the operation.
//   - An object removed behind its back is made again.
//   - An object changed behind its back is repaired.
//   - An object removed during an operation is made by the next.
//   - Different keys do not disturb each other: operations on them run concurrently with each
//     other and with Observe.
//   - Foreign objects stay and are not observed: Init, Update, Delete and Prune leave objects
//     that others made alone.
//   - An invalid row gets a terminal error: Update returns a [Terminal] error and Diff an
//     error; there is nothing to delete.
//   - A batch applies each of its rows: it returns an outcome for each, in their order.
//   - A batch of deletes removes each of its rows: even if some of them are absent.
//   - An ended context stops a batch: each of its rows fails, and nothing is done.
//   - An interrupted batch can be repeated: a row whose outcome has no error is done.
//   - A crash inside a batch loses nothing.
//   - A batch does not keep its slice: the caller may reuse it afterwards.
//   - An invalid row fails alone in its batch.
//   - A batch of diffs agrees with diff: for each of its rows.
type Target[Obj any] interface {
	// Init prepares the target. It is called before any other operation and
	// repeated with backoff until it succeeds. [NoInit] is for targets that have
	// nothing to prepare.
	Init(ctx context.Context) error
	// Update makes the outside world match obj.
	Update(ctx context.Context, txn statedb.ReadTxn, obj Obj) (Result, error)
	// Delete removes the object that obj describes. obj is the last version of the row in
	// the table, or a row that Observe yielded.
	Delete(ctx context.Context, txn statedb.ReadTxn, obj Obj) error
	// Prune removes every object of ours that is not in desired and returns the number of
	// removed objects. It is not called if the target implements [Observer]; such a target
	// can embed [NoPrune].
	Prune(ctx context.Context, txn statedb.ReadTxn, desired iter.Seq2[Obj, statedb.Revision]) (pruned int, err error)
}

// NoInit is embedded by targets that have nothing to prepare.
type NoInit struct{}

// Init returns the error of ctx.
func (NoInit) Init(ctx context.Context) error { return ctx.Err() }

// NoPrune is embedded by targets that implement [Observer], which are never pruned. [New]
// refuses it in any other target, because nothing would remove orphans.
type NoPrune[Obj any] struct{}

// Prune returns [errors.ErrUnsupported].
func (NoPrune[Obj]) Prune(context.Context, statedb.ReadTxn, iter.Seq2[Obj, statedb.Revision]) (pruned int, err error) {
	return 0, errors.ErrUnsupported
}

func (NoPrune[Obj]) neverPruned() {}

// checkOrphans returns an error if a target can neither list its objects nor prune them.
func checkOrphans[Obj any](target Target[Obj]) error {
	_, neverPruned := target.(interface{ neverPruned() })
	if _, observes := target.(Observer[Obj]); neverPruned && !observes {
		return fmt.Errorf("Params.Target is %T, which embeds NoPrune and has no Observe: it must implement Prune or Observe, or orphans would never be removed", target)
	}
	return nil
}

// Observer is a [Target] that can list its objects. The reconciler then finds
// orphans itself and removes them through Delete.
type Observer[Obj any] interface {
	// Observe yields every existing object of ours and writes nothing. It may be called at any
	// time, even before Init. If it yields an error, no orphans are removed.
	Observe(ctx context.Context) iter.Seq2[Obj, error]
}

// Differ is a [Target] that can report what Update would change, without writing anything. Its
// methods may be called at any time, even before Init, and concurrently with an Update of the
// same row, whose effects they may or may not see. The row need not be in a table.
type Differ[Obj any] interface {
	// Diff returns what differs, or nothing if obj is in sync. If the object does not exist,
	// Change.Is is empty in all changes. The error is the one that Update would return, as far
	// as that can be predicted.
	Diff(ctx context.Context, txn statedb.ReadTxn, obj Obj) ([]Change, error)
}

// BatchDiffer is a [Differ] that can compare many rows in one call, which costs less than
// comparing each by itself.
type BatchDiffer[Obj any] interface {
	Differ[Obj]
	// DiffBatch returns the result of Diff for each row, in their order.
	DiffBatch(ctx context.Context, txn statedb.ReadTxn, objs []Obj) []DiffResult
}

// DiffResult is the outcome of one row of DiffBatch.
type DiffResult struct {
	Changes []Change
	Err     error
}

// BatchTarget is a [Target] that can work on several rows in one call, such as in
// one request to the kernel. No row is passed twice in a call, and ctx ends when the
// whole call has taken too long. A row that failed is retried by itself, through
// Update or Delete, so that a row that makes the others fail, for instance by a
// panic, ends up failing alone. If a batch does not return exactly one outcome for
// each row, all of its rows are retried in this way.
type BatchTarget[Obj any] interface {
	Target[Obj]
	// UpdateBatch updates each row and returns the outcomes, in the same order.
	UpdateBatch(ctx context.Context, txn statedb.ReadTxn, objs []Obj) []BatchResult
	// DeleteBatch deletes each row and returns the errors, in the same order; nil means
	// success.
	DeleteBatch(ctx context.Context, txn statedb.ReadTxn, objs []Obj) []error
}

// BatchResult is the outcome of one row of UpdateBatch.
type BatchResult = engine.BatchResult

// Change is a field whose observed value differs from the desired one.
type Change = engine.Change

// Result is the outcome of a successful Update. The zero value is "done".
type Result = engine.Result

// untyped returns the functions that the engine calls: those of a target and those that access
// the status of its rows.
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

// observe returns the objects that the observer lists, as entries. It panics for a row without a
// key, such as a nil pointer, which is a bug in the target.
func observe[Obj any](ctx context.Context, table *store.Table, observer Observer[Obj]) (observed []*store.Entry, err error) {
	for row, err := range observer.Observe(ctx) {
		if err != nil {
			return observed, err
		}
		observed = append(observed, table.NewEntry(pointerTo(&row)))
	}
	return observed, nil
}
