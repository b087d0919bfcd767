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
