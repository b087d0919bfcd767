package trie

// replaced lists the watches of the nodes and leaves that a transaction has
// replaced, and the leaves whose edge it has divided. It is part of the
// transaction and goes with it, however long it is.
type replaced struct {
	first   [8]*watch
	count   int // of all that was replaced
	more    *replacedChunk
	divided []ref // leaves
}

type replacedChunk struct {
	watches  [62]*watch
	count    int
	previous *replacedChunk
}

func (r *replaced) add(w *watch) {
	if r.count < len(r.first) {
		r.first[r.count] = w
	} else {
		r.addMore(w)
	}
	r.count++
}

func (r *replaced) addMore(w *watch) {
	if r.more == nil || r.more.count == len(r.more.watches) {
		r.more = &replacedChunk{previous: r.more}
	}
	r.more.watches[r.more.count] = w
	r.more.count++
}

// closeAll closes all watches, made or not, and forgets them. root is that of the
// new version.
func (r *replaced) closeAll(root *node) {
	for _, w := range r.first[:min(r.count, len(r.first))] {
		w.replace()
	}
	for c := r.more; c != nil; c = c.previous {
		for _, w := range c.watches[:c.count] {
			w.replace()
		}
	}
	for _, leaf := range r.divided { // now that all nodes above have their marks
		divide(root, leaf)
	}
	*r = replaced{}
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
