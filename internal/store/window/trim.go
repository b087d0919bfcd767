package window

// Bounds limits what a window keeps.
type Bounds struct {
	// Passed is the newest revision that no cursor still has to read.
	Passed uint64
	// Dead is how many slots may be without a current row.
	Dead int
	// Deletes is how many newer deletes push out the deletes of earlier commits. So one
	// commit may delete any number of rows: a cursor that has read everything before the
	// commit has time to read it.
	Deletes int
	// Records is how many records are about to be appended. The number of records that a
	// commit drops is limited to a multiple of it: large enough that nothing accumulates.
	Records int
}

// dropFactor is how many records may be dropped for each one that is appended. Dead rows
// can follow as many live ones as the table has, all of which have to be dropped first. So
// the number of dead rows exceeds the bound by at most an eighth of the rows.
const dropFactor = 8

// chunks returns how many chunks may be dropped from either list.
func (b Bounds) chunks() int { return 1 + dropFactor*b.Records/chunkSize }

// Trim drops whole chunks from the oldest end, as long as no cursor needs them or the
// bounds are exceeded. It is called before Append, so that a commit never drops what it
// adds itself.
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
