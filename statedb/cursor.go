package statedb

import (
	"iter"
	"slices"
	"sync/atomic"
	"time"
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
// It belongs to one goroutine at a time; only Close, Lag and LagTime may be
// called from any. [Follow] is the loop that most of its users need.
//
// A cursor that starts at 0 first yields a listing in key order, then changes in
// revision order. Values in between may be skipped: an upsert always holds the
// newest row of the snapshot; a row may also come twice. A cursor may rest as
// long as it likes: it is then served from the table itself, or by a [Reset] if
// it missed deletes that are no longer known, and costs no more than a bounded
// number of changes kept.
//
// Once a loop over Next has run to its end, the table as it was in that snapshot
// has been delivered: if [Table.Initialized] is true of the same snapshot, so
// has everything that made it true.
type Cursor[Obj any] struct {
	table  *table[Obj]
	closed atomic.Bool
	passed atomic.Uint64             // records up to here need not be kept for this cursor
	late   atomic.Pointer[time.Time] // when the first change not seen was committed, if the window does not tell

	seen    Revision           // records up to here have been dealt with
	newest  Revision           // of the snapshots that Next has worked on
	drained <-chan struct{}    // the watch of the snapshot that was yielded to its end, or nil
	start   bool               // the first listing has still to begin
	reset   bool               // a Reset has still to be yielded
	ended   bool               // the table was dropped
	listing *tableListing[Obj] // while the table itself is listed
}

// tableListing is how far a cursor has come in the table itself, which serves it
// when the window does not reach back far enough: rows newer than floor, in key
// order, behind the row last. Changes after until come from the window again.
type tableListing[Obj any] struct {
	floor, until Revision
	last         *entry[Obj] // nil before the first row
}

func (t *table[Obj]) Changes(after Revision) *Cursor[Obj] {
	c := &Cursor[Obj]{table: t, seen: after}
	// Under publishMu, so that no commit comes between the look at the newest
	// state and the recording of changes for this cursor.
	t.lock.db.publishMu.Lock()
	defer t.lock.db.publishMu.Unlock()
	v := t.newest()
	if v == nil {
		c.ended = true
		return c
	}
	switch {
	case after == v.rev:
		c.drained = v.watch.channel()
	case after == 0:
		c.start = true
	case after > v.rev: // not a revision of this table
		c.start, c.reset, c.seen = true, true, 0
	}
	c.passed.Store(uint64(v.rev))
	if !c.start {
		c.passed.Store(uint64(after))
		now := time.Now() // as far as is known
		c.late.Store(&now)
	}
	t.followMu.Lock()
	defer t.followMu.Unlock()
	t.followers[c] = struct{}{}
	return c
}

// newest returns the newest state of the table, or nil when it was dropped.
func (t *table[Obj]) newest() *version[Obj] { return t.committed(t.lock.db.ReadTxn()) }

// Close ends the cursor, which then yields nothing. It may be called at any
// time, also inside the loop, and again.
func (c *Cursor[Obj]) Close() {
	c.closed.Store(true)
	if c.table.unfollow(c) {
		c.table.forget()
	}
}

// Next yields the changes between what was yielded before and the snapshot of
// txn, and nothing if an earlier call was given a newer snapshot. The loop may
// end early: the rest comes with the next call. What an open write transaction
// has written is not in its snapshot.
func (c *Cursor[Obj]) Next(txn ReadTxn) iter.Seq[Change[Obj]] {
	return func(yield func(Change[Obj]) bool) {
		v := c.table.committed(txn)
		c.ended = c.ended || c.table.lock.droppedIn(txn.snapshot())
		if v == nil || v.rev < c.newest || c.closed.Load() {
			return
		}
		c.newest, c.drained = v.rev, nil
		defer func() { c.passed.Store(uint64(c.seen)) }()
		proceed := func(ch Change[Obj]) bool { return yield(ch) && !c.closed.Load() }
		for c.outran(v) {
			if !c.catchUp(v, proceed) {
				return
			}
		}
		if c.yieldRecords(v, v.rev, proceed) {
			c.drained = v.watch.channel()
		}
	}
}

// Watch returns a channel that closes when a snapshot newer than the last one
// given to Next may have more to yield, or says something else of the table's
// sources. It is closed already when the last loop over Next ended early, and
// when the cursor is closed; closing the cursor later does not close it.
//
// It closes when the table is dropped, and is nil, which never closes, once Next
// was given a snapshot from after that.
func (c *Cursor[Obj]) Watch() <-chan struct{} {
	switch {
	case c.closed.Load():
		return closedWatch
	case c.ended:
		return nil
	case c.drained == nil:
		return closedWatch
	}
	return c.drained
}

// Err returns an error that matches [ErrDropped] once Next was given a snapshot
// from after the drop of the table: nothing more will come. It is nil otherwise.
func (c *Cursor[Obj]) Err() error {
	if c.ended {
		return &TableError{Table: c.table.Name(), Err: ErrDropped}
	}
	return nil
}

// Seen is the revision up to which everything has been yielded. It does not move
// while the table is being listed, and is 0 again after a [Reset] until all of
// the listing has come.
func (c *Cursor[Obj]) Seen() Revision {
	switch {
	case c.listing != nil:
		return c.listing.floor
	case c.start:
		return 0
	}
	return c.seen
}

// Lag is the number of revisions that the cursor is behind the newest snapshot.
// A listing counts as seen once it has begun.
func (c *Cursor[Obj]) Lag() int {
	v := c.table.newest()
	if passed := Revision(c.passed.Load()); v != nil && passed < v.rev {
		return int(v.rev - passed)
	}
	return 0
}

// LagTime is how long ago the first change that the cursor has not seen was
// committed, to the millisecond, and 0 when it has seen all. Changes from before
// the cursor was opened count from then on if they are no longer kept.
func (c *Cursor[Obj]) LagTime() time.Duration {
	v, passed := c.table.newest(), c.passed.Load()
	if v == nil || passed >= uint64(v.rev) {
		return 0
	}
	if at, known := v.changes.Committed(passed + 1); known {
		return time.Since(at)
	}
	if at := c.late.Load(); at != nil {
		return time.Since(*at)
	}
	return 0
}

// outran says whether the table itself has to be asked for what the window of v
// no longer holds, and begins or goes on with that.
func (c *Cursor[Obj]) outran(v *version[Obj]) bool {
	switch {
	case c.start:
		c.start = false
		c.listAll(v)
	case c.seen < Revision(v.changes.LostDeletes()):
		c.reset = true
		c.listAll(v)
	case c.listing == nil && c.seen < Revision(v.changes.Base()):
		c.listing = &tableListing[Obj]{floor: c.seen, until: v.rev}
	}
	return c.listing != nil
}

// listAll begins a listing of all rows, after which no earlier record matters.
func (c *Cursor[Obj]) listAll(v *version[Obj]) {
	c.listing = &tableListing[Obj]{until: v.rev}
	c.seen = v.rev
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
	if !c.yieldDeletes(v, c.listing.until, yield) || !c.yieldListing(v, yield) {
		return false
	}
	c.listing = nil
	return true
}

func (c *Cursor[Obj]) yieldListing(v *version[Obj], yield func(Change[Obj]) bool) bool {
	l := c.listing
	var from []byte
	if l.last != nil {
		from = append(slices.Clip(l.last.Key()), 0) // the next possible key
	}
	for _, e := range v.trees[0].LowerBound(from) {
		if e.rev <= l.floor || e.rev > l.until { // seen, or still to come as a record
			continue
		}
		l.last = e
		if !yield(Change[Obj]{Kind: Upsert, Object: e.obj, Revision: e.rev}) {
			return false
		}
	}
	return true
}

// yieldRecords yields what the window has from what was seen to until, except
// what is not the last word on its row.
func (c *Cursor[Obj]) yieldRecords(v *version[Obj], until Revision, yield func(Change[Obj]) bool) bool {
	for rev, r := range v.changes.Records(uint64(c.seen), uint64(until)) {
		c.seen = Revision(rev)
		switch {
		case r.Deleted:
			if !v.yieldDelete(r.Row, c.seen, yield) {
				return false
			}
		case r.Row.current(v):
			if !yield(Change[Obj]{Kind: Upsert, Object: r.Row.obj, Revision: c.seen}) {
				return false
			}
		}
	}
	return true
}

// yieldDeletes is yieldRecords for deletes alone, which the window may have
// where it does not have the rows.
func (c *Cursor[Obj]) yieldDeletes(v *version[Obj], until Revision, yield func(Change[Obj]) bool) bool {
	for rev, e := range v.changes.Deletes(uint64(c.seen), uint64(until)) {
		c.seen = Revision(rev)
		if !v.yieldDelete(e, c.seen, yield) {
			return false
		}
	}
	c.seen = max(c.seen, until)
	return true
}

func (v *version[Obj]) yieldDelete(e *entry[Obj], at Revision, yield func(Change[Obj]) bool) bool {
	if _, exists := v.trees[0].Get(e.Key()); exists {
		return true // it is back
	}
	return yield(Change[Obj]{Kind: Delete, Object: e.obj, Revision: at})
}
