package store

import (
	"iter"
	"unsafe"
)

// This file has the methods for users of a table that know rows only as entries, such as the
// engine of package reconciler.

// KeyText returns the text form of the primary key of an entry.
func (t *Table) KeyText(e *Entry) string { return t.Key(e.Row()) }

// FindKey returns the row with an encoded primary key, or nil.
func (t *Table) FindKey(txn ReadTxn, key []byte) *Entry {
	return t.Find(txn, Query{Index: t.indexes[0], Key: key})
}

// NewEntry returns an entry of a row that is not in the table, with revision 0. It has the
// primary key only and belongs to no index.
func (t *Table) NewEntry(row unsafe.Pointer) *Entry {
	key := t.indexes[0].Append(nil, row)
	return t.rows.newEntry(row, &entryKeys{bytes: key, primary: len(key)})
}

// Entries yields the entries of a selection.
func (s *Selection) Entries() iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		var scan Scan
		scan.Start(s)
		for run := scan.Next(); len(run) > 0; run = scan.Next() {
			for _, leaf := range run {
				if !yield(scan.Entry(leaf)) {
					return
				}
			}
		}
	}
}

// Changes yields the changes that Next yields.
func (c *Cursor) Changes(txn ReadTxn) iter.Seq[Change] {
	return func(yield func(Change) bool) { c.Next(txn, yield) }
}

// AmendEntry amends the row of an entry, as Amend does, if its spec has not changed since the
// entry was written. row is memory for the new row.
func (t *Table) AmendEntry(txn *WriteTxn, e *Entry, row unsafe.Pointer, fn any) (bool, error) {
	w, err := t.open(txn)
	if err != nil {
		return false, err
	}
	if !t.Amendable() {
		return false, &TableError{Table: t.name, Err: ErrNotAmendable}
	}
	to := target{w: w, key: e.Key()}
	if to.relocate() == nil || to.old.spec > e.rev {
		return false, nil
	}
	return to.amend(txn, row, fn)
}
