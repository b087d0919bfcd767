package trie

// replaced lists the watches of the nodes and leaves that a transaction has
// replaced, and the leaves whose edge it has divided.
type replaced struct {
	watches []*watch
	divided []ref // leaves
}

func (r *replaced) add(w *watch) { r.watches = append(r.watches, w) }

// closeAll closes all watches that were made, and forgets them. root is the root of
// the new version, which has already been published: see [Tree.Watch].
func (r *replaced) closeAll(root *node) {
	for _, w := range r.watches {
		w.close()
	}
	for _, leaf := range r.divided {
		divide(root, leaf)
	}
	r.reset()
}

// maxSpare is the number of watches up to which a transaction keeps the memory for the next
// one.
const maxSpare = 1 << 11

func (r *replaced) reset() {
	r.watches = emptied(r.watches)
	r.divided = emptied(r.divided)
}

func emptied[T any](s []T) []T {
	if cap(s) > maxSpare {
		return nil
	}
	clear(s)
	return s[:0]
}

func divide(root *node, leaf ref) {
	w := watchOf(leaf)
	if _, s := w.load(); len(s.edges) == 0 {
		return
	}
	if n := above(root, leaf); n != nil { // else it was replaced as well
		w.divide(distance(headOf(leaf)), n.offset())
	}
}
