package statedb

import (
	"iter"

	"github.com/statehive/statehive/statedb/index"
	"github.com/statehive/statehive/statedb/internal/engine"
)

// closedWatch is a watch whose result has changed already.
var closedWatch = func() chan struct{} {
	ch := make(chan struct{})
	close(ch)
	return ch
}()

// reader returns what txn sees of an index, or nil when it does not know the table.
func (t *table[Obj]) reader(txn ReadTxn, ix int) engine.Reader[*entry[Obj]] {
	if w := t.writing(txn); w != nil {
		return w.reader(ix)
	}
	if v := t.committed(txn); v != nil {
		return v.trees[ix]
	}
	return nil
}

// indexKey returns the index of a query and the bytes that stand for its key
// there: a whole key of the primary tree, the first part of one elsewhere.
func (t *table[Obj]) indexKey(q Query[Obj]) (ix int, key []byte, ok bool) {
	ix, ok = t.byName[q.index]
	if !ok || ix == 0 || t.indexes[ix].prefixFree() {
		return ix, q.key, ok
	}
	return ix, index.AppendTerminated(nil, q.key), ok
}

// prefixKey is indexKey for everything that starts with the query's key.
func (t *table[Obj]) prefixKey(q Query[Obj]) (ix int, key []byte, ok bool) {
	ix, ok = t.byName[q.index]
	if !ok || ix == 0 || t.indexes[ix].prefixFree() {
		return ix, q.key, ok
	}
	return ix, index.AppendEscaped(nil, q.key), ok
}

// secondaryKey is the key of a row's entry in a secondary tree.
func (t *table[Obj]) secondaryKey(ix int, key, primary []byte) []byte {
	if t.indexes[ix].prefixFree() {
		return append(key, primary...)
	}
	full := make([]byte, 0, len(key)+len(primary)+2)
	return append(index.AppendTerminated(full, key), primary...)
}

func (t *table[Obj]) Get(txn ReadTxn, q Query[Obj]) (Obj, Revision, bool) {
	ix, key, ok := t.indexKey(q)
	if !ok {
		return *new(Obj), 0, false
	}
	e := t.first(t.reader(txn, ix), ix, key)
	if e == nil {
		return *new(Obj), 0, false
	}
	return e.obj, e.rev, true
}

func (t *table[Obj]) first(r engine.Reader[*entry[Obj]], ix int, key []byte) *entry[Obj] {
	switch {
	case r == nil:
		return nil
	case ix == 0:
		e, _ := r.Get(key)
		return e
	}
	for _, e := range r.Prefix(key) {
		return e
	}
	return nil
}

func (t *table[Obj]) GetWatch(txn ReadTxn, q Query[Obj]) (Obj, Revision, <-chan struct{}, bool) {
	watch := t.watchKey(txn, q)
	obj, rev, ok := t.Get(txn, q)
	return obj, rev, watch, ok
}

func (t *table[Obj]) List(txn ReadTxn, q Query[Obj]) iter.Seq2[Obj, Revision] {
	ix, key, ok := t.indexKey(q)
	r := t.reader(txn, ix)
	switch {
	case !ok || r == nil:
		return none[Obj]
	case ix == 0:
		return single(r.Get(key))
	}
	return rows(r.Prefix(key))
}

func (t *table[Obj]) ListWatch(txn ReadTxn, q Query[Obj]) (iter.Seq2[Obj, Revision], <-chan struct{}) {
	return t.List(txn, q), t.watchKey(txn, q)
}

func (t *table[Obj]) Prefix(txn ReadTxn, q Query[Obj]) iter.Seq2[Obj, Revision] {
	ix, key, ok := t.prefixKey(q)
	r := t.reader(txn, ix)
	if !ok || r == nil {
		return none[Obj]
	}
	return rows(r.Prefix(key))
}

func (t *table[Obj]) PrefixWatch(txn ReadTxn, q Query[Obj]) (iter.Seq2[Obj, Revision], <-chan struct{}) {
	return t.Prefix(txn, q), t.watchPrefix(txn, q)
}

func (t *table[Obj]) LowerBound(txn ReadTxn, q Query[Obj]) iter.Seq2[Obj, Revision] {
	ix, key, ok := t.prefixKey(q)
	r := t.reader(txn, ix)
	if !ok || r == nil {
		return none[Obj]
	}
	return rows(r.LowerBound(key))
}

func (t *table[Obj]) LowerBoundWatch(txn ReadTxn, q Query[Obj]) (iter.Seq2[Obj, Revision], <-chan struct{}) {
	return t.LowerBound(txn, q), t.watchAll(txn)
}

func (t *table[Obj]) All(txn ReadTxn) iter.Seq2[Obj, Revision] {
	r := t.reader(txn, 0)
	if r == nil {
		return none[Obj]
	}
	return rows(r.Prefix(nil))
}

func (t *table[Obj]) AllWatch(txn ReadTxn) (iter.Seq2[Obj, Revision], <-chan struct{}) {
	return t.All(txn), t.watchAll(txn)
}

func (t *table[Obj]) Len(txn ReadTxn) int {
	if r := t.reader(txn, 0); r != nil {
		return r.Len()
	}
	return 0
}

func (t *table[Obj]) LenOf(txn ReadTxn, index string) (int, error) {
	ix, ok := t.byName[index]
	if !ok {
		return 0, t.unknownIndex(index)
	}
	if r := t.reader(txn, ix); r != nil {
		return r.Len(), nil
	}
	return 0, nil
}

func (t *table[Obj]) Revision(txn ReadTxn) Revision {
	if w := t.writing(txn); w != nil {
		return w.rev
	}
	if v := t.committed(txn); v != nil {
		return v.rev
	}
	return 0
}

func (t *table[Obj]) KeyQuery(obj Obj) Query[Obj] {
	return Query[Obj]{index: t.schema.Primary.Name(), key: t.primaryKey(obj)}
}

// The watches come from the committed state, also inside a write transaction:
// its commit closes them if it changed anything there.

func (t *table[Obj]) watchKey(txn ReadTxn, q Query[Obj]) <-chan struct{} {
	ix, key, ok := t.indexKey(q)
	return t.watch(txn, ok, func(v *version[Obj]) <-chan struct{} {
		if ix == 0 {
			return v.trees[0].Watch(key)
		}
		return v.trees[ix].WatchPrefix(key)
	})
}

func (t *table[Obj]) watchPrefix(txn ReadTxn, q Query[Obj]) <-chan struct{} {
	ix, key, ok := t.prefixKey(q)
	return t.watch(txn, ok, func(v *version[Obj]) <-chan struct{} { return v.trees[ix].WatchPrefix(key) })
}

func (t *table[Obj]) watchAll(txn ReadTxn) <-chan struct{} {
	return t.watch(txn, true, func(v *version[Obj]) <-chan struct{} { return v.trees[0].WatchPrefix(nil) })
}

func (t *table[Obj]) watch(txn ReadTxn, ok bool, of func(*version[Obj]) <-chan struct{}) <-chan struct{} {
	v := t.committed(txn)
	switch {
	case !ok || txn.snapshot().db != t.lock.db:
		return nil // what does not exist never changes
	case v == nil: // a snapshot from before the table
		return closedWatch
	}
	return of(v)
}

func none[Obj any](func(Obj, Revision) bool) {}

func single[Obj any](e *entry[Obj], ok bool) iter.Seq2[Obj, Revision] {
	return func(yield func(Obj, Revision) bool) {
		if ok {
			yield(e.obj, e.rev)
		}
	}
}

func rows[Obj any](entries iter.Seq2[[]byte, *entry[Obj]]) iter.Seq2[Obj, Revision] {
	return func(yield func(Obj, Revision) bool) {
		for _, e := range entries {
			if !yield(e.obj, e.rev) {
				return
			}
		}
	}
}
