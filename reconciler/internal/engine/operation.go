package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
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
type operation struct {
	kind opKind
	was  StatusKind // of entry
	full bool       // belongs to the full pass, not to a change
	open bool       // counts as open in the round
	// givenBack says that it was skipped and settled before its batch ended.
	givenBack bool
	item      *workqueue.Item // nil for opObserve and opPrune, and for a row of a round
	entry     *store.Entry    // the row, or for a delete what it was
}

// outcome is an operation and what came of it. While the operation runs its worker
// alone writes what came of it, and the deciding goroutine alone the operation.
type outcome struct {
	operation
	newer    *newer // what it worked on, if that was not entry
	result   Result
	err      error
	took     time.Duration
	delay    time.Duration // the backoff, once it is known
	skipped  bool          // it did not run: entry is not the newest row any more
	outdated bool          // the row's spec is newer, or the row gone: nothing was written
	stuck    bool          // it runs on, long after its deadline
}

// newer is a row that was found to be newer than that of the operation on it.
type newer struct {
	was   StatusKind
	entry *store.Entry
}

// newest returns the row to work on.
func (out *outcome) newest() *store.Entry {
	if out.newer != nil {
		return out.newer.entry
	}
	return out.entry
}

// renewed returns the operation with the row that it worked on.
func (out *outcome) renewed() operation {
	op := out.operation
	if n := out.newer; n != nil {
		op.was, op.entry = n.was, n.entry
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
func (r *Engine) explained(ctx context.Context, err error) error {
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
func (r *Engine) perform(ctx context.Context, txn store.ReadTxn, out *outcome, answer *answer) (err error) {
	switch out.kind {
	case opUpdate:
		out.result, err = r.p.Target.Update(ctx, txn, out.newest())
	case opDelete:
		err = r.p.Target.Delete(ctx, txn, out.entry)
	case opObserve:
		answer.observed, err = r.p.Target.Observe(ctx)
	case opPrune:
		answer.pruned, err = r.p.Target.Prune(ctx, txn)
	}
	return err
}

// answer is what a target said of its surplus.
type answer struct {
	observed []*store.Entry // opObserve
	pruned   int            // opPrune
}
