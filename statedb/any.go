package statedb

import (
	"iter"
	"slices"
)

// AnyTable reads a table whose row type the caller does not know, with keys as
// text: for command lines and APIs. Like a [Table] it is safe for concurrent use.
type AnyTable interface {
	Name() string
	// Columns names the cells of a row, and Indexes the indexes, the primary one first.
	Columns() []string
	Indexes() []string
	Len(txn ReadTxn) int
	Revision(txn ReadTxn) Revision
	Sources(txn ReadTxn) []SourceState
	// All yields the rows in the order of the primary index.
	All(txn ReadTxn, opts ...ReadOption) iter.Seq[AnyRow]
	// Get returns the row with a primary key. The error matches ErrBadKey when
	// key is not one.
	Get(txn ReadTxn, key string) (AnyRow, bool, error)
	// List yields the rows with a key of an index. The error matches ErrBadKey
	// or ErrUnknownIndex.
	List(txn ReadTxn, index, key string, opts ...ReadOption) (iter.Seq[AnyRow], error)
	// Watch returns a channel that closes when the table, or the state of its
	// sources, has changed since txn.
	Watch(txn ReadTxn) <-chan struct{}
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
func (a anyTable[Obj]) Len(txn ReadTxn) int               { return a.t.Len(txn) }
func (a anyTable[Obj]) Revision(txn ReadTxn) Revision     { return a.t.Revision(txn) }
func (a anyTable[Obj]) Sources(txn ReadTxn) []SourceState { return a.t.Sources(txn) }
func (a anyTable[Obj]) Watch(txn ReadTxn) <-chan struct{} {
	return a.t.watch(txn, true, func(v *version[Obj]) <-chan struct{} { return v.watch })
}

func (a anyTable[Obj]) Columns() []string {
	names := make([]string, len(a.t.columns))
	for i, c := range a.t.columns {
		names[i] = c.name
	}
	return names
}

func (a anyTable[Obj]) Indexes() []string {
	names := make([]string, len(a.t.indexes))
	for i, ix := range a.t.indexes {
		names[i] = ix.Name()
	}
	return names
}

func (a anyTable[Obj]) All(txn ReadTxn, opts ...ReadOption) iter.Seq[AnyRow] {
	return a.rows(a.t.All(txn, opts...))
}

func (a anyTable[Obj]) Get(txn ReadTxn, key string) (AnyRow, bool, error) {
	q, err := a.t.schema.Primary.parse(key)
	if err != nil {
		return AnyRow{}, false, &TableError{Table: a.Name(), Err: err}
	}
	obj, rev, ok := a.t.Get(txn, q)
	if !ok {
		return AnyRow{}, false, nil
	}
	return a.row(obj, rev), true, nil
}

func (a anyTable[Obj]) List(txn ReadTxn, index, key string, opts ...ReadOption) (iter.Seq[AnyRow], error) {
	ix, ok := a.t.byName[index]
	if !ok {
		return nil, a.t.unknownIndex(index)
	}
	q, err := a.t.indexes[ix].parse(key)
	if err != nil {
		return nil, &TableError{Table: a.Name(), Err: err}
	}
	return a.rows(a.t.List(txn, q, opts...)), nil
}

func (a anyTable[Obj]) rows(typed iter.Seq2[Obj, Revision]) iter.Seq[AnyRow] {
	return func(yield func(AnyRow) bool) {
		for obj, rev := range typed {
			if !yield(a.row(obj, rev)) {
				return
			}
		}
	}
}

func (a anyTable[Obj]) row(obj Obj, rev Revision) AnyRow {
	return AnyRow{Key: a.t.Key(obj), Revision: rev, Object: obj, Cells: cellsOf(obj, a.t.columns)}
}

func (t *table[Obj]) unknownIndex(name string) error {
	known := anyTable[Obj]{t}.Indexes()
	slices.Sort(known)
	return &TableError{Table: t.Name(), Err: &UnknownNameError{Name: name, Known: known, Err: ErrUnknownIndex}}
}
