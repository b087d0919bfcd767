package statedb

import (
	"iter"
	"sync/atomic"

	"github.com/statehive/statehive/statedb/internal/window"
)

// ChangeKind says what a [Change] is.
type ChangeKind uint8

const (
	// Upsert: the row was inserted or replaced; Object is the newest row.
	Upsert ChangeKind = iota + 1
	// Delete: the row was deleted; Object is the last one it had.
	Delete
	// Reset: deletes that the cursor had not seen are lost. A listing of the
	// table follows as upserts; what is not in it is gone. Object is not set.
	Reset
)

// Change is one step of a change feed.
type Change[Obj any] struct {
	Kind     ChangeKind
	Object   Obj
	Revision Revision
}

// Cursor follows the changes of a table: folding what it yields gives the table.
// It belongs to one goroutine at a time; only Close may be called from any.
//
// A cursor that starts at 0 first yields a listing in key order, then changes in
// revision order. Values in between may be skipped: an upsert always holds the
// newest row of the snapshot. A cursor may rest as long as it likes: it is then
// served from the table itself, or by a [Reset] if it missed deletes that are
// no longer known, and costs no more than a bounded number of changes kept.
type Cursor[Obj any] struct {
	table  *table[Obj]
	seen   atomic.Uint64 // everything up to here was yielded
	closed atomic.Bool

	// While the table itself is listed, because the window does not reach back
	// far enough: rows changed after floor, with keys after last.
	listing bool
	floor   Revision
	last    []byte // nil before the first row
	until   Revision
	reset   bool // the Reset itself has still to be yielded
}

func (t *table[Obj]) Changes(after Revision) *Cursor[Obj] {
	c := &Cursor[Obj]{table: t}
	c.seen.Store(uint64(after))
	// Under publishMu, so that whatever is not recorded for this cursor is in
	// every snapshot that it will be given.
	t.lock.db.publishMu.Lock()
	defer t.lock.db.publishMu.Unlock()
	t.followMu.Lock()
	defer t.followMu.Unlock()
	t.followers[c] = struct{}{}
	if after == 0 {
		c.listAll(t.newest())
	}
	return c
}

func (t *table[Obj]) newest() *version[Obj] { return t.committed(t.lock.db.ReadTxn()) }

// Close ends the cursor, which then yields nothing. It may be called at any
// time, also inside the loop, and again.
func (c *Cursor[Obj]) Close() {
	c.closed.Store(true)
	c.table.followMu.Lock()
	defer c.table.followMu.Unlock()
	delete(c.table.followers, c)
}

// Next yields the changes between what was yielded before and the snapshot of
// txn. The loop may end early: the rest comes with the next call. What an open
// write transaction has written is not in its snapshot.
func (c *Cursor[Obj]) Next(txn ReadTxn) iter.Seq[Change[Obj]] {
	return func(yield func(Change[Obj]) bool) {
		v := c.table.committed(txn)
		if v == nil || v.rev < Revision(c.seen.Load()) || c.closed.Load() {
			return
		}
		proceed := func(ch Change[Obj]) bool { return yield(ch) && !c.closed.Load() }
		for c.outran(v) {
			if !c.catchUp(v, proceed) {
				return
			}
		}
		c.yieldRecords(v, v.rev, proceed)
	}
}

// Watch returns a channel that closes when Next has more to yield. It is closed
// already when the newest snapshot has something that was not yielded, and when
// the cursor was closed.
func (c *Cursor[Obj]) Watch() <-chan struct{} {
	v := c.table.newest()
	if c.closed.Load() || c.listing || c.reset || Revision(c.seen.Load()) < v.rev {
		return closedWatch
	}
	return v.watch
}

// Lag is the number of revisions that the cursor is behind the newest snapshot.
func (c *Cursor[Obj]) Lag() int {
	rev := c.table.newest().rev
	if seen := Revision(c.seen.Load()); seen < rev {
		return int(rev - seen)
	}
	return 0
}

// listAll begins a listing of all rows of v.
func (c *Cursor[Obj]) listAll(v *version[Obj]) {
	c.listing, c.floor, c.last, c.until = true, 0, nil, v.rev
	c.seen.Store(uint64(v.rev))
}

// outran says whether the table itself has to be asked for what the window of v
// no longer holds, and begins or goes on with that.
func (c *Cursor[Obj]) outran(v *version[Obj]) bool {
	seen := c.seen.Load()
	switch {
	case seen < v.changes.LostDeletes():
		c.reset = true
		c.listAll(v)
	case !c.listing && seen < v.changes.Base():
		c.listing, c.floor, c.last, c.until = true, Revision(seen), nil, v.rev
	}
	return c.listing
}

// catchUp yields the deletes up to the beginning of the listing, of which the
// window still has all, and then the listing. False when the loop has ended.
func (c *Cursor[Obj]) catchUp(v *version[Obj], yield func(Change[Obj]) bool) bool {
	if c.reset {
		c.reset = false
		if !yield(Change[Obj]{Kind: Reset, Revision: v.rev}) {
			return false
		}
	}
	deletes := func(ch Change[Obj]) bool { return ch.Kind != Delete || yield(ch) }
	if !c.yieldRecords(v, c.until, deletes) || !c.yieldListing(v, yield) {
		return false
	}
	c.listing, c.last = false, nil
	return true
}

func (c *Cursor[Obj]) yieldListing(v *version[Obj], yield func(Change[Obj]) bool) bool {
	from := c.last
	if from != nil {
		from = append(from[:len(from):len(from)], 0) // the next possible key
	}
	for _, e := range v.trees[0].LowerBound(from) {
		if e.rev <= c.floor {
			continue
		}
		c.last = e.key
		if !yield(Change[Obj]{Kind: Upsert, Object: e.obj, Revision: e.rev}) {
			return false
		}
	}
	return true
}

// yieldRecords yields what the window has from what was seen to until.
func (c *Cursor[Obj]) yieldRecords(v *version[Obj], until Revision, yield func(Change[Obj]) bool) bool {
	for rev := max(c.seen.Load(), v.changes.Base()) + 1; rev <= uint64(until); rev++ {
		change, current := v.change(v.changes.At(rev))
		c.seen.Store(rev)
		if current && !yield(change) {
			return false
		}
	}
	c.seen.Store(max(c.seen.Load(), uint64(until)))
	return true
}

// change makes a change of a record, if it is the last word on its row.
func (v *version[Obj]) change(r window.Record[*entry[Obj]]) (Change[Obj], bool) {
	e := r.Entry
	current, exists := v.trees[0].Get(e.key)
	if r.Deleted {
		return Change[Obj]{Kind: Delete, Object: e.obj, Revision: e.rev}, !exists
	}
	return Change[Obj]{Kind: Upsert, Object: e.obj, Revision: e.rev}, current == e
}

// minWindow is how many changes are kept for slow cursors of a small table; of
// a large one it is as many as it has rows.
const minWindow = 1 << 16

// record adds the changes of a commit to the window, or nothing when nobody
// follows. The caller holds publishMu.
func (t *table[Obj]) record(w window.Window[*entry[Obj]], records []window.Record[*entry[Obj]], rowCount int) window.Window[*entry[Obj]] {
	t.followMu.Lock()
	defer t.followMu.Unlock()
	if len(t.followers) == 0 {
		return w.Skip(records)
	}
	w = w.Append(records)
	slowest := w.Head()
	for c := range t.followers {
		slowest = min(slowest, c.seen.Load())
	}
	bound := uint64(max(minWindow, rowCount))
	if w.Head() > bound {
		slowest = max(slowest, w.Head()-bound)
	}
	return w.DropBefore(slowest)
}
