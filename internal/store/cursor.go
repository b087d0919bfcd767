package store

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/statehive/statehive/internal/store/trie"
)

// ChangeKind is the kind of a [Change].
type ChangeKind uint8

const (
	// Upsert means that the row was inserted or replaced; Entry is its newest version.
	Upsert ChangeKind = iota + 1
	// Delete means that the row was deleted; Entry is its last version.
	Delete
	// Reset means that deletes which the cursor has not yielded are no longer known. A
	// listing of the table follows as upserts; rows that are not in it are gone.
	Reset
)

// Change is one step of a change feed.
type Change struct {
	Kind     ChangeKind
	Entry    *Entry // nil for a Reset
	Revision Revision
}

// Cursor follows the changes of a table: applying them in order gives the contents of the
// table. It belongs to one goroutine at a time; only Close, Lag and LagTime are safe for
// concurrent use. [Follow] is the loop that most callers need.
//
// A cursor that starts at 0 first yields a listing in key order, then changes in revision
// order. Intermediate versions may be skipped: an upsert always has the newest version of
// the row in the snapshot. A row may also be yielded twice. A cursor may be idle for any
// time: it is then served from the table itself, or by a [Reset] if it missed deletes that
// are no longer known. Only a bounded number of changes is kept for it.
//
// Once a loop over Next has run to its end, the state of the table in that snapshot has
// been delivered. If [Table.Initialized] reports true for the same snapshot, that includes
// the initial state.
type Cursor struct {
	table  *Table
	closed atomic.Bool
	passed atomic.Uint64             // records up to this revision need not be kept for this cursor
	late   atomic.Pointer[time.Time] // when the first unseen change was committed, if the window does not know

	seen    Revision        // records up to this revision have been processed
	newest  Revision        // of the snapshots given to Next
	drained <-chan struct{} // the watch of the snapshot that was yielded to its end, or nil
	start   bool            // the first listing has not begun
	reset   bool            // a Reset has not been yielded yet
	ended   bool            // the table was dropped
	listing *tableListing   // while the table itself is listed
}

// tableListing is the position of a cursor in the table itself, which is read when the
// window does not reach back far enough. The cursor yields rows newer than floor, in key
// order, after the row last. Changes after until are read from the window again.
type tableListing struct {
	floor, until Revision
	last         *Entry // nil before the first row
}

// Changes opens a cursor on the changes after a revision: 0 starts with a listing of the
// table, the table's current revision with the next change. The cursor must be closed.
func (t *Table) Changes(after Revision) *Cursor {
	c := &Cursor{table: t, seen: after}
	// Hold publishMu, so that no commit falls between reading the newest state and
	// recording changes for this cursor.
	t.db.publishMu.Lock()
	defer t.db.publishMu.Unlock()
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
	case after > v.rev: // the table has not had this revision
		c.start, c.reset, c.seen = true, true, 0
	}
	c.passed.Store(uint64(v.rev))
	if !c.start {
		c.passed.Store(uint64(after))
		now := time.Now() // the actual time is unknown
		c.late.Store(&now)
	}
	t.changes.mu.Lock()
	defer t.changes.mu.Unlock()
	t.changes.cursors[c] = struct{}{}
	return c
}

// Close ends the cursor, which yields nothing afterwards. It may be called at any time,
// even inside the loop, and more than once.
func (c *Cursor) Close() {
	c.closed.Store(true)
	if c.table.removeCursor(c) {
		c.table.dropWindow()
	}
}

// Next yields the changes between what it has already yielded and the snapshot of txn, and
// nothing if an earlier call was given a newer snapshot. The loop may end early: the next
// call yields the rest. The snapshot of a write transaction does not have its uncommitted
// writes.
func (c *Cursor) Next(txn ReadTxn, yield func(Change) bool) {
	v := c.table.committed(txn)
	c.ended = c.ended || c.table.droppedIn(txn.snapshot())
	if v == nil || v.rev < c.newest || c.closed.Load() {
		return
	}
	c.newest, c.drained = v.rev, nil
	defer func() { c.passed.Store(uint64(c.seen)) }()
	proceed := func(ch Change) bool { return yield(ch) && !c.closed.Load() }
	for c.needsListing(v) {
		if !c.catchUp(v, proceed) {
			return
		}
	}
	if c.yieldRecords(v, v.rev, proceed) {
		c.drained = v.watch.channel()
	}
}

// Watch returns a channel that closes when a snapshot newer than the last one given to Next
// may have more changes, or another state of the table's sources. It is already closed if
// the last loop over Next ended early or the cursor is closed; closing the cursor later
// does not close it.
//
// The channel closes when the table is dropped. Once Next was given a snapshot taken after
// that, Watch returns nil, which never closes.
func (c *Cursor) Watch() <-chan struct{} {
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

// Err returns an error that matches [ErrDropped] once Next was given a snapshot taken after
// the table was dropped: there are no more changes. Otherwise it returns nil.
func (c *Cursor) Err() error {
	if c.ended {
		return &TableError{Table: c.table.name, Err: ErrDropped}
	}
	return nil
}

// Seen returns the revision up to which everything has been yielded. It does not change
// while the table is being listed, and is 0 after a [Reset] until the whole listing has
// been yielded.
func (c *Cursor) Seen() Revision {
	switch {
	case c.listing != nil:
		return c.listing.floor
	case c.start:
		return 0
	}
	return c.seen
}

// Lag returns the number of revisions by which the cursor is behind the newest snapshot. A
// listing counts as seen once it has begun.
func (c *Cursor) Lag() int {
	v := c.table.newest()
	if passed := Revision(c.passed.Load()); v != nil && passed < v.rev {
		return int(v.rev - passed)
	}
	return 0
}

// LagTime returns the time since the first change that the cursor has not seen was
// committed, to the millisecond, or 0 if it has seen all. If changes from before the cursor
// was opened are no longer kept, the time counts from its opening.
func (c *Cursor) LagTime() time.Duration {
	v, passed := c.table.newest(), c.passed.Load()
	if v == nil || passed >= uint64(v.rev) {
		return 0
	}
	if at, known := v.window().Committed(passed + 1); known {
		return time.Since(at)
	}
	if at := c.late.Load(); at != nil {
		return time.Since(*at)
	}
	return 0
}

// needsListing reports whether changes that the window of v no longer holds have to be read from
// the table itself, and if so begins or continues a listing.
func (c *Cursor) needsListing(v *version) bool {
	switch {
	case c.start:
		c.start = false
		c.listAll(v)
	case c.seen < Revision(v.window().LostDeletes()):
		c.reset = true
		c.listAll(v)
	case c.listing == nil && c.seen < Revision(v.window().Base()):
		c.listing = &tableListing{floor: c.seen, until: v.rev}
	}
	return c.listing != nil
}

// listAll begins a listing of all rows, which supersedes all earlier records.
func (c *Cursor) listAll(v *version) {
	c.listing = &tableListing{until: v.rev}
	c.seen = v.rev
}

// catchUp yields the deletes up to the revision of the listing, all of which are still in the
// window, and then the listing. It reports whether the loop goes on.
func (c *Cursor) catchUp(v *version, yield func(Change) bool) bool {
	if c.reset {
		c.reset = false
		if !yield(Change{Kind: Reset, Revision: v.rev}) {
			return false
		}
	}
	if !c.yieldDeletes(v, c.listing.until, yield) || !c.yieldListing(v, yield) {
		return false
	}
	c.listing = nil
	return true
}

func (c *Cursor) yieldListing(v *version, yield func(Change) bool) bool {
	l := c.listing
	var from []byte
	if l.last != nil {
		from = append(slices.Clip(l.last.Key()), 0) // the next possible key
	}
	rest := v.trees[0].From(from)
	var s trie.Scan
	s.Start(&rest)
	for run := s.Next(); len(run) > 0; run = s.Next() {
		for _, leaf := range run {
			e := (*Entry)(leaf)
			if e.rev <= l.floor || e.rev > l.until { // already seen, or yielded later as a record
				continue
			}
			l.last = e
			if !yield(Change{Kind: Upsert, Entry: e, Revision: e.rev}) {
				return false
			}
		}
	}
	return true
}

// yieldRecords yields the records of the window after seen and up to until, except for
// records that a later one supersedes.
func (c *Cursor) yieldRecords(v *version, until Revision, yield func(Change) bool) bool {
	for rev, r := range v.window().Records(uint64(c.seen), uint64(until)) {
		c.seen = Revision(rev)
		switch {
		case r.Deleted:
			if !v.yieldDelete(r.Row, c.seen, yield) {
				return false
			}
		case r.Row.current(v):
			if !yield(Change{Kind: Upsert, Entry: r.Row, Revision: c.seen}) {
				return false
			}
		}
	}
	return true
}

// yieldDeletes is like yieldRecords, but yields only deletes, which may still be in the
// window when the rows have been dropped from it.
func (c *Cursor) yieldDeletes(v *version, until Revision, yield func(Change) bool) bool {
	for rev, e := range v.window().Deletes(uint64(c.seen), uint64(until)) {
		c.seen = Revision(rev)
		if !v.yieldDelete(e, c.seen, yield) {
			return false
		}
	}
	c.seen = max(c.seen, until)
	return true
}

func (v *version) yieldDelete(e *Entry, at Revision, yield func(Change) bool) bool {
	if v.trees[0].Get(e.Key()) != nil {
		return true // the row was inserted again
	}
	return yield(Change{Kind: Delete, Entry: e, Revision: at})
}
