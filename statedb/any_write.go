package statedb

import (
	"fmt"
	"strings"
)

func (a anyTable[Obj]) Writable(txn ReadTxn) error {
	if a.t.schema.WritableByName {
		return nil
	}
	writer := "only the program itself writes it"
	if sources := a.Sources(txn); len(sources) > 0 {
		names := make([]string, len(sources))
		for i, s := range sources {
			names[i] = s.Name
		}
		writer = "its rows come from " + strings.Join(names, ", ")
	}
	return &TableError{Table: a.Name(), Err: fmt.Errorf("%w: %s", ErrNotWritable, writer)}
}

// open is that of the table, for writes by name.
func (a anyTable[Obj]) open(txn *WriteTxn) (*writer[Obj], error) {
	w, err := a.t.open(txn)
	if err == nil {
		err = a.Writable(txn)
	}
	return w, err
}

func (a anyTable[Obj]) Insert(txn *WriteTxn, row []byte) (AnyRow, error) {
	return a.write(txn, row, func(Obj, *entry[Obj]) error { return nil })
}

func (a anyTable[Obj]) CompareAndSwap(txn *WriteTxn, revision Revision, row []byte) (AnyRow, error) {
	return a.write(txn, row, func(obj Obj, old *entry[Obj]) error { return a.t.compare(obj, old, revision) })
}

// write writes a row over old, which may be nil, if allowed lets it.
func (a anyTable[Obj]) write(txn *WriteTxn, row []byte, allowed func(obj Obj, old *entry[Obj]) error) (AnyRow, error) {
	if _, err := a.open(txn); err != nil {
		return AnyRow{}, err
	}
	obj, err := decodeRow[Obj](row)
	if err != nil {
		return AnyRow{}, &TableError{Table: a.Name(), Err: fmt.Errorf("%w: %w", ErrBadRow, err)}
	}
	w, key, old, obj, err := a.t.propose(txn, obj)
	if err == nil {
		err = allowed(obj, old)
	}
	if err == nil {
		_, _, err = w.write(txn, key, old, obj)
	}
	if err != nil {
		return AnyRow{}, err
	}
	written := w.row(key)
	return a.row(written.obj, written.rev), nil
}

func (a anyTable[Obj]) Delete(txn *WriteTxn, key string) (AnyRow, bool, error) {
	w, old, err := a.existing(txn, key)
	if err != nil || old == nil {
		return AnyRow{}, false, err
	}
	w.remove(old)
	return a.row(old.obj, old.rev), true, nil
}

func (a anyTable[Obj]) CompareAndDelete(txn *WriteTxn, revision Revision, key string) (AnyRow, error) {
	w, old, err := a.existing(txn, key)
	switch {
	case err != nil:
		return AnyRow{}, err
	case old == nil:
		return AnyRow{}, &RowError{Table: a.Name(), Key: key, Err: ErrNotFound}
	case !old.unchangedSince(revision):
		return AnyRow{}, &RowError{Table: a.Name(), Key: key, Err: ErrConflict}
	}
	w.remove(old)
	return a.row(old.obj, old.rev), nil
}

// existing opens txn and finds the row with a key, or nil.
func (a anyTable[Obj]) existing(txn *WriteTxn, key string) (*writer[Obj], *entry[Obj], error) {
	w, err := a.open(txn)
	if err != nil {
		return nil, nil, err
	}
	q, err := a.primaryQuery(key)
	if err != nil {
		return nil, nil, err
	}
	old := w.row(q.key)
	return w, old, nil
}
