package reconciler

import "fmt"

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
