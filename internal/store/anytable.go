package store

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"unsafe"
)

// AnyTable is a table whose row type is not known at compile time. Keys are given as text
// and rows are written as JSON, for command lines and APIs. Like a [Table] it is safe for
// concurrent use, except that the methods that write must be called from the goroutine of
// their transaction.
//
// The queries are those of [Table], with its watches. Their errors match [ErrUnknownIndex],
// or [ErrBadKey] if the text is not a key of the index.
type AnyTable interface {
	Name() string
	// Columns returns the names of the columns, and Indexes those of the indexes, the
	// primary one first.
	Columns() []string
	Indexes() []string
	Len(txn ReadTxn) int
	Revision(txn ReadTxn) Revision
	Sources(txn ReadTxn) []SourceState

	// Get returns the row with this primary key.
	Get(txn ReadTxn, key string) (AnyRow, bool, error)
	GetWatch(txn ReadTxn, key string) (AnyRow, <-chan struct{}, bool, error)
	// All yields the rows in the order of the primary index.
	All(txn ReadTxn, opts ...ReadOption) iter.Seq[AnyRow]
	AllWatch(txn ReadTxn, opts ...ReadOption) (iter.Seq[AnyRow], <-chan struct{})
	// List yields the rows with this key in an index.
	List(txn ReadTxn, index, key string, opts ...ReadOption) (iter.Seq[AnyRow], error)
	ListWatch(txn ReadTxn, index, key string, opts ...ReadOption) (iter.Seq[AnyRow], <-chan struct{}, error)
	// Prefix yields the rows with a key that starts with the given one.
	Prefix(txn ReadTxn, index, key string, opts ...ReadOption) (iter.Seq[AnyRow], error)
	PrefixWatch(txn ReadTxn, index, key string, opts ...ReadOption) (iter.Seq[AnyRow], <-chan struct{}, error)
	// LowerBound yields the rows with keys that are not less than the given one.
	LowerBound(txn ReadTxn, index, key string, opts ...ReadOption) (iter.Seq[AnyRow], error)
	LowerBoundWatch(txn ReadTxn, index, key string, opts ...ReadOption) (iter.Seq[AnyRow], <-chan struct{}, error)
	// Range yields the rows with keys from one up to another, which is not included.
	Range(txn ReadTxn, index, from, to string, opts ...ReadOption) (iter.Seq[AnyRow], error)
	RangeWatch(txn ReadTxn, index, from, to string, opts ...ReadOption) (iter.Seq[AnyRow], <-chan struct{}, error)
	// Watch returns a channel that closes when the table, or the state of its
	// sources, has changed since txn.
	Watch(txn ReadTxn) <-chan struct{}

	// Writable returns nil if the schema allows the table to be written by name, otherwise
	// an error that matches [ErrNotWritable] and says who writes the table. The write
	// methods below return this error too.
	Writable(txn ReadTxn) error
	// Meta returns the table as an argument for [DB.Update] and [DB.WriteTxn].
	Meta() TableMeta
	// Insert writes a row as [RWTable].Insert does, and returns the row as stored. Fields
	// missing from the JSON get their zero value; its status is ignored. The error matches
	// [ErrBadRow] if the JSON is not exactly one row: an unknown or duplicate field, a
	// wrong type, or anything after the row.
	Insert(txn *WriteTxn, row []byte) (AnyRow, error)
	// CompareAndSwap, Delete and CompareAndDelete are like those of [RWTable]. The latter
	// two return the deleted row.
	CompareAndSwap(txn *WriteTxn, revision Revision, row []byte) (AnyRow, error)
	Delete(txn *WriteTxn, key string) (old AnyRow, deleted bool, err error)
	CompareAndDelete(txn *WriteTxn, revision Revision, key string) (old AnyRow, err error)

	// Stats returns measurements of the table, for metrics. It is cheap.
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

// byName implements AnyTable for a table.
type byName struct{ *Table }

func (n byName) Meta() TableMeta   { return n.Table }
func (n byName) Columns() []string { return slices.Clone(n.rows.Columns) }

func (n byName) Indexes() []string {
	names := make([]string, len(n.indexes))
	for i, ix := range n.indexes {
		names[i] = ix.Name
	}
	return names
}

func (n byName) row(e *Entry) AnyRow {
	row := e.Row()
	return AnyRow{Key: n.Key(row), Revision: e.rev, Object: n.rows.any(row), Cells: n.rows.cells(row)}
}

func (n byName) rowOf(e *Entry) (AnyRow, bool) {
	if e == nil {
		return AnyRow{}, false
	}
	return n.row(e), true
}

// rowsOf yields the rows of a selection.
func (n byName) rowsOf(selection *Selection) iter.Seq[AnyRow] {
	return func(yield func(AnyRow) bool) {
		var s Scan
		s.Start(selection)
		for run := s.Next(); len(run) > 0; run = s.Next() {
			for _, leaf := range run {
				if !yield(n.row(s.Entry(leaf))) {
					return
				}
			}
		}
	}
}

// ParseKey parses the text of a key of an index and returns the query for it. The error
// matches [ErrUnknownIndex] or [ErrBadKey].
func (t *Table) ParseKey(index, text string) (Query, error) {
	ix, ok := t.indexNamed(index)
	if !ok {
		return Query{}, t.unknownIndexNamed(index)
	}
	key, err := t.indexes[ix].Parse(text)
	if err != nil {
		return Query{}, &TableError{Table: t.name, Err: fmt.Errorf("%w for index %q: %w", ErrBadKey, index, err)}
	}
	return Query{t.indexes[ix], key}, nil
}

func (t *Table) unknownIndexNamed(name string) error {
	known := byName{t}.Indexes()
	slices.Sort(known)
	return &TableError{Table: t.name, Err: &UnknownNameError{Name: name, Known: known, Err: ErrUnknownIndex}}
}

func (n byName) primary(key string) (Query, error) { return n.ParseKey(n.indexes[0].Name, key) }

func (n byName) Get(txn ReadTxn, key string) (AnyRow, bool, error) {
	q, err := n.primary(key)
	if err != nil {
		return AnyRow{}, false, err
	}
	row, found := n.rowOf(n.Find(txn, q))
	return row, found, nil
}

func (n byName) GetWatch(txn ReadTxn, key string) (AnyRow, <-chan struct{}, bool, error) {
	q, err := n.primary(key)
	if err != nil {
		return AnyRow{}, nil, false, err
	}
	watch := n.WatchKey(txn, q)
	row, found := n.rowOf(n.Find(txn, q))
	return row, watch, found, nil
}

func (n byName) All(txn ReadTxn, opts ...ReadOption) iter.Seq[AnyRow] {
	return n.rowsOf(n.Table.All(txn, opts))
}

func (n byName) AllWatch(txn ReadTxn, opts ...ReadOption) (iter.Seq[AnyRow], <-chan struct{}) {
	return n.All(txn, opts...), n.WatchAll(txn)
}

// query is a kind of query: how it selects rows, and the watch that covers them.
type query struct {
	selects func(*Table, ReadTxn, Query, []ReadOption) *Selection
	watches func(*Table, ReadTxn, Query) <-chan struct{}
}

var (
	list       = query{(*Table).List, (*Table).WatchKey}
	prefix     = query{(*Table).Prefix, (*Table).WatchPrefix}
	lowerBound = query{(*Table).LowerBound, (*Table).WatchIndex}
)

func (n byName) find(query query, txn ReadTxn, index, key string, opts []ReadOption) (iter.Seq[AnyRow], error) {
	q, err := n.ParseKey(index, key)
	if err != nil {
		return nil, err
	}
	return n.rowsOf(query.selects(n.Table, txn, q, opts)), nil
}

func (n byName) findWatch(query query, txn ReadTxn, index, key string, opts []ReadOption) (iter.Seq[AnyRow], <-chan struct{}, error) {
	q, err := n.ParseKey(index, key)
	if err != nil {
		return nil, nil, err
	}
	return n.rowsOf(query.selects(n.Table, txn, q, opts)), query.watches(n.Table, txn, q), nil
}

func (n byName) List(txn ReadTxn, index, key string, opts ...ReadOption) (iter.Seq[AnyRow], error) {
	return n.find(list, txn, index, key, opts)
}

func (n byName) ListWatch(txn ReadTxn, index, key string, opts ...ReadOption) (iter.Seq[AnyRow], <-chan struct{}, error) {
	return n.findWatch(list, txn, index, key, opts)
}

func (n byName) Prefix(txn ReadTxn, index, key string, opts ...ReadOption) (iter.Seq[AnyRow], error) {
	return n.find(prefix, txn, index, key, opts)
}

func (n byName) PrefixWatch(txn ReadTxn, index, key string, opts ...ReadOption) (iter.Seq[AnyRow], <-chan struct{}, error) {
	return n.findWatch(prefix, txn, index, key, opts)
}

func (n byName) LowerBound(txn ReadTxn, index, key string, opts ...ReadOption) (iter.Seq[AnyRow], error) {
	return n.find(lowerBound, txn, index, key, opts)
}

func (n byName) LowerBoundWatch(txn ReadTxn, index, key string, opts ...ReadOption) (iter.Seq[AnyRow], <-chan struct{}, error) {
	return n.findWatch(lowerBound, txn, index, key, opts)
}

func (n byName) bounds(index, from, to string) (first, end Query, err error) {
	if first, err = n.ParseKey(index, from); err != nil {
		return first, end, err
	}
	end, err = n.ParseKey(index, to)
	return first, end, err
}

func (n byName) Range(txn ReadTxn, index, from, to string, opts ...ReadOption) (iter.Seq[AnyRow], error) {
	first, end, err := n.bounds(index, from, to)
	if err != nil {
		return nil, err
	}
	return n.rowsOf(n.Table.Range(txn, first, end, opts)), nil
}

func (n byName) RangeWatch(txn ReadTxn, index, from, to string, opts ...ReadOption) (iter.Seq[AnyRow], <-chan struct{}, error) {
	first, end, err := n.bounds(index, from, to)
	if err != nil {
		return nil, nil, err
	}
	return n.rowsOf(n.Table.Range(txn, first, end, opts)), n.WatchRange(txn, first, end), nil
}

func (n byName) Writable(txn ReadTxn) error {
	if n.rows.WritableByName {
		return nil
	}
	writer := "only the program itself writes it"
	if sources := n.Sources(txn); len(sources) > 0 {
		names := make([]string, len(sources))
		for i, s := range sources {
			names[i] = s.Name
		}
		writer = "its rows come from " + strings.Join(names, ", ")
	}
	return &TableError{Table: n.name, Err: fmt.Errorf("%w: %s", ErrNotWritable, writer)}
}

// decode checks that txn may write the table, and decodes a row from JSON.
func (n byName) decode(txn *WriteTxn, text []byte) (row unsafe.Pointer, err error) {
	if _, err = n.open(txn); err == nil {
		err = n.Writable(txn)
	}
	if err != nil {
		return nil, err
	}
	v, err := decodeRow(n.rows.Type, text)
	if err != nil {
		return nil, &TableError{Table: n.name, Err: fmt.Errorf("%w: %w", ErrBadRow, err)}
	}
	return v.UnsafePointer(), nil
}

func (n byName) Insert(txn *WriteTxn, text []byte) (AnyRow, error) {
	row, err := n.decode(txn, text)
	if err == nil {
		_, err = n.Table.Insert(txn, row)
	}
	return n.written(txn, row, err)
}

func (n byName) CompareAndSwap(txn *WriteTxn, revision Revision, text []byte) (AnyRow, error) {
	row, err := n.decode(txn, text)
	if err == nil {
		_, err = n.Table.CompareAndSwap(txn, revision, row)
	}
	return n.written(txn, row, err)
}

// written returns the row as it stands after a write.
func (n byName) written(txn *WriteTxn, row unsafe.Pointer, err error) (AnyRow, error) {
	if err != nil {
		return AnyRow{}, err
	}
	e := n.Find(txn, Query{n.indexes[0], n.indexes[0].Append(nil, row)})
	return n.row(e), nil
}

func (n byName) Delete(txn *WriteTxn, key string) (AnyRow, bool, error) {
	w, old, err := n.existing(txn, key)
	if err != nil || old == nil {
		return AnyRow{}, false, err
	}
	w.remove(old)
	return n.row(old), true, nil
}

func (n byName) CompareAndDelete(txn *WriteTxn, revision Revision, key string) (AnyRow, error) {
	w, old, err := n.existing(txn, key)
	switch {
	case err != nil:
		return AnyRow{}, err
	case old == nil:
		return AnyRow{}, &RowError{Table: n.name, Key: key, Err: ErrNotFound}
	case old.spec > revision:
		return AnyRow{}, &RowError{Table: n.name, Key: key, Err: ErrConflict}
	}
	w.remove(old)
	return n.row(old), nil
}

// existing opens txn for a write by name and returns the row with a key, or nil.
func (n byName) existing(txn *WriteTxn, key string) (*writer, *Entry, error) {
	w, err := n.open(txn)
	if err == nil {
		err = n.Writable(txn)
	}
	if err != nil {
		return nil, nil, err
	}
	q, err := n.primary(key)
	if err != nil {
		return nil, nil, err
	}
	return w, w.row(q.Key), nil
}
