package trie

import "sync/atomic"

// watch is made when somebody asks for it: empty, then a signal, or at once the
// mark that whatever it belongs to has been replaced.
type watch struct{ signal atomic.Pointer[signal] }

// signal is the channels that somebody waits for; it is immutable.
type signal struct {
	ch    chan struct{}
	edges []edge
}

// edge is, for a leaf, a part of the way to it from the node above, from a chunk
// on: keys that part from the leaf's there would divide it. Of the leaves that
// share a watch, it is about the one at this distance from their value.
type edge struct {
	distance, at uint64
	ch           chan struct{}
}

// replacedMark is what late readers of old versions find.
var replacedMark = func() *signal {
	s := &signal{ch: make(chan struct{})}
	close(s.ch)
	return s
}()

// load returns what to compare and swap with, and what is in it.
func (w *watch) load() (*signal, signal) {
	if s := w.signal.Load(); s != nil {
		return s, *s
	}
	return nil, signal{}
}

func (w *watch) channel() <-chan struct{} {
	for {
		seen, s := w.load()
		if s.ch != nil {
			return s.ch
		}
		s.ch = make(chan struct{})
		if w.signal.CompareAndSwap(seen, &s) {
			return s.ch
		}
	}
}

// edgeChannel is for a leaf. The leaf stays when its edge is divided, but the
// node above is replaced, and marked before divide looks for channels: so if
// divide has missed a channel, its maker finds the mark.
func edgeChannel(leaf ref, at uint64, above *node) <-chan struct{} {
	ch := watchOf(leaf).edge(distance(headOf(leaf)), at)
	if above.watch.signal.Load() == replacedMark {
		return replacedMark.ch
	}
	return ch
}

func (w *watch) edge(distance, at uint64) <-chan struct{} {
	for {
		seen, s := w.load()
		if seen == replacedMark {
			return seen.ch
		}
		for _, e := range s.edges {
			if e.at == at && e.distance == distance {
				return e.ch
			}
		}
		fresh := edge{distance, at, make(chan struct{})}
		s.edges = append(s.edges[:len(s.edges):len(s.edges)], fresh)
		if w.signal.CompareAndSwap(seen, &s) {
			return fresh.ch
		}
	}
}

// replace closes the channels of what is no longer part of the newest version.
func (w *watch) replace() {
	s := w.signal.Swap(replacedMark)
	if s == nil || s == replacedMark {
		return
	}
	if s.ch != nil {
		close(s.ch)
	}
	closeEdges(s.edges)
}

// divide closes the channels of those parts of a leaf's edge that are above the
// leaf's node now, which branches at offset.
func (w *watch) divide(distance, offset uint64) {
	for {
		seen, s := w.load()
		var above, below []edge
		for _, e := range s.edges {
			if e.at <= offset && e.distance == distance {
				above = append(above, e)
			} else {
				below = append(below, e)
			}
		}
		if len(above) == 0 {
			return
		}
		s.edges = below
		if w.signal.CompareAndSwap(seen, &s) {
			closeEdges(above)
			return
		}
	}
}

func closeEdges(edges []edge) {
	for _, e := range edges {
		close(e.ch)
	}
}

// watchKey returns the watch of the leaf with this key, or that of its absence.
func watchKey(root *node, key []byte) <-chan struct{} {
	near := nearest(root, key)
	if near == nil {
		return root.watch.channel()
	}
	d := difference(key, leafKey(near))
	if d == never {
		return watchOf(near).channel()
	}
	return watchAbsent(root, key, d)
}

// watchAbsent returns the watch of where keys belong that part from all others
// at chunk d: the node that branches there, or what the edge leads to that they
// would divide.
func watchAbsent(root *node, key []byte, d uint64) <-chan struct{} {
	n := root
	for n.offset() < d {
		next := n.child(rank(n.head, symbol(key, n.offset())))
		if !isNode(headOf(next)) {
			return edgeChannel(next, d, n)
		}
		n = (*node)(next)
	}
	return n.watch.channel()
}

// watchPrefix returns the watch of the highest node that has nothing but keys
// with this prefix below it; for a single key that of its leaf's edge.
func watchPrefix(root *node, prefix []byte) <-chan struct{} {
	near := nearest(root, prefix)
	if near == nil {
		return root.watch.channel()
	}
	return watchAbsent(root, prefix, min(difference(prefix, leafKey(near)), uint64(2*len(prefix))))
}
