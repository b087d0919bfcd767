package store

import (
	"fmt"
	"iter"
	"unsafe"

	"github.com/statehive/statehive/internal/store/trie"
	"github.com/statehive/statehive/statedb/index"
)

// treeOf returns the tree of an index as txn sees it now, or the zero tree if the table is
// not in its snapshot.
func (t *Table) treeOf(txn ReadTxn, ix int) trie.Tree {
	if w := txn.pending(t); w != nil {
		return w.view(ix)
	}
	if v := t.committed(txn); v != nil {
		return v.trees[ix]
	}
	return trie.Tree{}
}

// mustIndex returns the number of a query's index. It panics if the table does not have the
// index, which is a programming error.
func (t *Table) mustIndex(ix *Index) int {
	i, ok := t.indexOf(ix)
	if !ok {
		panic(fmt.Sprintf("statedb: a query of index %q, which table %q does not have", ix.NameOrNone(), t.name))
	}
	return i
}

// wholeKey returns the bytes for a key in the tree of an index: a whole key of the primary
// tree, the first part of a key in the others.
func (t *Table) wholeKey(ix int, key []byte) []byte {
	if ix == 0 || t.indexes[ix].PrefixFree {
		return key
	}
	return index.AppendTerminated(nil, key)
}

// prefixKey is wholeKey for all keys that start with the given one.
func (t *Table) prefixKey(ix int, key []byte) []byte {
	if ix == 0 || t.indexes[ix].PrefixFree {
		return key
	}
	return index.AppendEscaped(nil, key)
}

// Find returns the first row, by primary key, with the query's key, or nil.
func (t *Table) Find(txn ReadTxn, q Query) *Entry {
	if q.Index != t.indexes[0] {
		if ix := t.mustIndex(q.Index); ix != 0 {
			return t.findSecondary(txn, ix, q.Key)
		}
	}
	if r, ok := txn.(*root); ok { // fast path for the most common type
		if t.slot < len(r.versions) {
			if v := r.versions[t.slot]; v != nil && v.of == t {
				return (*Entry)(v.trees[0].Get(q.Key))
			}
		}
		return nil
	}
	if w := txn.pending(t); w != nil {
		return w.row(q.Key)
	}
	if v := t.committed(txn); v != nil {
		return (*Entry)(v.trees[0].Get(q.Key))
	}
	return nil
}

func (t *Table) findSecondary(txn ReadTxn, ix int, key []byte) *Entry {
	key = t.wholeKey(ix, key)
	if w := txn.pending(t); w != nil && w.opened[ix] {
		return (*Entry)(trie.Entry(w.trees[ix].First(key)))
	}
	if v := t.committed(txn); v != nil {
		return (*Entry)(trie.Entry(v.trees[ix].First(key)))
	}
	return nil
}

// Spec returns the spec revision of the row that Find returns.
func (t *Table) Spec(txn ReadTxn, q Query) (Revision, bool) {
	if e := t.Find(txn, q); e != nil {
		return e.spec, true
	}
	return 0, false
}

// KeyQuery returns the query for the row with the primary key of row.
func (t *Table) KeyQuery(row unsafe.Pointer) Query {
	return Query{t.indexes[0], t.indexes[0].Append(nil, row)}
}

// Matches reports whether a row has the query's key.
func (t *Table) Matches(q Query, row unsafe.Pointer) bool {
	return t.indexes[t.mustIndex(q.Index)].has(row, q.Key)
}

// KeysOf yields the encoded keys of a row in an index. They are valid until the next one.
func (t *Table) KeysOf(ix *Index, row unsafe.Pointer) iter.Seq[[]byte] {
	ix = t.indexes[t.mustIndex(ix)]
	return func(yield func([]byte) bool) {
		var keys Keys
		keys.of(ix, row)
		for i := range keys.Ends {
			if !yield(keys.key(i)) {
				return
			}
		}
	}
}

// Len returns the number of rows.
func (t *Table) Len(txn ReadTxn) int { return t.lenOf(txn, 0) }

// LenOf returns the number of rows in an index, where a row counts once for each of its
// keys.
func (t *Table) LenOf(txn ReadTxn, name string) (int, error) {
	ix, ok := t.indexNamed(name)
	if !ok {
		return 0, t.unknownIndexNamed(name)
	}
	return t.lenOf(txn, ix), nil
}

func (t *Table) lenOf(txn ReadTxn, ix int) int {
	if w := txn.pending(t); w != nil && w.opened[ix] {
		return w.trees[ix].Len()
	}
	if v := t.committed(txn); v != nil {
		return v.trees[ix].Len()
	}
	return 0
}

// IndexVersion identifies a state of an index: if it is the same for two snapshots, queries of
// the index yield the same entries in both. A change of a row without a key in the index does
// not change it.
func (t *Table) IndexVersion(txn ReadTxn, ix *Index) (uint64, error) {
	i, ok := t.indexOf(ix)
	if !ok {
		return 0, t.unknownIndex(ix)
	}
	tree := t.treeOf(txn, i)
	return tree.Version(), nil
}

// Revision returns the revision of the newest change.
func (t *Table) Revision(txn ReadTxn) Revision {
	if w := txn.pending(t); w != nil {
		return w.rev
	}
	if v := t.committed(txn); v != nil {
		return v.rev
	}
	return 0
}

func (t *Table) unknownIndex(ix *Index) error { return t.unknownIndexNamed(ix.NameOrNone()) }
