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
	// Columns returns the names of the columns, and Indexes the names of the indexes, the
	// primary index first.
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

	// Writable returns nil if the schema allows the table to be written by name. Otherwise
	// it returns an error that matches [ErrNotWritable] and names the writers of the table,
	// which the write methods below return too.
	Writable(txn ReadTxn) error
	// Meta returns the table as an argument for [DB.Update] and [DB.WriteTxn].
	Meta() TableMeta
	// Insert writes a row as [RWTable].Insert does, and returns the row as stored. Fields
	// missing from the JSON get their zero value; its status is ignored. The error matches
	// [ErrBadRow] if the JSON is not exactly one row: an unknown or duplicate field, a
	// wrong type, or anything after the row.
	Insert(txn *WriteTxn, row []byte) (AnyRow, error)
	// CompareAndSwap, Delete and CompareAndDelete are like the methods of [RWTable]. Delete
	// and CompareAndDelete return the deleted row.
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

// anyTable implements AnyTable for a table.
type anyTable struct{ *Table }

func (t anyTable) Meta() TableMeta   { return t.Table }
func (t anyTable) Columns() []string { return slices.Clone(t.rows.Columns) }

func (t anyTable) Indexes() []string {
	names := make([]string, len(t.indexes))
	for i, ix := range t.indexes {
		names[i] = ix.Name
	}
	return names
}

func (t anyTable) row(e *Entry) AnyRow {
	row := e.Row()
	return AnyRow{Key: t.Key(row), Revision: e.rev, Object: t.rows.any(row), Cells: t.rows.cells(row)}
}

func (t anyTable) rowOf(e *Entry) (AnyRow, bool) {
	if e == nil {
		return AnyRow{}, false
	}
	return t.row(e), true
}

// rowsOf yields the rows of a selection.
func (t anyTable) rowsOf(selection *Selection) iter.Seq[AnyRow] {
	return func(yield func(AnyRow) bool) {
		var s Scan
		s.Start(selection)
		for run := s.Next(); len(run) > 0; run = s.Next() {
			for _, leaf := range run {
				if !yield(t.row(s.Entry(leaf))) {
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
	known := anyTable{t}.Indexes()
	slices.Sort(known)
	return &TableError{Table: t.name, Err: &UnknownNameError{Name: name, Known: known, Err: ErrUnknownIndex}}
}

func (t anyTable) primary(key string) (Query, error) { return t.ParseKey(t.indexes[0].Name, key) }

func (t anyTable) Get(txn ReadTxn, key string) (AnyRow, bool, error) {
	q, err := t.primary(key)
	if err != nil {
		return AnyRow{}, false, err
	}
	row, found := t.rowOf(t.Find(txn, q))
	return row, found, nil
}

func (t anyTable) GetWatch(txn ReadTxn, key string) (AnyRow, <-chan struct{}, bool, error) {
	q, err := t.primary(key)
	if err != nil {
		return AnyRow{}, nil, false, err
	}
	watch := t.WatchKey(txn, q)
	row, found := t.rowOf(t.Find(txn, q))
	return row, watch, found, nil
}

func (t anyTable) All(txn ReadTxn, opts ...ReadOption) iter.Seq[AnyRow] {
	return t.rowsOf(t.Table.All(txn, opts))
}

func (t anyTable) AllWatch(txn ReadTxn, opts ...ReadOption) (iter.Seq[AnyRow], <-chan struct{}) {
	return t.All(txn, opts...), t.WatchAll(txn)
}

// query is a kind of query. It has the functions that select rows and that return a watch for them.
type query struct {
	selects func(*Table, ReadTxn, Query, []ReadOption) *Selection
	watches func(*Table, ReadTxn, Query) <-chan struct{}
}

var (
	list       = query{(*Table).List, (*Table).WatchKey}
	prefix     = query{(*Table).Prefix, (*Table).WatchPrefix}
	lowerBound = query{(*Table).LowerBound, (*Table).WatchIndex}
)

func (t anyTable) find(query query, txn ReadTxn, index, key string, opts []ReadOption) (iter.Seq[AnyRow], error) {
	q, err := t.ParseKey(index, key)
	if err != nil {
		return nil, err
	}
	return t.rowsOf(query.selects(t.Table, txn, q, opts)), nil
}

func (t anyTable) findWatch(query query, txn ReadTxn, index, key string, opts []ReadOption) (iter.Seq[AnyRow], <-chan struct{}, error) {
	q, err := t.ParseKey(index, key)
	if err != nil {
		return nil, nil, err
	}
	return t.rowsOf(query.selects(t.Table, txn, q, opts)), query.watches(t.Table, txn, q), nil
}

func (t anyTable) List(txn ReadTxn, index, key string, opts ...ReadOption) (iter.Seq[AnyRow], error) {
	return t.find(list, txn, index, key, opts)
}

func (t anyTable) ListWatch(txn ReadTxn, index, key string, opts ...ReadOption) (iter.Seq[AnyRow], <-chan struct{}, error) {
	return t.findWatch(list, txn, index, key, opts)
}

func (t anyTable) Prefix(txn ReadTxn, index, key string, opts ...ReadOption) (iter.Seq[AnyRow], error) {
	return t.find(prefix, txn, index, key, opts)
}

func (t anyTable) PrefixWatch(txn ReadTxn, index, key string, opts ...ReadOption) (iter.Seq[AnyRow], <-chan struct{}, error) {
	return t.findWatch(prefix, txn, index, key, opts)
}

func (t anyTable) LowerBound(txn ReadTxn, index, key string, opts ...ReadOption) (iter.Seq[AnyRow], error) {
	return t.find(lowerBound, txn, index, key, opts)
}

func (t anyTable) LowerBoundWatch(txn ReadTxn, index, key string, opts ...ReadOption) (iter.Seq[AnyRow], <-chan struct{}, error) {
	return t.findWatch(lowerBound, txn, index, key, opts)
}

func (t anyTable) bounds(index, from, to string) (first, end Query, err error) {
	if first, err = t.ParseKey(index, from); err != nil {
		return first, end, err
	}
	end, err = t.ParseKey(index, to)
	return first, end, err
}

func (t anyTable) Range(txn ReadTxn, index, from, to string, opts ...ReadOption) (iter.Seq[AnyRow], error) {
	first, end, err := t.bounds(index, from, to)
	if err != nil {
		return nil, err
	}
	return t.rowsOf(t.Table.Range(txn, first, end, opts)), nil
}

func (t anyTable) RangeWatch(txn ReadTxn, index, from, to string, opts ...ReadOption) (iter.Seq[AnyRow], <-chan struct{}, error) {
	first, end, err := t.bounds(index, from, to)
	if err != nil {
		return nil, nil, err
	}
	return t.rowsOf(t.Table.Range(txn, first, end, opts)), t.WatchRange(txn, first, end), nil
}

func (t anyTable) Writable(txn ReadTxn) error {
	if t.rows.WritableByName {
		return nil
	}
	writer := "only the program itself writes it"
	if sources := t.Sources(txn); len(sources) > 0 {
		names := make([]string, len(sources))
		for i, s := range sources {
			names[i] = s.Name
		}
		writer = "its rows come from " + strings.Join(names, ", ")
	}
	return &TableError{Table: t.name, Err: fmt.Errorf("%w: %s", ErrNotWritable, writer)}
}

// decode checks that txn may write the table, and decodes a row from JSON.
func (t anyTable) decode(txn *WriteTxn, text []byte) (row unsafe.Pointer, err error) {
	if _, err = t.open(txn); err == nil {
		err = t.Writable(txn)
	}
	if err != nil {
		return nil, err
	}
	v, err := decodeRow(t.rows.Type, text)
	if err != nil {
		return nil, &TableError{Table: t.name, Err: fmt.Errorf("%w: %w", ErrBadRow, err)}
	}
	return v.UnsafePointer(), nil
}

func (t anyTable) Insert(txn *WriteTxn, text []byte) (AnyRow, error) {
	row, err := t.decode(txn, text)
	if err == nil {
		_, err = t.Table.Insert(txn, row)
	}
	return t.written(txn, row, err)
}

func (t anyTable) CompareAndSwap(txn *WriteTxn, revision Revision, text []byte) (AnyRow, error) {
	row, err := t.decode(txn, text)
	if err == nil {
		_, err = t.Table.CompareAndSwap(txn, revision, row)
	}
	return t.written(txn, row, err)
}

// written returns the row as it is after a write.
func (t anyTable) written(txn *WriteTxn, row unsafe.Pointer, err error) (AnyRow, error) {
	if err != nil {
		return AnyRow{}, err
	}
	e := t.Find(txn, Query{t.indexes[0], t.indexes[0].Append(nil, row)})
	return t.row(e), nil
}

func (t anyTable) Delete(txn *WriteTxn, key string) (AnyRow, bool, error) {
	w, old, err := t.existing(txn, key)
	if err != nil || old == nil {
		return AnyRow{}, false, err
	}
	w.remove(old)
	return t.row(old), true, nil
}

func (t anyTable) CompareAndDelete(txn *WriteTxn, revision Revision, key string) (AnyRow, error) {
	w, old, err := t.existing(txn, key)
	switch {
	case err != nil:
		return AnyRow{}, err
	case old == nil:
		return AnyRow{}, &RowError{Table: t.name, Key: key, Err: ErrNotFound}
	case old.spec > revision:
		return AnyRow{}, &RowError{Table: t.name, Key: key, Err: ErrConflict}
	}
	w.remove(old)
	return t.row(old), nil
}

// existing opens txn for a write by name and returns the row with a key, or nil.
func (t anyTable) existing(txn *WriteTxn, key string) (*writer, *Entry, error) {
	w, err := t.open(txn)
	if err == nil {
		err = t.Writable(txn)
	}
	if err != nil {
		return nil, nil, err
	}
	q, err := t.primary(key)
	if err != nil {
		return nil, nil, err
	}
	return w, w.row(q.Key), nil
}
