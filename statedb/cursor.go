package statedb

import (
	"iter"
	"time"

	"github.com/statehive/statehive/internal/store"
)

// ChangeKind is the kind of a [Change].
type ChangeKind = store.ChangeKind

const (
	// Upsert means that the row was inserted or replaced; Object is its newest version.
	Upsert = store.Upsert
	// Delete means that the row was deleted; Object is its last version.
	Delete = store.Delete
	// Reset means that deletes which the cursor has not yielded are no longer known. A
	// listing of the table follows as upserts; rows that are not in it are gone. Object is
	// not set.
	Reset = store.Reset
)

// Change is one step of a change feed.
type Change[Obj any] struct {
	_        [0]func() // prevents ==, so that no equality is compiled
	Kind     ChangeKind
	Object   Obj
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
type Cursor[Obj any] struct{ core *store.Cursor }

// Close ends the cursor, which yields nothing afterwards. It may be called at any time,
// even inside the loop, and more than once.
func (c *Cursor[Obj]) Close() { c.core.Close() }

// Next yields the changes between what it has already yielded and the snapshot of txn, and
// nothing if an earlier call was given a newer snapshot. The loop may end early: the next
// call yields the rest. The snapshot of a write transaction does not have its uncommitted
// writes.
func (c *Cursor[Obj]) Next(txn ReadTxn) iter.Seq[Change[Obj]] {
	return func(yield func(Change[Obj]) bool) {
		c.core.Next(txn, func(change store.Change) bool {
			typed := Change[Obj]{Kind: change.Kind, Revision: change.Revision}
			if change.Entry != nil {
				typed.Object = objectOf[Obj](change.Entry)
			}
			return yield(typed)
		})
	}
}

// Watch returns a channel that closes when a snapshot newer than the last one given to Next
// may have more changes, or another state of the table's sources. It is already closed if
// the last loop over Next ended early or the cursor is closed; closing the cursor later
// does not close it.
//
// The channel closes when the table is dropped. Once Next was given a snapshot taken after
// that, Watch returns nil, which never closes.
func (c *Cursor[Obj]) Watch() <-chan struct{} { return c.core.Watch() }

// Err returns an error that matches [ErrDropped] once Next was given a snapshot taken after
// the table was dropped: there are no more changes. Otherwise it returns nil.
func (c *Cursor[Obj]) Err() error { return c.core.Err() }

// Seen returns the revision up to which everything has been yielded. It does not change
// while the table is being listed, and is 0 after a [Reset] until the whole listing has
// been yielded.
func (c *Cursor[Obj]) Seen() Revision { return c.core.Seen() }

// Lag returns the number of revisions by which the cursor is behind the newest snapshot. A
// listing counts as seen once it has begun.
func (c *Cursor[Obj]) Lag() int { return c.core.Lag() }

// LagTime returns the time since the first change that the cursor has not seen was
// committed, to the millisecond, or 0 if it has seen all. If changes from before the cursor
// was opened are no longer kept, the time counts from its opening.
func (c *Cursor[Obj]) LagTime() time.Duration { return c.core.LagTime() }
