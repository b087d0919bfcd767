package statedb

import "github.com/statehive/statehive/internal/store"

// Errors to test for with errors.Is. The typed errors below wrap them and carry the details.
var (
	// ErrTxnClosed is returned by every method of a write transaction, and by
	// every write through it, once it was committed or aborted.
	ErrTxnClosed = store.ErrTxnClosed
	// ErrNotLocked: the transaction was not opened for this table.
	ErrNotLocked = store.ErrNotLocked
	// ErrForeignTable: the table belongs to another database.
	ErrForeignTable = store.ErrForeignTable
	// ErrDropped: the table was dropped.
	ErrDropped = store.ErrDropped
	// ErrNotFound: there is no row with this primary key.
	ErrNotFound = store.ErrNotFound
	// ErrConflict: the row's spec is newer than the revision that was given.
	ErrConflict = store.ErrConflict
	// ErrNotUnique: the transaction would leave two rows with the same key in a unique
	// index. See [UniqueError].
	ErrNotUnique = store.ErrNotUnique
	// ErrRejected: a defaulter or validator of the table rejected the row. The error also
	// wraps the reason.
	ErrRejected = store.ErrRejected
	// ErrSameObject: the stored pointer itself was written again. Rows are immutable: write
	// a changed copy.
	ErrSameObject = store.ErrSameObject
	// ErrKeyChanged: a function that may only replace a row changed its primary key.
	ErrKeyChanged = store.ErrKeyChanged
	// ErrNilRow: a nil pointer was written.
	ErrNilRow = store.ErrNilRow
	// ErrNotAmendable: the table's schema declares no status.
	ErrNotAmendable = store.ErrNotAmendable
	// ErrUnknownTable: no table has this name.
	ErrUnknownTable = store.ErrUnknownTable
	// ErrUnknownIndex: the table has no index with this name.
	ErrUnknownIndex = store.ErrUnknownIndex
	// ErrBadKey: the text is not a key of the index.
	ErrBadKey = store.ErrBadKey
	// ErrNotWritable: the table's schema does not have WritableByName.
	ErrNotWritable = store.ErrNotWritable
	// ErrBadRow: the JSON is not a row of the table.
	ErrBadRow = store.ErrBadRow
	// ErrSchema: the schema of a table is invalid.
	ErrSchema = store.ErrSchema
	// ErrSourceExists: the table has a source with this name that has not ended.
	ErrSourceExists = store.ErrSourceExists
	// ErrNoSource: the registration of the source was rolled back, or the source has ended.
	ErrNoSource = store.ErrNoSource
)

type (
	// RowError is an error about one row of a table. It wraps the cause.
	RowError = store.RowError
	// TableError is an error about a table. It wraps the cause.
	TableError = store.TableError
	// UniqueError reports that a transaction was not committed because two rows would share
	// a key of a unique index. It matches [ErrNotUnique].
	UniqueError = store.UniqueError
	// UnknownNameError reports that no table or index has the given name, and lists the
	// names that exist. It matches ErrUnknownTable or ErrUnknownIndex.
	UnknownNameError = store.UnknownNameError
)
