package store

import (
	"bytes"
	"fmt"
	"unsafe"

	"github.com/statehive/statehive/internal/store/trie"
)

// The write methods get pointers to rows. The store copies the rows and does not keep the
// pointers. Some methods also modify the row, which is the caller's copy.

func (t *Table) rowError(row unsafe.Pointer, err error) error {
	return &RowError{Table: t.name, Key: t.Key(row), Err: err}
}

func (t *Table) nilRow() error { return &TableError{Table: t.name, Err: ErrNilRow} }

// target is a row to be written.
type target struct {
	w   *writer
	key []byte // primary key, in memory of the writer that done returns
	at  trie.Location
	old *Entry // the current row, or nil
}

// admit opens txn for a write of row and locates the current version of the row.
func (to *target) admit(t *Table, txn *WriteTxn, row unsafe.Pointer) (err error) {
	if to.w, err = t.open(txn); err != nil {
		return err
	}
	if t.rows.isNil(row) {
		return t.nilRow()
	}
	to.key = t.indexes[0].Append(to.w.keyBuffer(), row)
	to.locate()
	return nil
}

func (to *target) locate() {
	to.at = to.w.locate(to.key)
	to.old = (*Entry)(to.at.Leaf())
}

// done returns the memory of the key to the writer.
func (to *target) done() { to.w.lookup = to.key }

// propose runs the defaulters on a row to be stored, and admits it.
func (to *target) propose(t *Table, txn *WriteTxn, row unsafe.Pointer) error {
	err := to.admit(t, txn, row)
	if err != nil || t.rows.Defaulters == 0 {
		return err
	}
	to.done()
	if to.old != nil && t.rows.sameObject(to.old.Row(), row) {
		return t.rowError(row, ErrSameObject)
	}
	if err := t.complete(txn, row); err != nil {
		return err
	}
	return to.admit(t, txn, row)
}

func (t *Table) complete(txn *WriteTxn, row unsafe.Pointer) error {
	for i := range t.rows.Defaulters {
		if t.rows.kind != byValue {
			if err := t.completePointer(txn, i, row); err != nil {
				return err
			}
		} else if err := t.rows.Default((*view)(txn), i, row); err != nil {
			return t.rejected(row, err)
		}
	}
	return nil
}

// completePointer runs a defaulter on a row that is a pointer. If the defaulter sets it to nil,
// the error has the key that the row had before.
func (t *Table) completePointer(txn *WriteTxn, i int, row unsafe.Pointer) error {
	key := t.Key(row)
	if err := t.rows.Default((*view)(txn), i, row); err != nil {
		return &RowError{Table: t.name, Key: key, Err: fmt.Errorf("%w: %w", ErrRejected, err)}
	}
	if t.rows.isNil(row) {
		return &RowError{Table: t.name, Key: key, Err: fmt.Errorf("%w, returned by a defaulter", ErrNilRow)}
	}
	return nil
}

func (t *Table) rejected(row unsafe.Pointer, reason error) error {
	return t.rowError(row, fmt.Errorf("%w: %w", ErrRejected, reason))
}

// view is a write transaction for functions that may only read.
type view WriteTxn

func (v *view) snapshot() *root          { return (*WriteTxn)(v).snapshot() }
func (v *view) pending(t *Table) *writer { return (*WriteTxn)(v).pending(t) }

// Insert writes a row and returns the entry that it replaces, or nil if there was none. If
// the row is equal to the old one it returns the old entry too.
func (t *Table) Insert(txn *WriteTxn, row unsafe.Pointer) (old *Entry, err error) {
	var to target
	if err := to.propose(t, txn, row); err != nil {
		return nil, err
	}
	old = to.old
	if err = to.write(txn, row); err != nil {
		old = nil
	}
	to.done()
	return old, err
}

// InsertIfAbsent writes a row if there is none with its primary key. Otherwise it returns
// the existing one.
func (t *Table) InsertIfAbsent(txn *WriteTxn, row unsafe.Pointer) (existing *Entry, err error) {
	var to target
	err = to.admit(t, txn, row)
	if err == nil && to.old == nil && t.rows.Defaulters > 0 {
		to.done()
		err = to.propose(t, txn, row)
	}
	if err != nil {
		return nil, err
	}
	if existing = to.old; existing == nil {
		err = to.write(txn, row)
	}
	to.done()
	return existing, err
}

// Modify replaces the row that a query finds by the result of fn, which [RowType].Apply
// calls, and returns the replaced entry. row is memory for the new row.
func (t *Table) Modify(txn *WriteTxn, q Query, row unsafe.Pointer, fn any) (old *Entry, err error) {
	w, err := t.open(txn)
	if err != nil {
		return nil, err
	}
	ix, ok := t.indexOf(q.Index)
	if !ok {
		return nil, t.unknownIndex(q.Index)
	}
	to := target{w: w}
	if ix == 0 {
		to.key = q.Key
		to.locate()
	} else if to.old = t.findSecondary(txn, ix, q.Key); to.old != nil {
		to.key = to.old.Key()
		to.locate()
	}
	if to.old == nil {
		return nil, &TableError{Table: t.name, Err: fmt.Errorf("%w with %s %q", ErrNotFound, q.Index.Name, q.Key)}
	}
	to.key = to.old.Key()
	if err = to.apply(txn, row, fn); err == nil && t.rows.Defaulters > 0 {
		if err = t.complete(txn, row); err == nil {
			err = to.checkUnchanged(txn, row)
		}
	}
	if err == nil {
		err = to.sameKey(row)
	}
	if err == nil {
		err = to.write(txn, row)
	}
	if err != nil {
		return nil, err
	}
	return to.old, nil
}

// apply calls fn, which stores the new row at row.
func (to *target) apply(txn *WriteTxn, row unsafe.Pointer, fn any) error {
	t, before := to.w.table, to.w.rev
	t.rows.Apply(fn, to.old.Row(), row)
	switch {
	case txn.closed:
		return &TableError{Table: t.name, Err: ErrTxnClosed}
	case to.w.rev != before:
		if old := to.old; to.relocate() != old {
			return t.rowError(old.Row(), ErrConflict) // fn wrote the row itself
		}
	}
	switch {
	case t.rows.isNil(row):
		return t.rowError(to.old.Row(), ErrNilRow)
	case t.rows.sameObject(to.old.Row(), row):
		return t.rowError(row, ErrSameObject)
	}
	return nil
}

// relocate locates the key again, and returns the current row.
func (to *target) relocate() *Entry {
	to.locate()
	return to.old
}

// checkUnchanged returns an error if the user's functions have ended the transaction or
// written the row themselves. It locates the row again.
func (to *target) checkUnchanged(txn *WriteTxn, row unsafe.Pointer) error {
	t := to.w.table
	if txn.closed {
		return &TableError{Table: t.name, Err: ErrTxnClosed}
	}
	if old := to.old; to.relocate() != old {
		return t.rowError(row, ErrConflict)
	}
	return nil
}

// checkUnchangedSince is like checkUnchanged for a row that was located at revision before. It
// does not locate the row again if nothing has been written since. Carry, Equal and Reset must
// not use the database, but no write is lost if they do.
func (to *target) checkUnchangedSince(before Revision, txn *WriteTxn, row unsafe.Pointer) error {
	if !txn.closed && to.w.rev == before {
		return nil
	}
	return to.checkUnchanged(txn, row)
}

func (to *target) sameKey(row unsafe.Pointer) error {
	w := to.w
	key := w.table.indexes[0].Append(w.keyBuffer(), row)
	w.lookup = key
	if !bytes.Equal(key, to.old.Key()) {
		return w.table.rowError(to.old.Row(), fmt.Errorf("%w, to %q", ErrKeyChanged, w.table.Key(row)))
	}
	return nil
}

// CompareAndSwap replaces a row as Insert does, if its spec has not changed after revision.
func (t *Table) CompareAndSwap(txn *WriteTxn, revision Revision, row unsafe.Pointer) (old *Entry, err error) {
	var to target
	err = to.propose(t, txn, row)
	if err == nil {
		err = to.compare(row, revision)
	}
	if err != nil {
		return nil, err
	}
	old = to.old
	err = to.write(txn, row)
	to.done()
	return old, err
}

// compare checks the condition of CompareAndSwap and CompareAndDelete. After an error the
// target must not be used.
func (to *target) compare(row unsafe.Pointer, revision Revision) (err error) {
	switch {
	case to.old == nil:
		err = to.w.table.rowError(row, ErrNotFound)
	case to.old.spec > revision:
		err = to.w.table.rowError(row, ErrConflict)
	default:
		return nil
	}
	to.done()
	return err
}

// Delete removes the row with the primary key of row, and returns its entry, or nil if
// there was none.
func (t *Table) Delete(txn *WriteTxn, row unsafe.Pointer) (old *Entry, err error) {
	var to target
	if err := to.admit(t, txn, row); err != nil {
		return nil, err
	}
	to.done()
	if to.old != nil {
		to.w.remove(to.old)
	}
	return to.old, nil
}

// CompareAndDelete deletes a row if its spec has not changed after revision.
func (t *Table) CompareAndDelete(txn *WriteTxn, revision Revision, row unsafe.Pointer) (old *Entry, err error) {
	var to target
	err = to.admit(t, txn, row)
	if err == nil {
		err = to.compare(row, revision)
	}
	if err != nil {
		return nil, err
	}
	to.done()
	to.w.remove(to.old)
	return to.old, nil
}

// DeleteAll removes every row and returns their number.
func (t *Table) DeleteAll(txn *WriteTxn) (int, error) {
	w, err := t.open(txn)
	if err != nil {
		return 0, err
	}
	all := w.view(0)
	return w.removeAll(all.All()), nil
}

// DeletePrefix removes the rows with a key that starts with the query's, and returns their
// number.
func (t *Table) DeletePrefix(txn *WriteTxn, q Query) (int, error) {
	w, err := t.open(txn)
	if err != nil {
		return 0, err
	}
	ix, ok := t.indexOf(q.Index)
	if !ok {
		return 0, t.unknownIndex(q.Index)
	}
	all := w.view(ix)
	return w.removeAll(all.Prefix(t.prefixKey(ix, q.Key))), nil
}

// Amend writes the status of the row with the primary key of row: fn is applied to the
// current row, and only the status of its result is used. row is also memory for the new
// row. Amend reports whether the row existed, with a spec that was not changed after
// revision.
func (t *Table) Amend(txn *WriteTxn, row unsafe.Pointer, revision Revision, fn any) (bool, error) {
	var to target
	if err := to.admit(t, txn, row); err != nil {
		return false, err
	}
	to.done()
	switch {
	case !t.Amendable():
		return false, &TableError{Table: t.name, Err: ErrNotAmendable}
	case to.old == nil || to.old.spec > revision:
		return false, nil
	}
	return to.amend(txn, row, fn)
}

func (to *target) amend(txn *WriteTxn, row unsafe.Pointer, fn any) (bool, error) {
	t := to.w.table
	to.key = to.old.Key()
	if err := to.apply(txn, row, fn); err != nil {
		return false, err
	}
	before := to.w.rev
	t.rows.Carry(row, to.old.Row(), row)
	if err := to.checkUnchangedSince(before, txn, row); err != nil {
		return false, err
	}
	if t.rows.Identical == nil || !t.rows.Identical(to.old.Row(), row) {
		to.w.put(to.key, to.at, to.old, row, to.old.spec)
	}
	return true, nil
}

// write writes the spec of row: it carries over the status of the old row. If the row then
// equals the old one nothing is written; otherwise its status is reset.
func (to *target) write(txn *WriteTxn, row unsafe.Pointer) error {
	t, before := to.w.table, to.w.rev
	if old := to.old; old != nil {
		if t.rows.sameObject(old.Row(), row) {
			return t.rowError(row, ErrSameObject)
		}
		if t.rows.Carry != nil {
			t.rows.Carry(old.Row(), row, row)
		}
		if t.rows.Equal != nil && t.rows.Equal(old.Row(), row) {
			return nil
		}
	}
	if t.rows.Reset != nil {
		t.rows.Reset(row)
	}
	if t.rows.Validators > 0 {
		if err := to.validate(txn, row); err != nil {
			return err
		}
	}
	if err := to.checkUnchangedSince(before, txn, row); err != nil {
		return err
	}
	to.w.put(to.key, to.at, to.old, row, to.w.rev+1)
	return nil
}

// validate runs all validators on a row, which is rejected if one returns an error.
func (to *target) validate(txn *WriteTxn, row unsafe.Pointer) error {
	t := to.w.table
	var was unsafe.Pointer
	if to.old != nil {
		was = to.old.Row()
	}
	for i := range t.rows.Validators {
		if err := t.rows.Validate((*view)(txn), i, row, was); err != nil {
			return t.rejected(row, err)
		}
	}
	return nil
}
