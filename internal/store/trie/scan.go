package trie

import (
	"bytes"
	"unsafe"
)

// Range is a sequence of consecutive leaves of a version. The zero value is empty. It
// refers to the keys that it was made of.
type Range struct {
	// Reverse makes a scan visit the leaves from the last to the first.
	Reverse bool

	kind     rangeKind
	at       ref
	from, to []byte
}

type rangeKind uint8

const (
	nothing    rangeKind = iota
	everything           // all below at
	fromKey              // what is not less than from
	between              // and less than to
)

// One returns the range of a single key.
func (t *Tree) One(key []byte) Range { return rangeOf(t.Get(key)) }

// All returns the range of all keys.
func (t *Tree) All() Range { return rangeOf(ref(t.root)) }

// Prefix returns the range of the keys that start with prefix.
func (t *Tree) Prefix(prefix []byte) Range {
	if t.root == nil {
		return Range{}
	}
	return rangeOf(below(t.root, prefix))
}

// From returns the range of the keys that are not less than key.
func (t *Tree) From(key []byte) Range {
	if t.root == nil {
		return Range{}
	}
	return Range{kind: fromKey, at: ref(t.root), from: key}
}

// Between returns the range of the keys from one up to another, which is not
// included.
func (t *Tree) Between(from, to []byte) Range {
	if t.root == nil {
		return Range{}
	}
	return Range{kind: between, at: ref(t.root), from: from, to: to}
}

func rangeOf(p ref) Range {
	if p == nil {
		return Range{}
	}
	return Range{kind: everything, at: p}
}

// First returns the first leaf of a range, or nil.
func (r *Range) First() unsafe.Pointer {
	var s Scan
	s.Start(r)
	if run := s.Next(); len(run) > 0 {
		return run[0]
	}
	return nil
}

// frame is a node and its next child to be visited; in reverse, the one before it.
type frame struct {
	n *node
	i int
}

// Scan visits the leaves of a range. Its zero value is at its end.
type Scan struct {
	few     [7]frame
	more    []frame
	depth   int
	single  ref    // a leaf that is to be visited, and is not below a frame
	given   [1]ref // backs the result of Next when that is single
	reverse bool
	end     []byte // where to stop, if bounded: before this key, or in reverse behind it
	bounded bool
}

// Start begins to visit a range.
func (s *Scan) Start(r *Range) {
	s.depth, s.single, s.reverse, s.bounded = 0, nil, r.Reverse, false
	switch r.kind {
	case nothing:
	case everything:
		s.under(r.at)
	case fromKey:
		if r.Reverse {
			s.end, s.bounded = r.from, true
			s.under(r.at)
		} else {
			s.from((*node)(r.at), r.from)
		}
	case between:
		s.bounded = true
		if r.Reverse {
			s.end = r.from
			s.below((*node)(r.at), r.to)
		} else {
			s.end = r.to
			s.from((*node)(r.at), r.from)
		}
	}
}

// Next returns the next leaves, or none at the end. They must not be modified,
// and are valid until the next call.
func (s *Scan) Next() []unsafe.Pointer {
	if s.reverse {
		return s.nextReverse()
	}
	run := s.next()
	if !s.bounded || len(run) == 0 || bytes.Compare(leafKey(run[len(run)-1]), s.end) < 0 {
		return run
	}
	s.depth = 0
	for i, leaf := range run {
		if bytes.Compare(leafKey(leaf), s.end) >= 0 {
			return run[:i]
		}
	}
	return run
}

func (s *Scan) next() []ref {
	if s.single != nil {
		return s.takeSingle()
	}
	for s.depth > 0 {
		f := s.top()
		children := f.n.children()
		i := f.i
		j := i
		for j < len(children) && !isNode(headOf(children[j])) {
			j++
		}
		switch {
		case j > i:
			f.i = j
			return children[i:j]
		case i == len(children):
			s.depth--
		default:
			f.i = i + 1
			s.push((*node)(children[i]), 0)
		}
	}
	return nil
}

// nextReverse returns one leaf at a time.
func (s *Scan) nextReverse() []ref {
	run := s.previous()
	if s.bounded && len(run) > 0 && bytes.Compare(leafKey(run[0]), s.end) < 0 {
		s.depth = 0
		return nil
	}
	return run
}

func (s *Scan) previous() []ref {
	if s.single != nil {
		return s.takeSingle()
	}
	for s.depth > 0 {
		f := s.top()
		if f.i == 0 {
			s.depth--
			continue
		}
		f.i--
		children := f.n.children()
		child := children[f.i]
		if !isNode(headOf(child)) {
			return children[f.i : f.i+1]
		}
		s.pushWhole((*node)(child))
	}
	return nil
}

func (s *Scan) takeSingle() []ref {
	s.given[0], s.single = s.single, nil
	return s.given[:]
}

func (s *Scan) push(n *node, i int) {
	if s.depth < len(s.few) {
		s.few[s.depth] = frame{n, i}
	} else {
		s.more = append(s.more[:s.depth-len(s.few)], frame{n, i})
	}
	s.depth++
}

// pushWhole pushes a node of which no child has been visited.
func (s *Scan) pushWhole(n *node) {
	if s.reverse {
		s.push(n, n.count())
	} else {
		s.push(n, 0)
	}
}

func (s *Scan) top() *frame {
	if i := s.depth - 1; i >= len(s.few) {
		return &s.more[i-len(s.few)]
	}
	return &s.few[s.depth-1]
}

// under begins with all leaves below p.
func (s *Scan) under(p ref) {
	if isNode(headOf(p)) {
		s.pushWhole((*node)(p))
	} else {
		s.single = p
	}
}

// approach pushes the nodes on the path to a key, and returns the chunk at which the key
// diverges from the leaf at the end of the path, and whether it is less.
func (s *Scan) approach(root *node, key []byte) (d uint64, less bool) {
	p, head := ref(root), root.head
	for isNode(head) {
		sym, i := symbol(key, head>>offsetShift), 0
		if head&sym != 0 {
			i = rank(head, sym)
		}
		n := (*node)(p)
		s.push(n, i)
		p = n.child(i)
		head = headOf(p)
	}
	other := keyOf(p, head)
	d = difference(key, other)
	return d, d == never || symbol(key, d) < symbol(other, d)
}

// part pops the frames below the node where a key diverges from all others, and returns the
// number of that node's children that are less than the key.
func (s *Scan) part(key []byte, d uint64, less bool) (f *frame, smaller int) {
	for s.depth > 1 && s.top().n.offset() > d {
		s.depth--
	}
	f = s.top()
	switch {
	case f.n.offset() == d:
		return f, rank(f.n.head, symbol(key, d))
	case less:
		return f, f.i
	}
	return f, f.i + 1
}

// from begins with the first leaf whose key is not less than key.
func (s *Scan) from(root *node, key []byte) {
	if root.head&symbolMask == 0 {
		return
	}
	d, less := s.approach(root, key)
	f, smaller := s.part(key, d, less)
	for i := range s.depth - 1 { // the children on the path come before
		s.frame(i).i++
	}
	f.i = smaller
}

// below begins with the last leaf whose key is less than key.
func (s *Scan) below(root *node, key []byte) {
	if root.head&symbolMask == 0 {
		return
	}
	d, less := s.approach(root, key)
	f, smaller := s.part(key, d, less)
	f.i = smaller // in the frames above, i is the number of children before the path
}

func (s *Scan) frame(i int) *frame {
	if i >= len(s.few) {
		return &s.more[i-len(s.few)]
	}
	return &s.few[i]
}
