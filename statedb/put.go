package statedb

import (
	"bytes"
	"iter"

	"github.com/statehive/statehive/statedb/index"
)

// indexKey is where an entry stands in a secondary index.
type indexKey struct {
	ix  int
	key []byte
}

// put makes obj the row at key, in place of old, in every index. All of the
// user's functions run before anything changes.
func (w *writer[Obj]) put(key []byte, old *entry[Obj], obj Obj, spec Revision) {
	e := w.newEntry(key, obj)
	e.obj, e.rev, e.spec = obj, w.rev+1, spec
	w.keys = w.table.keys.append(w.keys[:0], w.table.apart, e)
	added := len(w.keys)
	if old != nil {
		w.keys = w.table.keys.append(w.keys, w.table.apart, old)
	}
	w.rev++
	w.tree(0).Insert(e.Key(), e)
	w.putShared(e, old)
	for _, k := range w.keys[:added] {
		if _, had := w.tree(k.ix).Insert(k.key, e); !had {
			w.claim(k, e)
		}
	}
	w.unindex(w.keys[added:], w.keys[:added], old)
	w.log.wrote(e, old)
}

// newEntry makes an entry with all keys that belong into it.
func (w *writer[Obj]) newEntry(key []byte, obj Obj) *entry[Obj] {
	keys := entryKeys{bytes: key, primary: len(key), count: len(w.table.shared)}
	if keys.count == 0 {
		return newEntry[Obj](&keys)
	}
	keys.bytes = w.encoded[:0]
	for i, ix := range w.table.shared {
		keys.bytes = append(w.table.appendOwnKey(keys.bytes, ix, obj), key...)
		keys.ends[i] = len(keys.bytes)
	}
	e := newEntry[Obj](&keys)
	w.encoded = keys.bytes
	return e
}

// putShared makes e lead in the indexes that it is its own leaf of, in place of old.
func (w *writer[Obj]) putShared(e, old *entry[Obj]) {
	for i, ix := range w.table.shared {
		key := e.head(i).Key()
		if _, had := w.tree(ix).Insert(key, e); !had {
			w.claim(indexKey{ix, key}, e)
		}
		if old == nil {
			continue
		}
		if was := old.head(i).Key(); !bytes.Equal(was, key) {
			w.tree(ix).Delete(was)
		}
	}
}

func (w *writer[Obj]) remove(old *entry[Obj]) {
	w.keys = w.table.keys.append(w.keys[:0], w.table.apart, old)
	w.rev++
	w.tree(0).Delete(old.Key())
	for i, ix := range w.table.shared {
		w.tree(ix).Delete(old.head(i).Key())
	}
	w.unindex(w.keys, nil, old)
	w.log.deleted(old)
}

// removeAll removes rows, some of which may come twice.
func (w *writer[Obj]) removeAll(entries iter.Seq2[[]byte, *entry[Obj]]) (removed int) {
	for _, e := range entries {
		if w.row(e.Key()) == e {
			w.remove(e)
			removed++
		}
	}
	return removed
}

// unindex removes what still leads to old: not the keys that its successor has
// taken over, nor those that old has twice.
func (w *writer[Obj]) unindex(keys, taken []indexKey, old *entry[Obj]) {
	for _, k := range keys {
		if w.leads(k, taken, old) {
			w.tree(k.ix).Delete(k.key)
		}
	}
}

// leads says whether a key of old still leads to it. Only an index with many keys
// for a row has to be asked.
func (w *writer[Obj]) leads(k indexKey, taken []indexKey, old *entry[Obj]) bool {
	if w.table.indexes[k.ix].isMulti() {
		e, exists := w.reader(k.ix).Get(k.key)
		return exists && e == old
	}
	return !isTaken(taken, k)
}

func isTaken(taken []indexKey, k indexKey) bool {
	for _, other := range taken {
		if other.ix == k.ix && bytes.Equal(other.key, k.key) {
			return true
		}
	}
	return false
}

// keyMaker makes the keys of entries in secondary indexes. It belongs to one
// goroutine at a time.
type keyMaker[Obj any] struct {
	table    *table[Obj]
	encoders []keyEncoder[Obj] // of all indexes
	scratch  rowKeys
}

func (t *table[Obj]) newKeyMaker() *keyMaker[Obj] {
	m := &keyMaker[Obj]{table: t}
	for _, ix := range t.indexes {
		m.encoders = append(m.encoders, ix.encoder())
	}
	return m
}

// append appends the keys of an entry in some indexes.
func (m *keyMaker[Obj]) append(keys []indexKey, indexes []int, e *entry[Obj]) []indexKey {
	for _, ix := range indexes {
		m.encoders[ix](e.obj, &m.scratch)
		for key := range m.scratch.all() {
			keys = append(keys, indexKey{ix, m.table.secondaryKey(ix, key, e.Key())})
		}
	}
	m.scratch.shrink()
	return keys
}

// appendOwnKey appends what stands before the primary key in a secondary tree, of
// an index with one key for each row.
func (t *table[Obj]) appendOwnKey(buf []byte, ix int, obj Obj) []byte {
	begin := len(buf)
	buf = t.indexes[ix].appendKey(buf, obj)
	if t.indexes[ix].prefixFree() {
		return buf
	}
	return index.Terminate(buf, begin)
}
