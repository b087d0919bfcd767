package window

// Moved is how many directory slots were copied since the window began.
func (w Window[T]) Moved() uint64 { return w.rows.moved + w.deletes.moved }

// Chunks is how many chunks the window's own directories lead to.
func (w Window[T]) Chunks() (rows, deletes int) {
	return chunksOf(w.rows), chunksOf(w.deletes)
}

func chunksOf[C any](d directory[C]) int {
	n := 0
	if d.first != nil {
		n += count(d.first)
	}
	for _, s := range d.rest[:cap(d.rest)] { // what a slice hides is kept all the same
		if s != nil {
			n += count(s)
		}
	}
	return n
}

func count[C any](s *segment[C]) int {
	n := 0
	for _, c := range s {
		if c != nil {
			n++
		}
	}
	return n
}

// The following return windows with something broken.

func (w Window[T]) Miscounted() Window[T] {
	w.dead--
	return w
}

func (w Window[T]) WithoutNewestDelete() Window[T] {
	w.deletes.end--
	for position := w.deletes.start; position < w.deletes.end; position += chunkSize {
		w.deletes.chunk(position).committed = w.deletes.end
	}
	return w
}

func (w Window[T]) Losing(revision uint64) Window[T] {
	w.lostDeletes = revision
	return w
}

func (w Window[T]) WithoutFirstChunk() Window[T] {
	kept := *w.rows.first
	kept[w.rows.start>>chunkBits&(segmentSize-1)] = nil
	w.rows.first = &kept
	return w
}

func (w Window[T]) BehindItsEnd() Window[T] {
	w.deletes.start = w.deletes.end + 1
	return w
}
