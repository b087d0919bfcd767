package reconciler

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
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

// operation is one call of the target, handed to a worker.
type operation[Obj any] struct {
	kind opKind
	item *item[Obj] // nil for opObserve and opPrune
	obj  Obj
	rev  statedb.Revision // of obj
	txn  statedb.ReadTxn
	was  StatusKind // of obj
	full bool       // belongs to the full pass, not to a change
}

// outcome is what came of an operation.
type outcome[Obj any] struct {
	operation[Obj]
	result   Result
	observed []Obj // opObserve
	pruned   int   // opPrune
	err      error
	took     time.Duration
	outdated bool // the row's spec is newer, or the row gone: nothing was written
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

// work carries out operations until the channel is closed.
func (r *Reconciler[Obj]) work(ctx context.Context, operations <-chan operation[Obj], outcomes chan<- outcome[Obj]) {
	for op := range operations {
		began := time.Now()
		out := outcome[Obj]{operation: op}
		out.err = r.guard(ctx, func(ctx context.Context) error { return r.perform(ctx, &out) })
		out.took = time.Since(began)
		outcomes <- out
	}
}

// guard calls fn with a deadline and makes an error of a panic. An error that
// came of the end of its context says why that ended.
func (r *Reconciler[Obj]) guard(ctx context.Context, fn func(context.Context) error) (err error) {
	timeout := r.p.Config.OperationTimeout
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errOverdue)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	err = fn(ctx)
	switch cause := context.Cause(ctx); {
	case err == nil || cause == nil:
		return err
	case errors.Is(cause, errOverdue):
		return fmt.Errorf("took longer than %v: %w", timeout, err)
	default:
		return fmt.Errorf("%w: %w", cause, err)
	}
}

// errOverdue is the cause of the end of an operation's context at its deadline.
var errOverdue = errors.New("operation is overdue")

func (r *Reconciler[Obj]) perform(ctx context.Context, out *outcome[Obj]) (err error) {
	switch out.kind {
	case opUpdate:
		out.result, err = r.p.Target.Update(ctx, out.txn, out.obj)
	case opDelete:
		err = r.p.Target.Delete(ctx, out.txn, out.obj)
	case opObserve:
		for obj, seqErr := range r.observer.Observe(ctx) {
			if seqErr != nil {
				return seqErr
			}
			out.observed = append(out.observed, obj)
		}
	case opPrune:
		out.pruned, err = r.p.Target.Prune(ctx, out.txn, r.p.Table.All(out.txn))
	}
	return err
}
