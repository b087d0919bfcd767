// Package window keeps the newest changes of a table in revision order.
//
// A [Window] is an immutable view, safe for concurrent reading; Append, Bury and Trim
// return the next one and share memory with it. They may only be called on the newest view
// of a lineage, by one goroutine at a time. Older views do not see appended records,
// which are beyond their end, and keep dropped records.
//
// Rows and deletes are kept apart, each in chunks that are dropped whole, so that many
// replaced rows do not push out the deletes. The cost of dropping is spread over the
// commits, in proportion to the records that each adds.
package window

import (
	"iter"
	"math"
	"sort"
	"time"
)

// Record is one change: the row that a revision wrote, or the last version of the row that
// it deleted.
type Record[T any] struct {
	Row     *T
	Deleted bool
}

// Window holds the rows written by the revisions Base()+1 to Head(), and the
// deletes after LostDeletes(). Its zero value is empty and starts at revision 0.
type Window[T any] struct {
	rows        directory[rowChunk[T]]    // position = revision - 1
	deletes     directory[deleteChunk[T]] // position = count of deletes before
	dead        int                       // slots in rows without a current row
	lostDeletes uint64
}

// rowChunk has one slot per revision, empty for a delete.
type rowChunk[T any] struct {
	rows  [chunkSize]*T
	since time.Time         // when the first was committed
	after [chunkSize]uint32 // milliseconds from since until each was committed
	dead  int
}

// at returns the milliseconds from the first commit of the chunk to this one.
func (c *rowChunk[T]) at(commit time.Time) uint32 {
	if c.since.IsZero() {
		c.since = commit
	}
	return uint32(min(max(commit.Sub(c.since).Milliseconds(), 0), math.MaxUint32))
}

type deleteChunk[T any] struct {
	records [chunkSize]deleteRecord[T]
	// committed is the end of the deletes after the commit of the last record.
	committed uint64
}

type deleteRecord[T any] struct {
	revision uint64
	row      *T
}

// Base returns the newest revision whose row the window no longer holds.
func (w Window[T]) Base() uint64 { return w.rows.start }

// Head returns the newest revision in the window.
func (w Window[T]) Head() uint64 { return w.rows.end }

// Empty reports whether the window keeps neither rows nor deletes.
func (w Window[T]) Empty() bool { return w.rows.first == nil && w.deletes.first == nil }

// LostDeletes returns the newest revision of a delete that was dropped, or 0: a cursor that
// has not seen it has to start over.
func (w Window[T]) LostDeletes() uint64 { return w.lostDeletes }

// DeleteCount returns the number of deletes that are kept.
func (w Window[T]) DeleteCount() int { return int(w.deletes.end - w.deletes.start) }

// Committed returns when a revision in (Base, Head] was committed, to the millisecond.
func (w Window[T]) Committed(revision uint64) (at time.Time, known bool) {
	if revision <= w.Base() || revision > w.Head() {
		return time.Time{}, false
	}
	c := w.rows.chunk(revision - 1)
	return c.since.Add(time.Duration(c.after[slot(revision-1)]) * time.Millisecond), true
}

// Records yields the rows that the revisions in (after, until] wrote and deleted,
// in order. after must not be less than Base and LostDeletes.
func (w Window[T]) Records(after, until uint64) iter.Seq2[uint64, Record[T]] {
	return func(yield func(uint64, Record[T]) bool) {
		next := w.firstDelete(after)
		for position := after; position < until; position++ {
			r := Record[T]{Row: w.rows.chunk(position).rows[slot(position)]}
			if r.Row == nil {
				r = Record[T]{Row: w.deleteAt(next).row, Deleted: true}
				next++
			}
			if !yield(position+1, r) {
				return
			}
		}
	}
}

// Deletes yields the rows that the revisions in (after, until] deleted, in order.
// after must not be less than LostDeletes.
func (w Window[T]) Deletes(after, until uint64) iter.Seq2[uint64, *T] {
	return func(yield func(uint64, *T) bool) {
		for position := w.firstDelete(after); position < w.deletes.end; position++ {
			r := w.deleteAt(position)
			if r.revision > until || !yield(r.revision, r.row) {
				return
			}
		}
	}
}

// firstDelete returns the position of the first delete after a revision.
func (w Window[T]) firstDelete(after uint64) uint64 {
	n := sort.Search(int(w.deletes.end-w.deletes.start), func(i int) bool {
		return w.deleteAt(w.deletes.start+uint64(i)).revision > after
	})
	return w.deletes.start + uint64(n)
}

func (w *Window[T]) deleteAt(position uint64) deleteRecord[T] {
	return w.deletes.chunk(position).records[slot(position)]
}

// Append adds the records of one commit, made at this time, for the revisions after Head.
func (w Window[T]) Append(records []Record[T], at time.Time) Window[T] {
	before := w.deletes.end
	var last *rowChunk[T]
	var after uint32
	for _, r := range records {
		c, i := w.rows.grow()
		if c != last {
			last, after = c, c.at(at)
		}
		c.after[i] = after
		if !r.Deleted {
			c.rows[i] = r.Row
			continue
		}
		c.dead++
		w.dead++
		d, j := w.deletes.grow()
		d.records[j] = deleteRecord[T]{revision: w.Head(), row: r.Row}
	}
	for position := before; position < w.deletes.end; position += chunkSize - slot(position) {
		w.deletes.chunk(position).committed = w.deletes.end
	}
	return w
}

// Bury counts the row that a revision wrote as dead, because it was replaced or deleted.
func (w Window[T]) Bury(revision uint64) Window[T] {
	if revision > w.Base() {
		w.rows.chunk(revision-1).dead++
		w.dead++
	}
	return w
}

// StartingAt returns an empty window for the changes after a revision. lost is the newest
// delete up to it.
func StartingAt[T any](revision, lost uint64) Window[T] {
	return Window[T]{
		rows:        startingAt[rowChunk[T]](revision),
		deletes:     startingAt[deleteChunk[T]](0),
		lostDeletes: lost,
	}
}
