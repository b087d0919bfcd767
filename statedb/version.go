package statedb

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/statehive/statehive/statedb/internal/engine"
	"github.com/statehive/statehive/statedb/internal/window"
)

// table is the identity of a table and what never changes about it.
type table[Obj any] struct {
	schema  Schema[Obj]
	indexes []Indexer[Obj] // the primary one first
	names   []string       // of the indexes
	keys    *keyMaker[Obj] // of whoever holds the lock
	shared  []int          // secondary indexes of which entries are their own leaves
	apart   []int          // the other secondary ones

	equal       func(a, b Obj) bool // the same spec, status being the same; or nil
	identical   func(a, b Obj) bool // nothing at all differs; or nil
	isNil       func(Obj) bool
	samePointer func(a, b Obj) bool

	columns columns[Obj]
	lock    tableLock

	minWindow int
	spareLog  changeLog[Obj] // for the next writer; of whoever holds the lock

	followMu  sync.Mutex
	followers map[*Cursor[Obj]]struct{}
}

// version is the state of a table in a root: immutable.
type version[Obj any] struct {
	of      *table[Obj]
	trees   []engine.Tree[*entry[Obj]] // one for each index
	rev     Revision
	changes window.Window[entry[Obj]]
	sources sources
	watch   *versionWatch

	fewTrees [fewIndexes]engine.Tree[*entry[Obj]] // where trees is, if it is not longer
}

// makeTrees makes room for the trees of so many indexes.
func (v *version[Obj]) makeTrees(n int) {
	if n > fewIndexes {
		v.trees = make([]engine.Tree[*entry[Obj]], n)
	} else {
		v.trees = v.fewTrees[:n]
	}
}

func (v *version[Obj]) table() TableMeta { return v.of }

// versionWatch closes when the next version is published. It is made when
// somebody asks for it; who asks too late gets a closed one.
type versionWatch struct{ ch atomic.Pointer[chan struct{}] }

func (w *versionWatch) channel() <-chan struct{} {
	if ch := w.ch.Load(); ch != nil {
		return *ch
	}
	fresh := make(chan struct{})
	if w.ch.CompareAndSwap(nil, &fresh) {
		return fresh
	}
	return *w.ch.Load()
}

func (w *versionWatch) close() {
	if ch := w.ch.Swap(&closedWatch); ch != nil {
		close(*ch)
	}
}

func (w *versionWatch) closed() bool { return w.ch.Load() == &closedWatch }

func newTable[Obj any](db *DB, schema Schema[Obj]) *table[Obj] {
	t := &table[Obj]{
		schema:      schema,
		indexes:     append([]Indexer[Obj]{schema.Primary}, schema.Secondary...),
		equal:       schema.equality(),
		identical:   identity[Obj](),
		isNil:       nilTest[Obj](),
		samePointer: pointerTest[Obj](),
		columns:     schema.columns(),
		lock:        newTableLock(db),
		minWindow:   minWindow,
		followers:   map[*Cursor[Obj]]struct{}{},
	}
	t.keys = t.newKeyMaker()
	for i, ix := range t.indexes {
		t.names = append(t.names, ix.Name())
		switch {
		case i == 0:
		case ix.isMulti() || len(t.shared) == mostShared[Obj]():
			t.apart = append(t.apart, i)
		default:
			t.shared = append(t.shared, i)
		}
	}
	return t
}

// indexOf returns the place of an index by its name. There are few, so looking at
// each is faster than a map.
func (t *table[Obj]) indexOf(name string) (ix int, ok bool) {
	ix = slices.Index(t.names, name)
	return max(ix, 0), ix >= 0
}

func (t *table[Obj]) secondaries() []int { return slices.Concat(t.shared, t.apart) }

func (t *table[Obj]) empty() *version[Obj] {
	v := &version[Obj]{of: t, watch: &versionWatch{}, sources: noSources()}
	v.makeTrees(len(t.indexes))
	for i := range t.indexes {
		v.trees[i] = t.emptyTree(i)
	}
	return v
}

func (t *table[Obj]) Name() string         { return t.schema.Name }
func (t *table[Obj]) lockable() *tableLock { return &t.lock }
func (t *table[Obj]) Amendable() bool      { return t.schema.Amend.enabled() }
func (t *table[Obj]) Key(obj Obj) string   { return t.schema.Primary.format(obj) }
func (t *table[Obj]) erased() AnyTable     { return anyTable[Obj]{t} }

// committed returns the table's state in the snapshot of txn, or nil.
func (t *table[Obj]) committed(txn ReadTxn) *version[Obj] {
	if v, ok := txn.snapshot().version(&t.lock).(*version[Obj]); ok && v.of == t {
		return v
	}
	return nil
}

// writing returns the table's part of an open write transaction, or nil.
func (t *table[Obj]) writing(txn ReadTxn) *writer[Obj] {
	w, _ := txn.pending(&t.lock).(*writer[Obj])
	return w
}

// primaryKey encodes the primary key of a row.
func (t *table[Obj]) primaryKey(obj Obj) []byte { return t.schema.Primary.appendKey(nil, obj) }
