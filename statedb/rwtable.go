package statedb

import (
	"iter"

	"github.com/statehive/statehive/internal/store"
)

// RWTable is a [Table] that can be written. It has all methods of Table, and methods that
// write. These need a transaction that was opened for the table, must be called from its
// goroutine, and return:
//
//   - [ErrTxnClosed], [ErrNotLocked], [ErrForeignTable] for an unsuitable transaction;
//   - [ErrNilRow], [ErrSameObject], [ErrKeyChanged] for an unsuitable row;
//   - [ErrRejected] if the schema's defaulters or validators refused the row;
//   - [ErrNotFound], [ErrConflict], [ErrUnknownIndex] where documented.
//
// These errors are wrapped in a [RowError] or [TableError]. A failed write changes nothing,
// not even the revision. Rows given to a write belong to the table from then on and must
// not be changed.
//
// [ReadOnly] returns the Table for code that may only read.
type RWTable[Obj any] struct {
	_ [0]func(Obj) // differs from the field of Table, so that a Table cannot be converted into a RWTable
	untyped
}

// NewTable adds a table to db. If the schema is invalid, the error matches [ErrSchema] and
// names the invalid part.
func NewTable[Obj any](db *DB, schema Schema[Obj]) (*RWTable[Obj], error) {
	core, err := describe(&schema).create(db)
	if err != nil {
		return nil, err
	}
	return &RWTable[Obj]{untyped: untyped{core}}, nil
}

// ReadOnly returns t as a table for reading, or nil if t is nil. Both are views of the same rows.
func ReadOnly[Obj any](t *RWTable[Obj]) *Table[Obj] {
	if t == nil {
		return nil
	}
	return &Table[Obj]{untyped: t.untyped}
}

// RegisterSource adds a source to the table, which is not initialized until the source
// has delivered its first listing. The error matches ErrSourceExists if there is a
// source with this name that has not ended.
func (t *RWTable[Obj]) RegisterSource(txn *WriteTxn, name string) (*Source, error) {
	return t.core.RegisterSource(txn, name)
}

// Insert writes a row, replacing the row with the same primary key, if any. The status of
// the old row is carried over. If the row then equals the old one nothing is written;
// otherwise its status is reset.
func (t *RWTable[Obj]) Insert(txn *WriteTxn, obj Obj) (old Obj, replaced bool, err error) {
	return before[Obj](t.core.Insert(txn, rowOf(&obj)))
}

// InsertIfAbsent inserts a row if there is none with its primary key. Otherwise it
// changes nothing and returns the existing row.
func (t *RWTable[Obj]) InsertIfAbsent(txn *WriteTxn, obj Obj) (existing Obj, inserted bool, err error) {
	existing, exists, err := before[Obj](t.core.InsertIfAbsent(txn, rowOf(&obj)))
	return existing, !exists && err == nil, err
}

// Modify replaces the row that Get finds for q by the result of fn, which is written as
// by Insert. fn must return a changed copy. If it writes the row through the table itself,
// Modify returns ErrConflict. The error matches ErrNotFound if there is no such row.
func (t *RWTable[Obj]) Modify(txn *WriteTxn, q Query[Obj], fn func(old Obj) Obj) (old Obj, err error) {
	var obj Obj
	old, _, err = before[Obj](t.core.Modify(txn, q.q, rowOf(&obj), fn))
	return old, err
}

// CompareAndSwap replaces a row as Insert does if its spec has not changed after
// revision; status writes do not count. Otherwise the error matches ErrConflict, or
// ErrNotFound if there is no such row.
func (t *RWTable[Obj]) CompareAndSwap(txn *WriteTxn, revision Revision, obj Obj) (old Obj, err error) {
	old, _, err = before[Obj](t.core.CompareAndSwap(txn, revision, rowOf(&obj)))
	return old, err
}

// Delete removes the row with the primary key of obj. It is not an error if there is none.
func (t *RWTable[Obj]) Delete(txn *WriteTxn, obj Obj) (old Obj, deleted bool, err error) {
	return before[Obj](t.core.Delete(txn, rowOf(&obj)))
}

// CompareAndDelete deletes a row under the conditions, and with the errors, of CompareAndSwap.
func (t *RWTable[Obj]) CompareAndDelete(txn *WriteTxn, revision Revision, obj Obj) (old Obj, err error) {
	old, _, err = before[Obj](t.core.CompareAndDelete(txn, revision, rowOf(&obj)))
	return old, err
}

// DeleteAll removes every row, and returns their number.
func (t *RWTable[Obj]) DeleteAll(txn *WriteTxn) (deleted int, err error) {
	return t.core.DeleteAll(txn)
}

// DeletePrefix removes the rows that [Table.Prefix] yields, and returns their number. The
// error matches ErrUnknownIndex if the table does not have the index.
func (t *RWTable[Obj]) DeletePrefix(txn *WriteTxn, q Query[Obj]) (deleted int, err error) {
	return t.core.DeletePrefix(txn, q.q)
}

// Amend writes status: fn gets the current row with the primary key of obj and returns
// a copy with another status; only the status of the copy is used. Nothing happens, and
// amended is false, if the row is gone or its spec was changed after revision. The
// error matches ErrNotAmendable if the schema has no Amend.
func (t *RWTable[Obj]) Amend(txn *WriteTxn, obj Obj, revision Revision, fn func(current Obj) Obj) (amended bool, err error) {
	return t.core.Amend(txn, rowOf(&obj), revision, fn)
}

// before returns the row of the entry that a write has replaced, if any.
func before[Obj any](e *store.Entry, err error) (obj Obj, was bool, _ error) {
	if e == nil {
		return obj, false, err
	}
	return objectOf[Obj](e), true, err
}

// The queries are repeated here rather than promoted from an embedded Table, because then a
// Table and wrappers of its methods would be compiled for each type of rows, used or not.

// Get is [Table.Get].
func (t *RWTable[Obj]) Get(txn ReadTxn, q Query[Obj]) (obj Obj, revision Revision, ok bool) {
	if e := t.core.Find(txn, q.q); e != nil {
		return objectOf[Obj](e), e.Revision(), true
	}
	return obj, 0, false
}

// GetWatch is [Table.GetWatch].
func (t *RWTable[Obj]) GetWatch(txn ReadTxn, q Query[Obj]) (Obj, Revision, <-chan struct{}, bool) {
	e, watch := t.core.FindWatch(txn, q.q)
	obj, revision, ok := found[Obj](e)
	return obj, revision, watch, ok
}

// List is [Table.List].
func (t *RWTable[Obj]) List(txn ReadTxn, q Query[Obj], opts ...ReadOption) iter.Seq2[Obj, Revision] {
	return rows[Obj](t.core.List(txn, q.q, opts))
}

// ListWatch is [Table.ListWatch].
func (t *RWTable[Obj]) ListWatch(txn ReadTxn, q Query[Obj], opts ...ReadOption) (iter.Seq2[Obj, Revision], <-chan struct{}) {
	selection, watch := t.core.ListWatch(txn, q.q, opts)
	return rows[Obj](selection), watch
}

// Prefix is [Table.Prefix].
func (t *RWTable[Obj]) Prefix(txn ReadTxn, q Query[Obj], opts ...ReadOption) iter.Seq2[Obj, Revision] {
	return rows[Obj](t.core.Prefix(txn, q.q, opts))
}

// PrefixWatch is [Table.PrefixWatch].
func (t *RWTable[Obj]) PrefixWatch(txn ReadTxn, q Query[Obj], opts ...ReadOption) (iter.Seq2[Obj, Revision], <-chan struct{}) {
	selection, watch := t.core.PrefixWatch(txn, q.q, opts)
	return rows[Obj](selection), watch
}

// LowerBound is [Table.LowerBound].
func (t *RWTable[Obj]) LowerBound(txn ReadTxn, q Query[Obj], opts ...ReadOption) iter.Seq2[Obj, Revision] {
	return rows[Obj](t.core.LowerBound(txn, q.q, opts))
}

// LowerBoundWatch is [Table.LowerBoundWatch].
func (t *RWTable[Obj]) LowerBoundWatch(txn ReadTxn, q Query[Obj], opts ...ReadOption) (iter.Seq2[Obj, Revision], <-chan struct{}) {
	selection, watch := t.core.LowerBoundWatch(txn, q.q, opts)
	return rows[Obj](selection), watch
}

// Range is [Table.Range].
func (t *RWTable[Obj]) Range(txn ReadTxn, from, to Query[Obj], opts ...ReadOption) iter.Seq2[Obj, Revision] {
	return rows[Obj](t.core.Range(txn, from.q, to.q, opts))
}

// RangeWatch is [Table.RangeWatch].
func (t *RWTable[Obj]) RangeWatch(txn ReadTxn, from, to Query[Obj], opts ...ReadOption) (iter.Seq2[Obj, Revision], <-chan struct{}) {
	selection, watch := t.core.RangeWatch(txn, from.q, to.q, opts)
	return rows[Obj](selection), watch
}

// All is [Table.All].
func (t *RWTable[Obj]) All(txn ReadTxn, opts ...ReadOption) iter.Seq2[Obj, Revision] {
	return rows[Obj](t.core.All(txn, opts))
}

// AllWatch is [Table.AllWatch].
func (t *RWTable[Obj]) AllWatch(txn ReadTxn, opts ...ReadOption) (iter.Seq2[Obj, Revision], <-chan struct{}) {
	selection, watch := t.core.AllWatch(txn, opts)
	return rows[Obj](selection), watch
}

// Spec is [Table.Spec].
func (t *RWTable[Obj]) Spec(txn ReadTxn, q Query[Obj]) (Revision, bool) { return t.core.Spec(txn, q.q) }

// Key is [Table.Key].
func (t *RWTable[Obj]) Key(obj Obj) string { return t.core.Key(rowOf(&obj)) }

// KeyQuery is [Table.KeyQuery].
func (t *RWTable[Obj]) KeyQuery(obj Obj) Query[Obj] {
	return Query[Obj]{t.core.KeyQuery(rowOf(&obj))}
}

// ParseKey is [Table.ParseKey].
func (t *RWTable[Obj]) ParseKey(index, text string) (Query[Obj], error) {
	q, err := t.core.ParseKey(index, text)
	return Query[Obj]{q}, err
}

// Matches is [Table.Matches].
func (t *RWTable[Obj]) Matches(q Query[Obj], obj Obj) bool { return t.core.Matches(q.q, rowOf(&obj)) }

// Changes is [Table.Changes].
func (t *RWTable[Obj]) Changes(after Revision) *Cursor[Obj] {
	return &Cursor[Obj]{t.core.Changes(after)}
}
