package statedb

import (
	"iter"
	"slices"
)

// AnyTable is a table whose row type the caller does not know, with keys as text
// and rows to be written as JSON: for command lines and APIs. Like a [Table] it
// is safe for concurrent use, but the methods that write belong to the goroutine
// of their transaction.
//
// The queries are those of [Table], with its watches. Their errors match
// [ErrUnknownIndex], or [ErrBadKey] when a text is no key of the index.
type AnyTable interface {
	Name() string
	// Columns names the cells of a row, and Indexes the indexes, the primary one first.
	Columns() []string
	Indexes() []string
	Len(txn ReadTxn) int
	Revision(txn ReadTxn) Revision
	Sources(txn ReadTxn) []SourceState

	// Get returns the row with a primary key.
	Get(txn ReadTxn, key string) (AnyRow, bool, error)
	GetWatch(txn ReadTxn, key string) (AnyRow, <-chan struct{}, bool, error)
	// All yields the rows in the order of the primary index.
	All(txn ReadTxn, opts ...ReadOption) iter.Seq[AnyRow]
	AllWatch(txn ReadTxn, opts ...ReadOption) (iter.Seq[AnyRow], <-chan struct{})
	// List yields the rows with a key of an index.
	List(txn ReadTxn, index, key string, opts ...ReadOption) (iter.Seq[AnyRow], error)
	ListWatch(txn ReadTxn, index, key string, opts ...ReadOption) (iter.Seq[AnyRow], <-chan struct{}, error)
	// Prefix yields the rows that have a key which starts with the one given.
	Prefix(txn ReadTxn, index, key string, opts ...ReadOption) (iter.Seq[AnyRow], error)
	PrefixWatch(txn ReadTxn, index, key string, opts ...ReadOption) (iter.Seq[AnyRow], <-chan struct{}, error)
	// LowerBound yields the rows with keys not less than the one given.
	LowerBound(txn ReadTxn, index, key string, opts ...ReadOption) (iter.Seq[AnyRow], error)
	LowerBoundWatch(txn ReadTxn, index, key string, opts ...ReadOption) (iter.Seq[AnyRow], <-chan struct{}, error)
	// Range yields the rows with keys from one up to another, which is not included.
	Range(txn ReadTxn, index, from, to string, opts ...ReadOption) (iter.Seq[AnyRow], error)
	RangeWatch(txn ReadTxn, index, from, to string, opts ...ReadOption) (iter.Seq[AnyRow], <-chan struct{}, error)
	// Watch returns a channel that closes when the table, or the state of its
	// sources, has changed since txn.
	Watch(txn ReadTxn) <-chan struct{}

	// Writable returns nil if the schema lets the table be written by name, else
	// an error that matches [ErrNotWritable] and says who writes it. All methods
	// below return it too.
	Writable(txn ReadTxn) error
	// Meta is the table for [DB.Update] and [DB.WriteTxn].
	Meta() TableMeta
	// Insert writes a row as [RWTable].Insert does, and returns it as it stands
	// then. Fields that the JSON leaves out have their zero value; what it says of
	// status is ignored. [ErrBadRow] when it is not exactly a row: a field that
	// does not exist or comes twice, a wrong type, anything after the row.
	Insert(txn *WriteTxn, row []byte) (AnyRow, error)
	// CompareAndSwap, Delete and CompareAndDelete are those of [RWTable] likewise.
	// The latter two return the row that was there.
	CompareAndSwap(txn *WriteTxn, revision Revision, row []byte) (AnyRow, error)
	Delete(txn *WriteTxn, key string) (old AnyRow, deleted bool, err error)
	CompareAndDelete(txn *WriteTxn, revision Revision, key string) (old AnyRow, err error)

	// Stats measures the table, for metrics. It costs little.
	Stats(txn ReadTxn) TableStats
	// Memory estimates the table's memory. It reads every row.
	Memory(txn ReadTxn) TableMemory
}

// AnyRow is a row of an [AnyTable].
type AnyRow struct {
	Key      string // the primary key as text
	Revision Revision
	Object   any      // of the table's row type
	Cells    []string // text for each column
}

type anyTable[Obj any] struct{ t *table[Obj] }

func (a anyTable[Obj]) Name() string                      { return a.t.Name() }
func (a anyTable[Obj]) Meta() TableMeta                   { return a.t }
func (a anyTable[Obj]) Len(txn ReadTxn) int               { return a.t.Len(txn) }
func (a anyTable[Obj]) Revision(txn ReadTxn) Revision     { return a.t.Revision(txn) }
func (a anyTable[Obj]) Sources(txn ReadTxn) []SourceState { return a.t.Sources(txn) }
func (a anyTable[Obj]) Columns() []string                 { return slices.Clone(a.t.columns.names) }
func (a anyTable[Obj]) Watch(txn ReadTxn) <-chan struct{} {
	return a.t.watch(txn, true, func(v *version[Obj]) <-chan struct{} { return v.watch.channel() })
}

func (a anyTable[Obj]) Indexes() []string {
	names := make([]string, len(a.t.indexes))
	for i, ix := range a.t.indexes {
		names[i] = ix.Name()
	}
	return names
}

func (a anyTable[Obj]) row(obj Obj, rev Revision) AnyRow {
	return AnyRow{Key: a.t.Key(obj), Revision: rev, Object: obj, Cells: a.t.columns.cells(obj)}
}

func (t *table[Obj]) unknownIndex(name string) error {
	known := anyTable[Obj]{t}.Indexes()
	slices.Sort(known)
	return &TableError{Table: t.Name(), Err: &UnknownNameError{Name: name, Known: known, Err: ErrUnknownIndex}}
}
