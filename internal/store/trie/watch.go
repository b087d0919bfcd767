package trie

import "sync/atomic"

// watch is empty until its channel is first requested.
type watch struct{ signal atomic.Pointer[signal] }

// signal is the channels of a watch; it is immutable.
type signal struct {
	ch    chan struct{}
	edges []edge
}

// edge is a part of the path from a node to a leaf below it, beginning at a chunk: keys
// that diverge from the leaf's there would divide it. If several leaves share a watch, it
// belongs to the one at this distance from the beginning of the entry.
type edge struct {
	distance, at uint64
	ch           chan struct{}
}

// Closed is the watch of a result that has already changed.
var Closed = func() <-chan struct{} {
	ch := make(chan struct{})
	close(ch)
	return ch
}()

// Watch returns the channel for the leaf with a key, present or not. newest
// returns the newest version that was published: if the result has changed by
// then, the channel is closed.
//
// Notify is called after publication, and Watch requests the newest version after it has
// made the channel. So either Notify finds the channel or Watch finds the change.
func (t *Tree) Watch(key []byte, newest func() Tree) <-chan struct{} {
	return t.watch(newest, func(t *Tree) watchPoint { return t.pointOfKey(key) })
}

// WatchPrefix is Watch for all keys that start with prefix.
func (t *Tree) WatchPrefix(prefix []byte, newest func() Tree) <-chan struct{} {
	return t.watch(newest, func(t *Tree) watchPoint { return t.pointOfPrefix(prefix) })
}

func (t *Tree) watch(newest func() Tree, pointIn func(*Tree) watchPoint) <-chan struct{} {
	if t.root == nil {
		return Closed
	}
	point := pointIn(t)
	ch := point.channel()
	if now := newest(); now.root != t.root && (now.root == nil || pointIn(&now) != point) {
		return Closed
	}
	return ch
}

// watchPoint is the place where a watch belongs: a node or leaf, which is replaced when
// the watched result changes, or an edge above a leaf, which is divided.
type watchPoint struct {
	at     ref
	parent *node  // of an edge: the node above, which is replaced too
	edge   uint64 // where keys would divide it
}

func (p watchPoint) channel() <-chan struct{} {
	switch {
	case p.parent != nil:
		return watchOf(p.at).edge(distance(headOf(p.at)), p.edge)
	case isNode(headOf(p.at)):
		return (*node)(p.at).watch.channel()
	}
	return watchOf(p.at).channel()
}

func (t *Tree) pointOfKey(key []byte) watchPoint {
	l := locate(t.root, key)
	switch {
	case l.near == nil:
		return watchPoint{at: ref(t.root)}
	case l.d == never:
		return watchPoint{at: l.near}
	}
	return t.pointOfAbsence(key, l.d)
}

// pointOfPrefix returns the highest node below which all keys have this prefix; for a
// single key its leaf's edge.
func (t *Tree) pointOfPrefix(prefix []byte) watchPoint {
	l := locate(t.root, prefix)
	if l.near == nil {
		return watchPoint{at: ref(t.root)}
	}
	return t.pointOfAbsence(prefix, min(l.d, uint64(2*len(prefix))))
}

// pointOfAbsence returns where keys belong that diverge from all others at chunk d: the
// node that branches there, or the node or leaf below the edge that they would divide.
func (t *Tree) pointOfAbsence(key []byte, d uint64) watchPoint {
	n := t.root
	for n.offset() < d {
		next := n.child(rank(n.head, symbol(key, n.offset())))
		if !isNode(headOf(next)) {
			return watchPoint{at: next, parent: n, edge: d}
		}
		n = (*node)(next)
	}
	return watchPoint{at: ref(n)}
}

// CloseKey closes the watch of a key, even if nothing has changed.
func (t *Tree) CloseKey(key []byte) { t.pointOfKey(key).close() }

// ClosePrefix closes the watch of a prefix, even if nothing has changed.
func (t *Tree) ClosePrefix(prefix []byte) { t.pointOfPrefix(prefix).close() }

func (p watchPoint) close() {
	if p.parent == nil && isNode(headOf(p.at)) {
		(*node)(p.at).watch.close()
	} else {
		watchOf(p.at).close()
	}
}

// CloseAll closes all watches of the tree, which is no longer current and has no
// successor.
func (t *Tree) CloseAll() {
	if t.root != nil {
		closeBelow(ref(t.root))
	}
}

func closeBelow(p ref) {
	if !isNode(headOf(p)) {
		watchOf(p).close()
		return
	}
	n := (*node)(p)
	n.watch.close()
	for _, child := range n.children() {
		closeBelow(child)
	}
}

// load returns the signal to compare and swap with, and a copy of it.
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

func (w *watch) edge(distance, at uint64) <-chan struct{} {
	for {
		seen, s := w.load()
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

// close closes all channels of a node or leaf that is no longer part of the newest version.
func (w *watch) close() {
	if w.signal.Load() == nil {
		return
	}
	s := w.signal.Swap(nil)
	if s == nil {
		return
	}
	if s.ch != nil {
		close(s.ch)
	}
	closeEdges(s.edges)
}

// divide closes the channels of those parts of a leaf's edge that are now above its parent,
// which branches at offset.
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
