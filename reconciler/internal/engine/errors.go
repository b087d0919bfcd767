package engine

import (
	"errors"
	"fmt"
)

// ErrBatchResults is the error of rows whose [BatchTarget] did not return an
// outcome for each of them.
var ErrBatchResults = errors.New("target returned not one outcome for each row of a batch")

// FieldError says which field of a row is wrong. Row types return it when they
// check themselves; sources of desired state add the place where the field was
// written.
type FieldError struct {
	Field string // as a document spells it
	Err   error  // what is wrong with it, and what was expected
}

// Error implements error.
func (e *FieldError) Error() string { return fmt.Sprintf("field %q: %v", e.Field, e.Err) }

// Unwrap returns what is wrong with the field.
func (e *FieldError) Unwrap() error { return e.Err }

// TargetError is an error of an operation of the target: what it returned, or a
// [PanicError] or [StuckError]. Its text is that of what it wraps.
type TargetError struct {
	Operation string // init, update, delete, observe or prune
	Err       error
}

// Error implements error.
func (e *TargetError) Error() string { return e.Err.Error() }

// Unwrap returns what the target returned.
func (e *TargetError) Unwrap() error { return e.Err }

// SourceError says that a source of the table has not delivered all of its rows.
type SourceError struct {
	Source string
	Reason string // why, as the source says it
}

// Error implements error.
func (e *SourceError) Error() string { return fmt.Sprintf("source %s: %s", e.Source, e.Reason) }
