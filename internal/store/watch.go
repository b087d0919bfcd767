package store

import "github.com/statehive/statehive/internal/store/trie"

// Watches are taken from the committed state, even inside a write transaction, whose commit
// closes them if it changes the rows that they cover. The writes of the transaction before a
// watch was taken are in no version yet, so its commit always closes that watch.

// WatchKey returns the watch of the rows with the query's key.
func (t *Table) WatchKey(txn ReadTxn, q Query) <-chan struct{} {
	ix := t.mustIndex(q.Index)
	return t.watch(txn, watchPoint{ix, t.wholeKey(ix, q.Key), ix != 0})
}

// WatchPrefix returns the watch of the rows with a key that starts with the query's.
func (t *Table) WatchPrefix(txn ReadTxn, q Query) <-chan struct{} {
	ix := t.mustIndex(q.Index)
	return t.watch(txn, watchPoint{ix, t.prefixKey(ix, q.Key), true})
}

// WatchIndex returns the watch of all rows in the index of the query.
func (t *Table) WatchIndex(txn ReadTxn, q Query) <-chan struct{} {
	return t.watch(txn, watchPoint{t.mustIndex(q.Index), nil, true})
}

// WatchRange returns the watch of the rows that [Table.Range] selects.
func (t *Table) WatchRange(txn ReadTxn, from, to Query) <-chan struct{} {
	ix, first, end := t.rangeKeys(from, to)
	return t.watch(txn, watchPoint{ix, commonPrefix(first, end), true})
}

// WatchAll returns the watch of all rows.
func (t *Table) WatchAll(txn ReadTxn) <-chan struct{} { return t.watch(txn, watchPoint{0, nil, true}) }

// Watch returns the watch of the table: of its rows and of the state of its sources.
func (t *Table) Watch(txn ReadTxn) <-chan struct{} {
	v, none := t.watchable(txn)
	if v == nil {
		return none
	}
	return v.watch.channel()
}

// FindWatch is Find with the watch of the rows with the query's key.
func (t *Table) FindWatch(txn ReadTxn, q Query) (*Entry, <-chan struct{}) {
	watch := t.WatchKey(txn, q)
	return t.Find(txn, q), watch
}

// AllWatch is All with the watch of the rows.
func (t *Table) AllWatch(txn ReadTxn, opts []ReadOption) (*Selection, <-chan struct{}) {
	return t.All(txn, opts), t.WatchAll(txn)
}

// ListWatch is List with the watch of the rows.
func (t *Table) ListWatch(txn ReadTxn, q Query, opts []ReadOption) (*Selection, <-chan struct{}) {
	return t.List(txn, q, opts), t.WatchKey(txn, q)
}

// PrefixWatch is Prefix with the watch of the rows.
func (t *Table) PrefixWatch(txn ReadTxn, q Query, opts []ReadOption) (*Selection, <-chan struct{}) {
	return t.Prefix(txn, q, opts), t.WatchPrefix(txn, q)
}

// LowerBoundWatch is LowerBound with the watch of the rows.
func (t *Table) LowerBoundWatch(txn ReadTxn, q Query, opts []ReadOption) (*Selection, <-chan struct{}) {
	return t.LowerBound(txn, q, opts), t.WatchIndex(txn, q)
}

// RangeWatch is Range with the watch of the rows.
func (t *Table) RangeWatch(txn ReadTxn, from, to Query, opts []ReadOption) (*Selection, <-chan struct{}) {
	return t.Range(txn, from, to, opts), t.WatchRange(txn, from, to)
}

// watchable returns the version to watch, or nil and the channel to return as the watch.
func (t *Table) watchable(txn ReadTxn) (v *version, none <-chan struct{}) {
	v = t.committed(txn)
	switch {
	case txn.snapshot().db != t.db || t.droppedIn(txn.snapshot()):
		return nil, nil // a table that does not exist never changes
	case v == nil: // the snapshot is older than the table
		return nil, closedWatch
	}
	return v, nil
}

// watchPoint identifies the keys of an index that a watch covers: one key, or all keys with a prefix.
type watchPoint struct {
	ix     int
	key    []byte
	prefix bool
}

func (t *Table) watch(txn ReadTxn, p watchPoint) <-chan struct{} {
	v, none := t.watchable(txn)
	if v == nil {
		return none
	}
	if w := txn.pending(t); w != nil && w.rev != w.base.rev {
		w.watched = append(w.watched, p)
	}
	newest := func() trie.Tree {
		if now := t.newest(); now != nil {
			return now.trees[p.ix]
		}
		return trie.Tree{} // the table was dropped
	}
	if p.prefix {
		return v.trees[p.ix].WatchPrefix(p.key, newest)
	}
	return v.trees[p.ix].Watch(p.key, newest)
}

// close closes the watch in a version.
func (p watchPoint) close(v *version) {
	if p.prefix {
		v.trees[p.ix].ClosePrefix(p.key)
	} else {
		v.trees[p.ix].CloseKey(p.key)
	}
}

// commonPrefix returns the common prefix of all keys between two keys.
func commonPrefix(a, b []byte) []byte {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return a[:n]
}
