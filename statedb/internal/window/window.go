// Package window keeps the newest changes of a table in revision order.
//
// A [Window] is an immutable view, safe for concurrent reading; Append and
// DropBefore return the next one and share memory with it. Only the newest view
// of a lineage may be appended to, by one goroutine at a time: older views do
// not see what was appended, because it lies beyond their end.
package window

const (
	chunkBits = 8
	chunkSize = 1 << chunkBits // records in a chunk, the unit of dropping
)

// Record is one change: the row that a revision wrote or deleted.
type Record[E any] struct {
	Entry   E
	Deleted bool
}

type chunk[E any] struct {
	records [chunkSize]Record[E]
	deletes uint64 // highest revision of a delete in this chunk
}

// Window holds the records of the revisions Base()+1 to Head(), one each. Its
// zero value is empty and starts at revision 0.
type Window[E any] struct {
	chunks      []*chunk[E] // the first holds revision start+1
	start       uint64      // a multiple of chunkSize
	base        uint64      // records up to and including base are gone
	head        uint64
	lostDeletes uint64
}

// Base is the newest revision that the window no longer holds.
func (w Window[E]) Base() uint64 { return w.base }

// Head is the newest revision in the window.
func (w Window[E]) Head() uint64 { return w.head }

// LostDeletes is the newest revision of a delete that was dropped, or 0: who
// has not seen it cannot learn of it any more.
func (w Window[E]) LostDeletes() uint64 { return w.lostDeletes }

// At returns the record of a revision in (Base, Head].
func (w Window[E]) At(revision uint64) Record[E] {
	slot := revision - 1 - w.start
	return w.chunks[slot>>chunkBits].records[slot&(chunkSize-1)]
}

// Append adds the records of the revisions after Head.
func (w Window[E]) Append(records []Record[E]) Window[E] {
	for _, r := range records {
		slot := w.head - w.start
		if slot>>chunkBits == uint64(len(w.chunks)) {
			w.chunks = append(w.chunks, new(chunk[E]))
		}
		c := w.chunks[slot>>chunkBits]
		c.records[slot&(chunkSize-1)] = r
		w.head++
		if r.Deleted {
			c.deletes = w.head
		}
	}
	return w
}

// Skip moves an unfollowed window past records that nobody will read.
func (w Window[E]) Skip(records []Record[E]) Window[E] {
	next := Window[E]{head: w.head + uint64(len(records)), lostDeletes: w.lostDeletes}
	for i, r := range records {
		if r.Deleted {
			next.lostDeletes = w.head + uint64(i) + 1
		}
	}
	for _, c := range w.chunks {
		next.lostDeletes = max(next.lostDeletes, c.deletes)
	}
	next.base = next.head
	next.start = next.head &^ (chunkSize - 1)
	return next
}

// DropBefore forgets whole chunks of records up to and including revision.
func (w Window[E]) DropBefore(revision uint64) Window[E] {
	dropped := 0
	for dropped < len(w.chunks) && w.start+chunkSize <= min(revision, w.head) {
		w.lostDeletes = max(w.lostDeletes, w.chunks[dropped].deletes)
		w.start += chunkSize
		dropped++
	}
	if dropped == 0 {
		return w
	}
	w.base = w.start
	// A copy, so that the old directory does not pin the dropped chunks.
	w.chunks = append([]*chunk[E](nil), w.chunks[dropped:]...)
	return w
}
