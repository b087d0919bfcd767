package statedb

import "fmt"

// Proposal is a write that validators are asked about.
type Proposal[Obj any] struct {
	// Object is the row as it would be written, completed by the defaulters and
	// with its status reset.
	Object Obj
	// Old is the row that it would replace, if Replaces is true.
	Old      Obj
	Replaces bool
}

// view is a write transaction for functions that are to read only.
type view WriteTxn

func (v *view) snapshot() *root               { return (*WriteTxn)(v).snapshot() }
func (v *view) pending(l *tableLock) tableTxn { return (*WriteTxn)(v).pending(l) }

// propose is admit for a row that is to be written, as the defaulters complete it.
func (t *table[Obj]) propose(txn *WriteTxn, obj Obj) (w *writer[Obj], key []byte, old *entry[Obj], completed Obj, err error) {
	w, key, old, err = t.admit(txn, obj)
	if err != nil || len(t.schema.Defaulters) == 0 {
		return w, key, old, obj, err
	}
	if old != nil && t.samePointer(old.obj, obj) {
		return nil, nil, nil, obj, t.rowError(obj, ErrSameObject)
	}
	if completed, err = t.complete(txn, obj); err != nil {
		return nil, nil, nil, obj, err
	}
	w, key, old, err = t.admit(txn, completed)
	return w, key, old, completed, err
}

func (t *table[Obj]) complete(txn *WriteTxn, obj Obj) (Obj, error) {
	for _, fill := range t.schema.Defaulters {
		completed, err := fill((*view)(txn), obj)
		if err != nil {
			return obj, t.rejected(obj, err)
		}
		if t.isNil(completed) {
			return obj, t.rowError(obj, fmt.Errorf("%w, returned by a defaulter", ErrNilRow))
		}
		obj = completed
	}
	return obj, nil
}

func (w *writer[Obj]) validate(txn *WriteTxn, key []byte, old *entry[Obj], obj Obj) error {
	t := w.table
	if len(t.schema.Defaulters)+len(t.schema.Validators) == 0 {
		return nil
	}
	p := Proposal[Obj]{Object: obj}
	if old != nil {
		p.Old, p.Replaces = old.obj, true
	}
	for _, validate := range t.schema.Validators {
		if err := validate((*view)(txn), p); err != nil {
			return t.rejected(obj, err)
		}
	}
	return w.undisturbed(txn, key, old, obj)
}

// undisturbed says whether old, which may be nil, is still what obj would replace,
// after functions were called that may have written it themselves.
func (w *writer[Obj]) undisturbed(txn *WriteTxn, key []byte, old *entry[Obj], obj Obj) error {
	if _, err := w.table.open(txn); err != nil {
		return err
	}
	if w.row(key) != old {
		return w.table.rowError(obj, ErrConflict)
	}
	return nil
}

func (t *table[Obj]) rejected(obj Obj, reason error) error {
	return t.rowError(obj, fmt.Errorf("%w: %w", ErrRejected, reason))
}
