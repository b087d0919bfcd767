package statedb

import (
	"errors"
	"fmt"
	"strings"
)

// Errors that say which condition was met. The typed errors below carry the
// data and match them with errors.Is.
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
	// ErrNotUnique: a transaction would leave two rows with one key of a unique
	// index. See [UniqueError].
	ErrNotUnique = errors.New("key of a unique index belongs to two rows")
	// ErrRejected: a defaulter or validator of the table refused the row, for the
	// reason that the error wraps too.
	ErrRejected = errors.New("row was rejected")
	// ErrSameObject: the pointer that is stored already was written again. Rows
	// are immutable: write a changed copy.
	ErrSameObject = errors.New("the stored object itself was written: rows are replaced, never changed; write a changed copy")
	// ErrKeyChanged: a function that may only replace a row changed its primary key.
	ErrKeyChanged = errors.New("primary key must not change")
	// ErrNilRow: a nil pointer was written.
	ErrNilRow = errors.New("row is a nil pointer")
	// ErrNotAmendable: the table's schema says nothing of a status.
	ErrNotAmendable = errors.New("schema has no Amend")
	// ErrUnknownTable: no table has this name.
	ErrUnknownTable = errors.New("no such table")
	// ErrUnknownIndex: the table has no index with this name.
	ErrUnknownIndex = errors.New("no such index")
	// ErrBadKey: a text is not a key of the index.
	ErrBadKey = errors.New("bad key")
	// ErrNotWritable: the table's schema does not have WritableByName.
	ErrNotWritable = errors.New("cannot be written by name")
	// ErrBadRow: a text is not a row of the table.
	ErrBadRow = errors.New("bad row")
	// ErrSchema: a table was declared wrongly.
	ErrSchema = errors.New("bad schema")
	// ErrSourceExists: a source of this name feeds the table already.
	ErrSourceExists = errors.New("source is registered already")
	// ErrNoSource: the registration of the source was rolled back.
	ErrNoSource = errors.New("source is not registered")
)

// RowError says which row of which table an error is about. It matches, with
// errors.Is, the error that it wraps.
type RowError struct {
	Table string
	Key   string // the primary key as text
	Err   error
}

// Error implements error.
func (e *RowError) Error() string {
	return fmt.Sprintf("table %s, row %q: %v", e.Table, e.Key, e.Err)
}

// Unwrap returns what went wrong with the row.
func (e *RowError) Unwrap() error { return e.Err }

// TableError says which table an error is about.
type TableError struct {
	Table string
	Err   error
}

// Error implements error.
func (e *TableError) Error() string { return fmt.Sprintf("table %s: %v", e.Table, e.Err) }

// Unwrap returns what went wrong with the table.
func (e *TableError) Unwrap() error { return e.Err }

// UnknownNameError says that a table or an index was asked for by a name that
// does not exist, and what does. It matches ErrUnknownTable or ErrUnknownIndex.
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
