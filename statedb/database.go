package statedb

import (
	"log/slog"

	"github.com/statehive/statehive/internal/store"
)

// The types that do not depend on the type of the rows are defined in internal/store.
type (
	// DB holds tables. Its methods are safe for concurrent use: ReadTxn takes a
	// snapshot, Update and WriteTxn open a transaction, Drop removes a table, Tables and
	// Table find them by name, and Owns reports whether a table is one of its own.
	DB = store.DB
	// Option of a database.
	Option = store.Option
	// ReadTxn is a snapshot: the database as it was at one moment. Snapshots from
	// [DB.ReadTxn] are safe for concurrent use, cost nothing to take and never expire. A
	// [*WriteTxn] is a ReadTxn too, and sees its own writes.
	ReadTxn = store.ReadTxn
	// WriteTxn modifies the tables that it was opened for, atomically. It holds
	// their locks until Commit or Abort. It belongs to one goroutine at a time. Check
	// returns the error that Commit would return.
	//
	// Used as a [ReadTxn] it sees its own writes in its tables and a snapshot of
	// the others. After Commit it reads the committed state, and after Abort the state from
	// before the transaction.
	WriteTxn = store.WriteTxn
	// Revision counts the changes of a table: each write or delete of a row increments it
	// by one. Revision 0 is before the first change. Revisions seen inside a write
	// transaction are valid only once it has committed.
	Revision = store.Revision
	// TableMeta is a table of any row type, as an argument for transactions. Only tables of
	// this package implement it. A [RWTable] and its [ReadOnly] are different values; compare
	// the results of Untyped to find out whether two tables are the same.
	TableMeta = store.TableMeta
	// ReadOption changes the order of the rows that a query yields, or limits their number:
	// [WithReverse] and [WithLimit]. If two options contradict each other the last one counts.
	ReadOption = store.ReadOption
	// Source is a registered source of the rows of a table: see
	// [RWTable].RegisterSource. Its methods Initialized, Incomplete, Complete and End need
	// a transaction on the table and take effect with its commit. They return
	// [ErrTxnClosed], [ErrNotLocked], [ErrForeignTable], or [ErrNoSource] if the
	// registration was rolled back or the source has ended.
	Source = store.Source
	// SourceState is the state of one source of a table.
	SourceState = store.SourceState
	// AnyTable is a table whose row type is not known at compile time. Keys are given as
	// text and rows are written as JSON, for command lines and APIs. Like a [Table] it is
	// safe for concurrent use, except that the methods that write must be called from the
	// goroutine of their transaction.
	//
	// The queries are those of [Table], with its watches. Their errors match
	// [ErrUnknownIndex], or [ErrBadKey] if the text is not a key of the index.
	AnyTable = store.AnyTable
	// AnyRow is a row of an [AnyTable].
	AnyRow = store.AnyRow
	// TableStats are measurements of a table.
	TableStats = store.TableStats
	// Durations is a distribution of durations.
	Durations = store.Durations
	// TableMemory is an estimate of the heap memory of a table, in bytes.
	TableMemory = store.TableMemory
)

// New returns an empty database.
func New(options ...Option) *DB { return store.New(options...) }

// WithLogger sets the logger for warnings to operators: a write transaction that has held
// a table's lock for a second while others wait for it is logged once, with its call site.
// Without it nothing is logged.
func WithLogger(logger *slog.Logger) Option { return store.WithLogger(logger) }

// WithReverse yields the rows in the opposite order, the last one first.
func WithReverse() ReadOption { return store.WithReverse() }

// WithLimit ends the sequence after n rows; it is empty if n is not positive. With
// [WithReverse] these are the last n rows, the last one first.
func WithLimit(n int) ReadOption { return store.WithLimit(n) }
