package reconciler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/statehive/statehive/statedb"
)

type opKind uint8

const (
	opUpdate opKind = iota
	opDelete
	opObserve
	opPrune
)

func (k opKind) String() string {
	return [...]string{opUpdate: "update", opDelete: "delete", opObserve: "observe", opPrune: "prune"}[k]
}

// operation is one call of the target.
type operation[Obj any] struct {
	kind opKind
	was  StatusKind // of obj
	full bool       // belongs to the full pass, not to a change
	open bool       // counts as open in the round
	// givenBack says that it was skipped and settled before its batch ended.
	givenBack bool
	item      *item[Obj] // nil for opObserve and opPrune, and for a row of a round
	obj       Obj
	rev       statedb.Revision // of obj
}

// outcome is an operation and what came of it. While the operation runs its worker
// alone writes what came of it, and the deciding goroutine alone the operation.
type outcome[Obj any] struct {
	operation[Obj]
	newer    *newer[Obj] // what it worked on, if that was not obj
	result   Result
	err      error
	took     time.Duration
	delay    time.Duration // the backoff, once it is known
	skipped  bool          // it did not run: obj is not the newest row any more
	outdated bool          // the row's spec is newer, or the row gone: nothing was written
	stuck    bool          // it runs on, long after its deadline
}

// newer is a row that was found to be newer than that of the operation on it.
type newer[Obj any] struct {
	was StatusKind
	obj Obj
	rev statedb.Revision
}

// newest returns the row to work on.
func (out *outcome[Obj]) newest() Obj {
	if out.newer != nil {
		return out.newer.obj
	}
	return out.obj
}

// renewed returns the operation with the row that it worked on.
func (out *outcome[Obj]) renewed() operation[Obj] {
	op := out.operation
	if n := out.newer; n != nil {
		op.was, op.obj, op.rev = n.was, n.obj, n.rev
		op.full = op.full && op.was != Pending
	}
	return op
}

// PanicError is the error of an operation that panicked.
type PanicError struct {
	Value any    // what it panicked with
	Stack []byte // where, as runtime/debug.Stack formats it
}

// Error implements error.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the panic's value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// StuckError is the error of an operation that has not returned long after its
// context had ended. Its row is in nobody else's hands until it does.
type StuckError struct {
	After time.Duration // since the operation began
	Stack []byte        // where it is, as runtime.Stack formats it
}

// Error implements error.
func (e *StuckError) Error() string {
	return fmt.Sprintf("stuck: has not returned after %v, although its context has ended", e.After.Round(time.Millisecond))
}

var (
	// errOverdue is the cause of the end of an operation's context at its deadline.
	errOverdue = fmt.Errorf("operation is overdue: %w", context.DeadlineExceeded)
	// errStopped is the same when the reconciler did not wait any longer.
	errStopped = errors.New("reconciler stops")
	// errGoexit is the error of an operation that ended its goroutine.
	errGoexit = errors.New("runtime.Goexit was called")
)

// opContext is a context that ends like one with a deadline when its operation is
// overdue.
type opContext struct{ context.Context } //nolint:containedctx // it is one

// Err implements context.Context.
func (c opContext) Err() error {
	if errors.Is(context.Cause(c.Context), errOverdue) {
		return context.DeadlineExceeded
	}
	return c.Context.Err()
}

// readable returns err, or what comes of reading it if that is a panic, as of a nil
// pointer that was returned as an error.
func readable(err error) error {
	if err == nil {
		return nil
	}
	panicked := guard(func() {
		_ = err.Error()
		_, _ = retryDelay(err)
		_ = isTerminal(err)
	})
	if panicked != nil {
		return fmt.Errorf("the target returned an error of type %T that cannot be read: %w", err, panicked)
	}
	return err
}

// explained says of an error that came of the end of its context why that ended.
func (r *Reconciler[Obj]) explained(ctx context.Context, err error) error {
	err = readable(err)
	switch cause := context.Cause(ctx); {
	case err == nil || cause == nil:
		return err
	case errors.Is(cause, errOverdue):
		return fmt.Errorf("took longer than %v: %w", r.p.Config.OperationTimeout, err)
	default:
		return fmt.Errorf("%w: %w", cause, err)
	}
}

// perform calls the target.
func (r *Reconciler[Obj]) perform(ctx context.Context, txn statedb.ReadTxn, out *outcome[Obj], answer *answer[Obj]) (err error) {
	switch out.kind {
	case opUpdate:
		out.result, err = r.p.Target.Update(ctx, txn, out.newest())
	case opDelete:
		err = r.p.Target.Delete(ctx, txn, out.obj)
	case opObserve:
		answer.observed, err = r.observe(ctx)
	case opPrune:
		answer.pruned, err = r.p.Target.Prune(ctx, txn, r.p.Table.All(txn))
	}
	return err
}

// observe asks what there is. It is a function of its own so that perform, which
// runs for every row, needs no memory for what the loop shares with the target.
func (r *Reconciler[Obj]) observe(ctx context.Context) (observed []Obj, err error) {
	for obj, err := range r.observer.Observe(ctx) {
		if err != nil {
			return observed, err
		}
		_ = r.p.Table.KeyQuery(obj) // a panic, as of a nil pointer, is the target's
		observed = append(observed, obj)
	}
	return observed, nil
}

// answer is what a target said of its surplus.
type answer[Obj any] struct {
	observed []Obj // opObserve
	pruned   int   // opPrune
}
