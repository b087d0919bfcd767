package statedb

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"

	"github.com/statehive/statehive/statedb/internal/engine"
	"github.com/statehive/statehive/statedb/internal/invariant"
)

// writer is a table's part of an open write transaction.
type writer[Obj any] struct {
	table   *table[Obj]
	base    *version[Obj]
	trees   []engine.Txn[*entry[Obj]] // nil until the first write to the index
	rev     Revision
	log     changeLog[Obj]
	sources sources
	waiting chan struct{} // see setSources
	keys    []indexKey    // scratch
	lookup  []byte        // scratch for a primary key; see lend
	encoded []byte        // scratch for secondary keys
	claims  []indexKey    // the keys of unique indexes that rows were given

	// What small transactions need, which then costs no allocations.
	fewTrees [fewIndexes]engine.Txn[*entry[Obj]]
	shortKey [32]byte
	fewKeys  [64]byte
}

// fewIndexes is how many most tables have at most.
const fewIndexes = 2

func (t *table[Obj]) begin(base *root) tableTxn {
	v, _ := base.version(&t.lock).(*version[Obj])
	w := &writer[Obj]{table: t, base: v, rev: v.rev, sources: v.sources, log: t.spareLog}
	t.spareLog = changeLog[Obj]{}
	w.lookup, w.encoded, w.trees = w.shortKey[:0], w.fewKeys[:0], w.fewTrees[:]
	if len(t.indexes) > fewIndexes {
		w.trees = make([]engine.Txn[*entry[Obj]], len(t.indexes))
	}
	w.trees = w.trees[:len(t.indexes)]
	return w
}

// lend returns memory for a primary key. Whoever has it gives it back when
// nothing refers to the key any more: functions of the user that run in between
// may write, too.
func (w *writer[Obj]) lend() []byte {
	buf := w.lookup[:0]
	w.lookup = nil
	return buf
}

func (w *writer[Obj]) reader(ix int) engine.Reader[*entry[Obj]] {
	if w.trees[ix] != nil {
		return w.trees[ix]
	}
	return w.base.trees[ix]
}

func (w *writer[Obj]) tree(ix int) engine.Txn[*entry[Obj]] {
	if w.trees[ix] == nil {
		w.trees[ix] = w.base.trees[ix].Txn()
	}
	return w.trees[ix]
}

// row returns the row with a primary key, or nil.
func (w *writer[Obj]) row(key []byte) (e *entry[Obj]) {
	if txn := w.trees[0]; txn != nil {
		e, _ = txn.Get(key)
	} else {
		e, _ = w.base.trees[0].Get(key)
	}
	return e
}

func (w *writer[Obj]) changed() bool {
	return w.rev != w.base.rev || !slices.Equal(w.sources.states, w.base.sources.states)
}

func (w *writer[Obj]) abort() {
	w.returnLog()
	w.abandonWaiting()
}

func (w *writer[Obj]) commit() tableVersion {
	next := &version[Obj]{
		of:      w.table,
		rev:     w.rev,
		sources: w.sources,
		changes: w.table.recordLocked(&w.log, w.rev),
		watch:   &versionWatch{},
	}
	next.makeTrees(len(w.trees))
	for i, txn := range w.trees {
		if txn == nil {
			next.trees[i] = w.base.trees[i]
		} else {
			next.trees[i] = txn.Commit()
		}
	}
	if invariant.Enabled {
		w.mustHold(next)
	}
	w.returnLog()
	return next
}

// returnLog gives the memory of the log to the next writer. The table is locked.
func (w *writer[Obj]) returnLog() {
	w.table.spareLog, w.log = w.log.emptied(), changeLog[Obj]{}
}

func (w *writer[Obj]) published() {
	for _, txn := range w.trees {
		if txn != nil {
			txn.Notify()
		}
	}
	w.base.watch.close()
	w.announceSources()
}

// open returns the table's part of txn for a write.
func (t *table[Obj]) open(txn *WriteTxn) (*writer[Obj], error) {
	switch {
	case txn == nil || txn.closed:
		return nil, &TableError{Table: t.Name(), Err: ErrTxnClosed}
	case txn.base.db != t.lock.db:
		return nil, &TableError{Table: t.Name(), Err: ErrForeignTable}
	}
	w := t.writing(txn)
	if w == nil {
		return nil, &TableError{Table: t.Name(), Err: ErrNotLocked}
	}
	return w, nil
}

func (t *table[Obj]) rowError(obj Obj, err error) error {
	return &RowError{Table: t.Name(), Key: t.Key(obj), Err: err}
}

// admit opens txn for a write of obj and finds the row that it is about.
func (t *table[Obj]) admit(txn *WriteTxn, obj Obj) (w *writer[Obj], key []byte, old *entry[Obj], err error) {
	w, err = t.open(txn)
	if err != nil {
		return nil, nil, nil, err
	}
	if t.isNil(obj) {
		return nil, nil, nil, &TableError{Table: t.Name(), Err: ErrNilRow}
	}
	key = t.schema.Primary.appendKey(w.lend(), obj)
	old = w.row(key)
	return w, key, old, nil
}

// stored is admit for what needs no key of its own.
func (t *table[Obj]) stored(txn *WriteTxn, obj Obj) (w *writer[Obj], old *entry[Obj], err error) {
	w, err = t.open(txn)
	switch {
	case err != nil:
		return nil, nil, err
	case t.isNil(obj):
		return nil, nil, &TableError{Table: t.Name(), Err: ErrNilRow}
	}
	key := t.schema.Primary.appendKey(w.lend(), obj)
	old = w.row(key)
	w.lookup = key
	return w, old, nil
}

// unchangedSince is the test of CompareAndSwap, CompareAndDelete and Amend.
func (e *entry[Obj]) unchangedSince(revision Revision) bool { return e.spec <= revision }

func (t *table[Obj]) Insert(txn *WriteTxn, obj Obj) (Obj, bool, error) {
	w, key, old, obj, err := t.propose(txn, obj)
	if err != nil {
		return *new(Obj), false, err
	}
	before, replaced, err := w.write(txn, key, old, obj)
	w.lookup = key
	return before, replaced, err
}

func (t *table[Obj]) InsertIfAbsent(txn *WriteTxn, obj Obj) (Obj, bool, error) {
	w, key, existing, err := t.admit(txn, obj)
	if err == nil && existing == nil {
		w, key, existing, obj, err = t.propose(txn, obj)
	}
	if err != nil {
		return *new(Obj), false, err
	}
	if existing != nil {
		return existing.obj, false, nil
	}
	_, _, err = w.write(txn, key, nil, obj)
	w.lookup = key
	return *new(Obj), err == nil, err
}

func (t *table[Obj]) Modify(txn *WriteTxn, q Query[Obj], fn func(Obj) Obj) (Obj, error) {
	w, err := t.open(txn)
	if err != nil {
		return *new(Obj), err
	}
	if _, ok := t.indexOf(q.index); !ok {
		return *new(Obj), t.unknownIndex(q.index)
	}
	old := t.find(txn, q)
	if old == nil {
		return *new(Obj), &TableError{Table: t.Name(), Err: fmt.Errorf("%w with %s %q", ErrNotFound, q.index, q.key)}
	}
	obj, err := w.apply(txn, old, fn)
	if err == nil {
		obj, err = t.complete(txn, obj)
	}
	if err == nil {
		err = w.sameKey(old, obj)
	}
	if err != nil {
		return *new(Obj), err
	}
	_, _, err = w.write(txn, old.Key(), old, obj)
	return old.obj, err
}

func (t *table[Obj]) CompareAndSwap(txn *WriteTxn, revision Revision, obj Obj) (Obj, error) {
	w, key, old, obj, err := t.propose(txn, obj)
	if err == nil {
		err = t.compare(obj, old, revision)
	}
	if err != nil {
		return *new(Obj), err
	}
	_, _, err = w.write(txn, key, old, obj)
	w.lookup = key
	return old.obj, err
}

func (t *table[Obj]) compare(obj Obj, old *entry[Obj], revision Revision) error {
	switch {
	case old == nil:
		return t.rowError(obj, ErrNotFound)
	case !old.unchangedSince(revision):
		return t.rowError(obj, ErrConflict)
	}
	return nil
}

func (t *table[Obj]) Delete(txn *WriteTxn, obj Obj) (Obj, bool, error) {
	w, old, err := t.stored(txn, obj)
	if err != nil || old == nil {
		return *new(Obj), false, err
	}
	w.remove(old)
	return old.obj, true, nil
}

func (t *table[Obj]) CompareAndDelete(txn *WriteTxn, revision Revision, obj Obj) (Obj, error) {
	w, old, err := t.stored(txn, obj)
	if err == nil {
		err = t.compare(obj, old, revision)
	}
	if err != nil {
		return *new(Obj), err
	}
	w.remove(old)
	return old.obj, nil
}

func (t *table[Obj]) DeleteAll(txn *WriteTxn) (int, error) {
	w, err := t.open(txn)
	if err != nil {
		return 0, err
	}
	return w.removeAll(w.reader(0).Prefix(nil)), nil
}

func (t *table[Obj]) DeletePrefix(txn *WriteTxn, q Query[Obj]) (int, error) {
	w, err := t.open(txn)
	if err != nil {
		return 0, err
	}
	ix, key, ok := t.prefixKey(q)
	if !ok {
		return 0, t.unknownIndex(q.index)
	}
	return w.removeAll(w.reader(ix).Prefix(key)), nil
}

func (t *table[Obj]) Amend(txn *WriteTxn, obj Obj, revision Revision, fn func(Obj) Obj) (bool, error) {
	w, old, err := t.stored(txn, obj)
	switch {
	case err != nil:
		return false, err
	case !t.Amendable():
		return false, &TableError{Table: t.Name(), Err: ErrNotAmendable}
	case old == nil || !old.unchangedSince(revision):
		return false, nil
	}
	amended, err := w.apply(txn, old, fn)
	if err != nil {
		return false, err
	}
	amended = t.schema.Amend.Carry(amended, old.obj)
	if t.identical == nil || !t.identical(old.obj, amended) {
		w.put(old.Key(), old, amended, old.spec)
	}
	return true, nil
}

// apply calls fn on a row that is about to be replaced by what it returns.
func (w *writer[Obj]) apply(txn *WriteTxn, old *entry[Obj], fn func(Obj) Obj) (Obj, error) {
	t, before := w.table, w.rev
	obj := fn(old.obj)
	if _, err := t.open(txn); err != nil {
		return obj, err
	}
	if w.rev != before {
		if w.row(old.Key()) != old {
			return obj, t.rowError(old.obj, ErrConflict) // fn wrote it itself
		}
	}
	switch {
	case t.isNil(obj):
		return obj, t.rowError(old.obj, ErrNilRow)
	case t.samePointer(old.obj, obj):
		return obj, t.rowError(obj, ErrSameObject)
	}
	return obj, nil
}

func (w *writer[Obj]) sameKey(old *entry[Obj], obj Obj) error {
	key := w.table.schema.Primary.appendKey(w.lend(), obj)
	w.lookup = key
	if !bytes.Equal(key, old.Key()) {
		return w.table.rowError(old.obj, fmt.Errorf("%w, to %q", ErrKeyChanged, w.table.Key(obj)))
	}
	return nil
}

// write is an ordinary write of spec over old, which may be nil: the third rule
// of spec and status.
func (w *writer[Obj]) write(txn *WriteTxn, key []byte, old *entry[Obj], obj Obj) (Obj, bool, error) {
	if old == nil {
		return *new(Obj), false, w.accept(txn, key, nil, w.table.reset(obj))
	}
	if w.table.samePointer(old.obj, obj) {
		return *new(Obj), false, w.table.rowError(obj, ErrSameObject)
	}
	if w.table.Amendable() {
		obj = w.table.schema.Amend.Carry(old.obj, obj)
	}
	if w.table.equal == nil || !w.table.equal(old.obj, obj) {
		if err := w.accept(txn, key, old, w.table.reset(obj)); err != nil {
			return *new(Obj), false, err
		}
	}
	return old.obj, true, nil
}

// accept writes a new spec if the validators let it pass.
func (w *writer[Obj]) accept(txn *WriteTxn, key []byte, old *entry[Obj], obj Obj) error {
	if err := w.validate(txn, key, old, obj); err != nil {
		return err
	}
	w.put(key, old, obj, w.rev+1)
	return nil
}

func (t *table[Obj]) reset(obj Obj) Obj {
	if t.Amendable() {
		return t.schema.Amend.Reset(obj)
	}
	return obj
}

// nilTest returns what tells a nil pointer from a row.
func nilTest[Obj any]() func(Obj) bool {
	switch reflect.TypeFor[Obj]().Kind() {
	case reflect.Pointer, reflect.Interface:
		return func(obj Obj) bool {
			v := reflect.ValueOf(obj)
			return !v.IsValid() || isNilPointer(v)
		}
	}
	return func(Obj) bool { return false }
}

// pointerTest returns what tells whether two rows are one object.
func pointerTest[Obj any]() func(a, b Obj) bool {
	switch reflect.TypeFor[Obj]().Kind() {
	case reflect.Pointer:
		return func(a, b Obj) bool { return any(a) == any(b) }
	case reflect.Interface:
		return func(a, b Obj) bool { return reflect.ValueOf(a).Kind() == reflect.Pointer && any(a) == any(b) }
	}
	return func(Obj, Obj) bool { return false }
}
