package store

import (
	"bytes"
	"unsafe"

	"github.com/statehive/statehive/internal/store/trie"
	"github.com/statehive/statehive/statedb/index"
)

// put stores a copy of row in every index, replacing old. All of the user's functions run
// before anything changes.
func (w *writer) put(key []byte, at trie.Location, old *Entry, row unsafe.Pointer, spec Revision) {
	t := w.table
	e := w.newEntry(key, row)
	e.rev, e.spec = w.rev+1, spec
	added := 0
	if len(t.separate) > 0 {
		w.keys = w.appendKeys(w.keys[:0], e)
		added = len(w.keys)
		if old != nil {
			w.keys = w.appendKeys(w.keys, old)
		}
	}
	w.rev++
	w.tree(0).Put(e.Key(), unsafe.Pointer(e), at)
	for i, ix := range t.embedded {
		w.putEmbedded(ix, e.leaf(t.rows.Size, i), i, e, old)
	}
	for _, k := range w.keys[:added] {
		if !w.tree(k.ix).Insert(k.key, trie.NewSeparateLeaf(k.key, unsafe.Pointer(e))) {
			w.claim(k, e)
		}
	}
	if old != nil && len(t.separate) > 0 {
		w.unindex(w.keys[added:], old)
	}
	w.log = append(w.log, change{e, old})
}

// putEmbedded puts the i-th secondary leaf of e into its tree, replacing the leaf of old.
func (w *writer) putEmbedded(ix int, leaf *trie.SecondaryLeaf, i int, e, old *Entry) {
	key, same := leaf.Key(), false
	x := w.tree(ix)
	if old != nil {
		was := old.leaf(w.table.rows.Size, i).Key()
		if same = bytes.Equal(was, key); !same {
			x.RemoveLeaf(unsafe.Pointer(old.leaf(w.table.rows.Size, i)))
		}
	}
	if x.Insert(key, unsafe.Pointer(leaf)); !same {
		w.claim(indexKey{ix, key}, e)
	}
}

// newEntry returns an entry with the primary key and all embedded secondary keys.
func (w *writer) newEntry(key []byte, row unsafe.Pointer) *Entry {
	t := w.table
	keys := entryKeys{bytes: key, primary: len(key), count: len(t.embedded)}
	if keys.count == 0 {
		return t.rows.newEntry(row, &keys)
	}
	keys.bytes = w.encoded[:0]
	for i, ix := range t.embedded {
		begin := len(keys.bytes)
		keys.bytes = t.indexes[ix].Append(keys.bytes, row)
		if !t.indexes[ix].PrefixFree {
			keys.bytes = index.Terminate(keys.bytes, begin)
		}
		keys.bytes = append(keys.bytes, key...)
		keys.ends[i] = len(keys.bytes)
	}
	w.encoded = keys.bytes
	return t.rows.newEntry(row, &keys)
}

// remove removes a row from every index.
func (w *writer) remove(old *Entry) {
	t := w.table
	w.keys = w.appendKeys(w.keys[:0], old)
	w.rev++
	w.deleted = w.rev
	w.tree(0).RemoveLeaf(unsafe.Pointer(old))
	for i, ix := range t.embedded {
		w.tree(ix).RemoveLeaf(unsafe.Pointer(old.leaf(t.rows.Size, i)))
	}
	w.unindex(w.keys, old)
	w.log = append(w.log, change{nil, old})
}

// removeAll removes the rows of a range, in which a row may occur more than once.
func (w *writer) removeAll(rows trie.Range) (removed int) {
	var s trie.Scan
	s.Start(&rows)
	for run := s.Next(); len(run) > 0; run = s.Next() {
		for _, leaf := range run {
			if e := (*Entry)(trie.Entry(leaf)); w.row(e.Key()) == e {
				w.remove(e)
				removed++
			}
		}
	}
	return removed
}

// unindex removes the separate keys that still lead to old, each once. It leaves keys that
// lead to its successor.
func (w *writer) unindex(keys []indexKey, old *Entry) {
	for _, k := range keys {
		x := w.tree(k.ix)
		if trie.Entry(x.Get(k.key)) == unsafe.Pointer(old) {
			x.Remove(k.key)
		}
	}
}

// appendKeys appends the keys of an entry in the indexes whose leaves are separate.
func (w *writer) appendKeys(keys []indexKey, e *Entry) []indexKey {
	for _, ix := range w.table.separate {
		keys = w.table.appendKeys(keys, ix, e, &w.scratch)
	}
	return keys
}

func (t *Table) appendKeys(keys []indexKey, ix int, e *Entry, scratch *Keys) []indexKey {
	scratch.of(t.indexes[ix], e.Row())
	for i := range scratch.Ends {
		keys = append(keys, indexKey{ix, t.secondaryKey(ix, scratch.key(i), e.Key())})
	}
	scratch.shrink()
	return keys
}

// secondaryKey returns the key of a row in the tree of a secondary index.
func (t *Table) secondaryKey(ix int, key, primary []byte) []byte {
	full := make([]byte, 0, len(key)+len(primary)+2)
	if t.indexes[ix].PrefixFree {
		full = append(full, key...)
	} else {
		full = index.AppendTerminated(full, key)
	}
	return append(full, primary...)
}
