package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/hold"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/status"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// Target is the typed code that the engine calls: the functions of a target for one row type. The
// optional ones are nil if the target does not have them.
type Target struct {
	Init   func(ctx context.Context) error
	Update func(ctx context.Context, txn store.ReadTxn, row *store.Entry) (Result, error)
	Delete func(ctx context.Context, txn store.ReadTxn, row *store.Entry) error
	Prune  func(ctx context.Context, txn store.ReadTxn) (pruned int, err error)
	// Observe returns what exists, as entries that are in no table.
	Observe     func(ctx context.Context) ([]*store.Entry, error)
	Diff        func(ctx context.Context, txn store.ReadTxn, row *store.Entry) ([]Change, error)
	UpdateBatch func(ctx context.Context, txn store.ReadTxn, rows []*store.Entry) []BatchResult
	DeleteBatch func(ctx context.Context, txn store.ReadTxn, rows []*store.Entry) []error

	// Status returns the status of a row. SetStatus returns a function that writes statuses in
	// a transaction.
	Status    func(row *store.Entry) Status
	SetStatus func(txn *store.WriteTxn) SetStatus
}

// SetStatus replaces the status of a row by what next returns. It reports false, and changes
// nothing, if the spec of the row has changed or the row is gone.
type SetStatus func(row *store.Entry, next func(Status) Status) (bool, error)

type (
	// Status is the status of a row.
	Status = status.Status
	// StatusKind is the kind of a status.
	StatusKind = status.Kind
	// Change is a field whose actual value differs from the desired one.
	Change = hold.Change
	// Result is the outcome of a successful Update.
	Result = pool.Result
	// BatchResult is the outcome of one row of UpdateBatch.
	BatchResult = pool.BatchResult
	// PanicError is the error of an operation that panicked.
	PanicError = pool.PanicError
	// StuckError is the error of an operation that has not returned.
	StuckError = pool.StuckError
	// Attempt is an operation that failed.
	Attempt = workqueue.Attempt
)

// The kinds of statuses.
const (
	Pending = status.Pending
	Done    = status.Done
	Error   = status.Error
)

// ErrBatchResults is the error of rows whose [BatchTarget] did not return exactly one outcome for
// each of them.
var ErrBatchResults = errors.New("target did not return exactly one outcome for each row of a batch")

// FieldError is the error of an invalid field of a row. Row types return it from their validation;
// sources of desired state add the position of the field in the document.
type FieldError struct {
	Field string // as spelled in documents
	Err   error  // what is wrong, and what was expected
}

// Error implements error.
func (e *FieldError) Error() string { return fmt.Sprintf("field %q: %v", e.Field, e.Err) }

// Unwrap returns what is wrong with the field.
func (e *FieldError) Unwrap() error { return e.Err }

// TargetError is the error of an operation of the target. It wraps the returned error, a
// [PanicError] or a [StuckError], and has the same text.
type TargetError struct {
	Operation string // init, update, delete, observe or prune
	Err       error
}

// Error implements error.
func (e *TargetError) Error() string { return e.Err.Error() }

// Unwrap returns what the target returned.
func (e *TargetError) Unwrap() error { return e.Err }

// SourceError is the error of a source that has not delivered all of its rows.
type SourceError struct {
	Source string
	Reason string // as reported by the source
}

// Error implements error.
func (e *SourceError) Error() string { return fmt.Sprintf("source %s: %s", e.Source, e.Reason) }
