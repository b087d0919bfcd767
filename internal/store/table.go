package store

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/statehive/statehive/internal/store/trie"
	"github.com/statehive/statehive/internal/store/window"
)

// Table is a table without the type of its rows: its immutable properties, its lock and its
// cursors. Its methods are safe for concurrent use, except that the methods that write must
// be called from the goroutine of the transaction.
type Table struct {
	db       *DB
	name     string
	slot     int    // in a root; reused once this table was dropped
	order    uint64 // locks are taken in this order; unique
	rows     RowType
	indexes  []*Index // the primary index first
	embedded []int    // secondary indexes with one key per row, whose leaves are parts of entries
	separate []int    // the other secondary indexes

	lock      tableLock
	ids       uint64                 // of transactions on the trees; guarded by lock
	spare     atomic.Pointer[writer] // for the next transaction
	changes   cursorState            // for cursors
	sourceIDs atomic.Uint64          // of registrations
}

// cursorState is the state that a table keeps for cursors, in addition to the window of its versions.
type cursorState struct {
	minWindow int
	mu        sync.Mutex
	cursors   map[*Cursor]struct{}
}

// version is the state of a table in a root. It is immutable.
type version struct {
	of      *Table
	rev     Revision
	deleted Revision              // of the newest delete
	changes *window.Window[Entry] // nil while there are no cursors
	sources *sources
	watch   versionWatch          // closes when the next version is published
	trees   []trie.Tree           // one for each index
	few     [fewIndexes]trie.Tree // backs trees if they fit
}

// fewIndexes is the number of indexes that most tables do not exceed.
const fewIndexes = 2

// makeTrees makes room for n trees.
func (v *version) makeTrees(n int) {
	if n > fewIndexes {
		v.trees = make([]trie.Tree, n)
	} else {
		v.trees = v.few[:n]
	}
}

// window returns the newest changes.
func (v *version) window() window.Window[Entry] {
	if v.changes != nil {
		return *v.changes
	}
	return window.StartingAt[Entry](uint64(v.rev), uint64(v.deleted))
}

// closedWatch is the watch of a result that has already changed.
var closedWatch = func() chan struct{} {
	ch := make(chan struct{})
	close(ch)
	return ch
}()

// versionWatch closes when the next version is published. Its channel is made when it is
// first requested. If the next version has been published by then, it is a closed channel.
type versionWatch struct{ ch atomic.Pointer[chan struct{}] }

func (w *versionWatch) channel() chan struct{} {
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

func newTable(db *DB, name string, rows RowType) *Table {
	rows.kind = kindOf(rows.Type)
	if rows.kind == byPointer {
		rows.New = newPointerEntry
	}
	if rows.Columns == nil {
		rows.setFieldColumns()
	}
	t := &Table{db: db, name: name, rows: rows, indexes: rows.Indexes}
	t.changes = cursorState{minWindow: minWindow, cursors: map[*Cursor]struct{}{}}
	most := MaxEmbedded
	if rows.Size+uintptr(most)*leafSize > trie.MaxDistance {
		most = 0
	}
	for i, ix := range t.indexes {
		switch {
		case i == 0:
		case ix.Multi || len(t.embedded) == most:
			t.separate = append(t.separate, i)
		default:
			t.embedded = append(t.embedded, i)
		}
	}
	return t
}

// MaxRow is the exclusive upper bound of the size of a row, in bytes.
const MaxRow = trie.MaxEntry - 512

func (t *Table) firstVersion() *version {
	v := &version{of: t, sources: noSources}
	v.makeTrees(len(t.indexes))
	for i := range v.trees {
		v.trees[i] = trie.New()
	}
	return v
}

// Name returns the name of the table.
func (t *Table) Name() string { return t.name }

// Untyped returns the table itself.
func (t *Table) Untyped() *Table { return t }

// DB returns the database of the table.
func (t *Table) DB() *DB { return t.db }

// Primary returns the primary index.
func (t *Table) Primary() *Index { return t.indexes[0] }

// Amendable reports whether rows have a status.
func (t *Table) Amendable() bool { return t.rows.Carry != nil }

// Key returns the text of the primary key of a row.
func (t *Table) Key(row unsafe.Pointer) string { return t.indexes[0].text(row) }

// indexOf returns the number of an index, which is found by its address, or else by its
// name and key type.
func (t *Table) indexOf(ix *Index) (i int, ok bool) {
	for i, own := range t.indexes {
		if own == ix {
			return i, true
		}
	}
	if ix == nil {
		return 0, false
	}
	if i, ok = t.indexNamed(ix.Name); ok && t.indexes[i].Key == ix.Key {
		return i, true
	}
	return 0, false
}

func (t *Table) indexNamed(name string) (i int, ok bool) {
	for i, own := range t.indexes {
		if own.Name == name {
			return i, true
		}
	}
	return 0, false
}

// committed returns the table's state in the snapshot of txn, or nil.
func (t *Table) committed(txn ReadTxn) *version {
	r := txn.snapshot()
	if t.slot < len(r.versions) {
		if v := r.versions[t.slot]; v != nil && v.of == t {
			return v
		}
	}
	return nil
}

// newest returns the newest state of the table, or nil when it was dropped.
func (t *Table) newest() *version { return t.committed(t.db.current.Load()) }
