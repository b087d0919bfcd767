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
	ix, ok = t.indexOf(q.index)
	if !ok || ix == 0 || t.indexes[ix].prefixFree() {
		return ix, q.key, ok
	}
	return ix, index.AppendTerminated(nil, q.key), ok
}

// prefixKey is indexKey for everything that starts with the query's key.
func (t *table[Obj]) prefixKey(q Query[Obj]) (ix int, key []byte, ok bool) {
	ix, ok = t.indexOf(q.index)
	if !ok || ix == 0 || t.indexes[ix].prefixFree() {
		return ix, q.key, ok
	}
	return ix, index.AppendEscaped(nil, q.key), ok
}

// secondaryKey is the key of a row's entry in a secondary tree.
func (t *table[Obj]) secondaryKey(ix int, key, primary []byte) []byte {
	full := make([]byte, 0, len(key)+len(primary)+2)
	if t.indexes[ix].prefixFree() {
		full = append(full, key...)
	} else {
		full = index.AppendTerminated(full, key)
	}
	return append(full, primary...)
}

func (t *table[Obj]) Get(txn ReadTxn, q Query[Obj]) (Obj, Revision, bool) {
	if e := t.find(txn, q); e != nil {
		return e.obj, e.rev, true
	}
	return *new(Obj), 0, false
}

func (t *table[Obj]) Spec(txn ReadTxn, q Query[Obj]) (Revision, bool) {
	if e := t.find(txn, q); e != nil {
		return e.spec, true
	}
	return 0, false
}

func (t *table[Obj]) find(txn ReadTxn, q Query[Obj]) *entry[Obj] {
	ix, key, ok := t.indexKey(q)
	if !ok {
		return nil
	}
	if ix == 0 {
		return t.row(txn, key)
	}
	return firstEntry(t.reader(txn, ix), key)
}

// row returns the row with a primary key in what txn sees, or nil.
func (t *table[Obj]) row(txn ReadTxn, key []byte) (e *entry[Obj]) {
	if w := t.writing(txn); w != nil {
		return w.row(key)
	}
	if v := t.committed(txn); v != nil {
		e, _ = v.trees[0].Get(key)
	}
	return e
}

// firstEntry returns the first entry whose key in an index starts with this one.
func firstEntry[Obj any](r engine.Reader[*entry[Obj]], key []byte) *entry[Obj] {
	if r == nil {
		return nil
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

func (t *table[Obj]) List(txn ReadTxn, q Query[Obj], opts ...ReadOption) iter.Seq2[Obj, Revision] {
	ix, key, ok := t.indexKey(q)
	r := t.reader(txn, ix)
	switch {
	case !ok || r == nil:
		return none[Obj]
	case ix == 0:
		e, exists := r.Get(key)
		return single(e, exists, merged(opts))
	}
	o := merged(opts)
	return rows(prefixed(r, key, o), o)
}

func (t *table[Obj]) ListWatch(txn ReadTxn, q Query[Obj], opts ...ReadOption) (iter.Seq2[Obj, Revision], <-chan struct{}) {
	return t.List(txn, q, opts...), t.watchKey(txn, q)
}

func (t *table[Obj]) Prefix(txn ReadTxn, q Query[Obj], opts ...ReadOption) iter.Seq2[Obj, Revision] {
	ix, key, ok := t.prefixKey(q)
	r := t.reader(txn, ix)
	if !ok || r == nil {
		return none[Obj]
	}
	o := merged(opts)
	return rows(prefixed(r, key, o), o)
}

func (t *table[Obj]) PrefixWatch(txn ReadTxn, q Query[Obj], opts ...ReadOption) (iter.Seq2[Obj, Revision], <-chan struct{}) {
	ix, key, ok := t.prefixKey(q)
	return t.Prefix(txn, q, opts...), t.watchPrefix(txn, ix, key, ok)
}

func (t *table[Obj]) LowerBound(txn ReadTxn, q Query[Obj], opts ...ReadOption) iter.Seq2[Obj, Revision] {
	ix, key, ok := t.prefixKey(q)
	r := t.reader(txn, ix)
	if !ok || r == nil {
		return none[Obj]
	}
	o := merged(opts)
	return rows(bounded(r, key, o), o)
}

func (t *table[Obj]) LowerBoundWatch(txn ReadTxn, q Query[Obj], opts ...ReadOption) (iter.Seq2[Obj, Revision], <-chan struct{}) {
	ix, _, ok := t.prefixKey(q)
	return t.LowerBound(txn, q, opts...), t.watchPrefix(txn, ix, nil, ok)
}

func (t *table[Obj]) Range(txn ReadTxn, from, to Query[Obj], opts ...ReadOption) iter.Seq2[Obj, Revision] {
	ix, first, end, ok := t.rangeKeys(from, to)
	r := t.reader(txn, ix)
	if !ok || r == nil {
		return none[Obj]
	}
	o := merged(opts)
	return rows(between(r, first, end, o), o)
}

func (t *table[Obj]) RangeWatch(txn ReadTxn, from, to Query[Obj], opts ...ReadOption) (iter.Seq2[Obj, Revision], <-chan struct{}) {
	ix, first, end, ok := t.rangeKeys(from, to)
	return t.Range(txn, from, to, opts...), t.watchPrefix(txn, ix, commonPrefix(first, end), ok)
}

// rangeKeys is prefixKey for both ends of a range.
func (t *table[Obj]) rangeKeys(from, to Query[Obj]) (ix int, first, end []byte, ok bool) {
	ix, first, ok = t.prefixKey(from)
	toIx, end, toOK := t.prefixKey(to)
	return ix, first, end, ok && toOK && ix == toIx
}

// commonPrefix is what all keys between two keys begin with.
func commonPrefix(a, b []byte) []byte {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return a[:n]
}

func (t *table[Obj]) All(txn ReadTxn, opts ...ReadOption) iter.Seq2[Obj, Revision] {
	r := t.reader(txn, 0)
	if r == nil {
		return none[Obj]
	}
	o := merged(opts)
	return rows(prefixed(r, nil, o), o)
}

func (t *table[Obj]) AllWatch(txn ReadTxn, opts ...ReadOption) (iter.Seq2[Obj, Revision], <-chan struct{}) {
	return t.All(txn, opts...), t.watchPrefix(txn, 0, nil, true)
}

func (t *table[Obj]) Len(txn ReadTxn) int {
	if r := t.reader(txn, 0); r != nil {
		return r.Len()
	}
	return 0
}

func (t *table[Obj]) LenOf(txn ReadTxn, index string) (int, error) {
	ix, ok := t.indexOf(index)
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

func (t *table[Obj]) Matches(q Query[Obj], obj Obj) bool {
	ix, ok := t.indexOf(q.index)
	return ok && t.indexes[ix].has(obj, q.key)
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

func (t *table[Obj]) watchPrefix(txn ReadTxn, ix int, prefix []byte, ok bool) <-chan struct{} {
	return t.watch(txn, ok, func(v *version[Obj]) <-chan struct{} { return v.trees[ix].WatchPrefix(prefix) })
}

func (t *table[Obj]) watch(txn ReadTxn, ok bool, of func(*version[Obj]) <-chan struct{}) <-chan struct{} {
	v := t.committed(txn)
	switch {
	case !ok || txn.snapshot().db != t.lock.db || t.lock.droppedIn(txn.snapshot()):
		return nil // what does not exist never changes
	case v == nil: // a snapshot from before the table
		return closedWatch
	}
	return of(v)
}
