package window

// Bounds says what a window keeps.
type Bounds struct {
	// Passed is the newest revision that nobody has to read any more.
	Passed uint64
	// Dead is how many slots may hold no current row.
	Dead int
	// Deletes is how many deletes push out those of the commits before them. So
	// one commit may delete as much as it likes: whoever has read all before it
	// has time to read it.
	Deletes int
	// Records is how many are about to be appended: what a commit drops is
	// bounded by what it adds. It is many times as much, though, so that nothing
	// piles up.
	Records int
}

// dropFactor is how many records may be dropped for one that is appended. Dead
// rows can be behind as many live ones as the table has, all of which have to go
// before them: then an eighth of the rows more than the bound is dead at most.
const dropFactor = 8

// chunks is how many chunks may be dropped from either list.
func (b Bounds) chunks() int { return 1 + dropFactor*b.Records/chunkSize }

// Trim drops whole chunks from the tail, as far as nobody needs them or there
// is more than the bounds allow. It comes before Append, so that a commit never
// drops what it adds itself.
func (w Window[T]) Trim(b Bounds) Window[T] {
	w.trimRows(b)
	w.trimDeletes(b)
	return w
}

func (w *Window[T]) trimRows(b Bounds) {
	kept := w.rows.start
	end := w.rows.chunkEnd()
	for range b.chunks() {
		if end > w.Head() || end > b.Passed && w.dead <= b.Dead {
			break
		}
		w.dead -= w.rows.chunk(end - 1).dead
		kept = end
		end += chunkSize
	}
	w.rows.dropTo(kept)
}

func (w *Window[T]) trimDeletes(b Bounds) {
	kept := w.deletes.start
	end := w.deletes.chunkEnd()
	for range b.chunks() {
		if end > w.deletes.end {
			break
		}
		newest, committed := w.deleteAt(end-1).revision, w.deletes.chunk(end-1).committed
		if newest > b.Passed && w.deletes.end-committed <= uint64(b.Deletes) {
			break
		}
		w.lostDeletes = newest
		kept = end
		end += chunkSize
	}
	w.deletes.dropTo(kept)
}
