package store

import (
	"slices"
	"time"

	"github.com/statehive/statehive/internal/store/invariant"
	"github.com/statehive/statehive/internal/store/trie"
	"github.com/statehive/statehive/internal/store/window"
)

// writer is a table's part of an open write transaction. After the transaction has ended, the
// table's next transaction reuses the writer and its memory.
type writer struct {
	table   *Table
	base    *version
	rev     Revision
	deleted Revision // of the newest delete
	trees   []trie.Txn
	opened  []bool // the trees that were written
	log     []change
	claims  []indexKey // new keys of rows in unique indexes

	sources *sources
	waiting chan struct{} // see setSources
	watched []watchPoint  // watches that commit closes in any case

	// Scratch memory.
	lookup  []byte // for a primary key; see keyBuffer
	encoded []byte // for secondary keys
	keys    []indexKey
	scratch Keys
	records []window.Record[Entry]
}

// change is the change of one revision: the entry that it wrote, or nil for a delete, and
// the entry that was current before, or nil.
type change struct{ now, was *Entry }

// indexKey is a key in the tree of a secondary index.
type indexKey struct {
	ix  int
	key []byte
}

func (t *Table) begin(base *root) *writer {
	w := t.spare.Swap(nil)
	if w == nil {
		w = &writer{table: t, trees: make([]trie.Txn, len(t.indexes)), opened: make([]bool, len(t.indexes)), lookup: make([]byte, 0, 32)}
	}
	v := t.committed(base)
	w.base, w.rev, w.deleted, w.sources = v, v.rev, v.deleted, v.sources
	return w
}

// recycle returns the writer, with its memory, to the table for the next transaction. The
// writer's own transaction has ended, so another one may have locked the table already.
func (w *writer) recycle() {
	w.base, w.sources, w.waiting, w.watched = nil, nil, nil, nil
	clear(w.opened)
	w.log, w.claims = emptied(w.log), emptied(w.claims)
	w.lookup, w.encoded, w.keys = shrunk(w.lookup), shrunk(w.encoded), shrunk(w.keys)
	w.table.spare.Store(w)
}

// maxSpare is the number of changes up to which a table keeps the memory between
// transactions.
const maxSpare = 1 << 11

func emptied[T any](s []T) []T {
	if cap(s) > maxSpare {
		return nil
	}
	clear(s)
	return s[:0]
}

// maxScratch is the number of bytes, or keys, of a row up to which a table keeps the
// memory.
const maxScratch = 1 << 8

// shrunk is like emptied, but for memory that was used for several rows in turn: it also
// clears the data of longer rows past the end.
func shrunk[T any](s []T) []T {
	if cap(s) > maxScratch {
		return nil
	}
	clear(s[:cap(s)])
	return s[:0]
}

// keyBuffer returns memory for a primary key. The caller returns it when nothing refers to the
// key any more. Writes by the user's functions that run in between use other memory.
func (w *writer) keyBuffer() []byte {
	buf := w.lookup[:0]
	w.lookup = nil
	return buf
}

// tree returns the transaction on the tree of an index.
func (w *writer) tree(ix int) *trie.Txn {
	x := &w.trees[ix]
	if !w.opened[ix] {
		w.opened[ix] = true
		x.Begin(&w.base.trees[ix], &w.table.ids)
	}
	return x
}

// view returns the tree of an index as of now.
func (w *writer) view(ix int) trie.Tree {
	if w.opened[ix] {
		return w.trees[ix].View()
	}
	return w.base.trees[ix]
}

// locate returns where a primary key belongs.
func (w *writer) locate(key []byte) trie.Location {
	if w.opened[0] {
		return w.trees[0].Locate(key)
	}
	return w.base.trees[0].Locate(key)
}

// row returns the row with a primary key, or nil.
func (w *writer) row(key []byte) *Entry {
	if w.opened[0] {
		return (*Entry)(w.trees[0].Get(key))
	}
	return (*Entry)(w.base.trees[0].Get(key))
}

func (w *writer) changed() bool {
	return w.rev != w.base.rev || w.sources != w.base.sources && !slices.Equal(w.sources.states, w.base.sources.states)
}

// abort discards the writes. The table is still locked.
func (w *writer) abort() {
	for i := range w.trees {
		if w.opened[i] {
			w.trees[i].Discard()
		}
	}
	w.closeWaiting()
	w.recycle()
}

// commit returns the next version. The caller holds publishMu.
func (w *writer) commit() *version {
	v := &version{of: w.table, rev: w.rev, deleted: w.deleted, sources: w.sources, changes: w.recordLocked()}
	v.makeTrees(len(w.trees))
	for i := range w.trees {
		if w.opened[i] {
			v.trees[i] = w.trees[i].Commit()
		} else {
			v.trees[i] = w.base.trees[i]
		}
	}
	if invariant.Enabled {
		w.checkInvariants(v)
	}
	return v
}

// announce wakes goroutines that wait for what the commit has changed, now that it can be
// read.
func (w *writer) announce() {
	for i := range w.trees {
		if w.opened[i] {
			w.trees[i].Notify()
		}
	}
	for _, p := range w.watched {
		p.close(w.base)
	}
	w.base.watch.close()
	w.announceSources()
	w.recycle()
}

// open returns the table's part of txn for a write.
func (t *Table) open(txn *WriteTxn) (*writer, error) {
	switch {
	case txn == nil || txn.closed:
		return nil, &TableError{Table: t.name, Err: ErrTxnClosed}
	case txn.base.db != t.db:
		return nil, &TableError{Table: t.name, Err: ErrForeignTable}
	}
	w := txn.pending(t)
	if w == nil {
		return nil, &TableError{Table: t.name, Err: ErrNotLocked}
	}
	return w, nil
}

// recordLocked returns the window with the changes of the commit, or nil if there are no
// cursors, and marks the entries in it that the commit replaces as dead. The caller holds
// publishMu and will publish the commit.
func (w *writer) recordLocked() *window.Window[Entry] {
	t := w.table
	t.changes.mu.Lock()
	defer t.changes.mu.Unlock()
	if len(t.changes.cursors) == 0 {
		return nil
	}
	before := t.newest() // dropWindow may have published it after the transaction began
	for _, c := range w.log {
		if c.now == nil {
			w.records = append(w.records, window.Record[Entry]{Row: c.was, Deleted: true})
		} else {
			w.records = append(w.records, window.Record[Entry]{Row: c.now})
		}
	}
	changes := before.window()
	bound := max(t.changes.minWindow, before.trees[0].Len()/4)
	next := changes.Trim(window.Bounds{
		Passed:  t.slowestLocked(before.rev),
		Dead:    bound,
		Deletes: bound,
		Records: len(w.records),
	})
	t.recordLagLocked(changes, next)
	next = next.Append(w.records, time.Now())
	w.records = emptied(w.records)
	for _, c := range w.log {
		if c.was != nil && uint64(c.was.rev) > next.Base() { // the window does not hold older ones
			c.was.dead.Store(uint64(w.rev))
			next = next.Bury(uint64(c.was.rev))
		}
	}
	return &next
}

// minWindow is how many dead rows, and how many deletes, are kept for slow cursors of
// a small table. For a large table it is a quarter of its rows.
const minWindow = 1 << 14
