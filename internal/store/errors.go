package store

import (
	"errors"
	"fmt"
	"strings"
)

// Errors to test for with errors.Is. The typed errors below wrap them and carry the details.
var (
	// ErrTxnClosed is returned by every method of a write transaction, and by
	// every write through it, once it was committed or aborted.
	ErrTxnClosed = errors.New("transaction is closed")
	// ErrNotLocked: the transaction was not opened for this table.
	ErrNotLocked = errors.New("table is not part of the transaction")
	// ErrForeignTable: the table belongs to another database.
	ErrForeignTable = errors.New("table belongs to another database")
	// ErrDropped: the table was dropped.
	ErrDropped = errors.New("table was dropped")
	// ErrNotFound: there is no row with this primary key.
	ErrNotFound = errors.New("no such row")
	// ErrConflict: the row's spec is newer than the revision that was given.
	ErrConflict = errors.New("row was changed since")
	// ErrNotUnique: the transaction would leave two rows with the same key in a unique
	// index. See [UniqueError].
	ErrNotUnique = errors.New("key of a unique index belongs to two rows")
	// ErrRejected: a defaulter or validator of the table rejected the row. The error also
	// wraps the reason.
	ErrRejected = errors.New("row was rejected")
	// ErrSameObject: the stored pointer itself was written again. Rows are immutable: write
	// a changed copy.
	ErrSameObject = errors.New("the stored object itself was written: rows are replaced, never changed; write a changed copy")
	// ErrKeyChanged: a function that may only replace a row changed its primary key.
	ErrKeyChanged = errors.New("primary key must not change")
	// ErrNilRow: a nil pointer was written.
	ErrNilRow = errors.New("row is a nil pointer")
	// ErrNotAmendable: the table's schema declares no status.
	ErrNotAmendable = errors.New("schema has no Amend")
	// ErrUnknownTable: no table has this name.
	ErrUnknownTable = errors.New("no such table")
	// ErrUnknownIndex: the table has no index with this name.
	ErrUnknownIndex = errors.New("no such index")
	// ErrBadKey: the text is not a key of the index.
	ErrBadKey = errors.New("bad key")
	// ErrNotWritable: the table's schema does not have WritableByName.
	ErrNotWritable = errors.New("cannot be written by name")
	// ErrBadRow: the JSON is not a row of the table.
	ErrBadRow = errors.New("bad row")
	// ErrSchema: the schema of a table is invalid.
	ErrSchema = errors.New("bad schema")
	// ErrSourceExists: the table has a source with this name that has not ended.
	ErrSourceExists = errors.New("source is registered already")
	// ErrNoSource: the registration of the source was rolled back, or the source has ended.
	ErrNoSource = errors.New("source is not registered")
)

// RowError is an error about one row of a table. It wraps the cause.
type RowError struct {
	Table string
	Key   string // the primary key as text
	Err   error
}

// Error implements error.
func (e *RowError) Error() string {
	return fmt.Sprintf("table %s, row %q: %v", e.Table, e.Key, e.Err)
}

// Unwrap returns the cause.
func (e *RowError) Unwrap() error { return e.Err }

// TableError is an error about a table. It wraps the cause.
type TableError struct {
	Table string
	Err   error
}

// Error implements error.
func (e *TableError) Error() string { return fmt.Sprintf("table %s: %v", e.Table, e.Err) }

// Unwrap returns the cause.
func (e *TableError) Unwrap() error { return e.Err }

// UnknownNameError reports that no table or index has the given name, and lists the names
// that exist. It matches ErrUnknownTable or ErrUnknownIndex.
type UnknownNameError struct {
	Name  string
	Known []string // sorted
	Err   error
}

// Error implements error.
func (e *UnknownNameError) Error() string {
	known := "there are none"
	if len(e.Known) > 0 {
		known = "there are: " + strings.Join(e.Known, ", ")
	}
	return fmt.Sprintf("%v %q; %s", e.Err, e.Name, known)
}

// Unwrap returns ErrUnknownTable or ErrUnknownIndex.
func (e *UnknownNameError) Unwrap() error { return e.Err }
