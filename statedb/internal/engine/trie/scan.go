package trie

// walk yields everything below p in order.
func walk[V any](p ref, yield func([]byte, V) bool) bool {
	head := headOf(p)
	if !isNode(head) {
		return yield(keyOf(p, head), valueOf[V](p, head))
	}
	return walkAll((*node)(p).children(), yield)
}

// walkAll reads the head of the next child before it yields this one, so that the
// next row is on its way from memory meanwhile.
func walkAll[V any](children []ref, yield func([]byte, V) bool) bool {
	if len(children) == 0 {
		return true
	}
	head := headOf(children[0])
	for i, p := range children {
		this := head
		if i+1 < len(children) {
			head = headOf(children[i+1])
		}
		if isNode(this) {
			if !walkAll((*node)(p).children(), yield) {
				return false
			}
		} else if !yield(keyOf(p, this), valueOf[V](p, this)) {
			return false
		}
	}
	return true
}

// walkReverse yields everything below p, the last first.
func walkReverse[V any](p ref, yield func([]byte, V) bool) bool {
	head := headOf(p)
	if !isNode(head) {
		return yield(keyOf(p, head), valueOf[V](p, head))
	}
	return walkAllReverse((*node)(p).children(), yield)
}

func walkAllReverse[V any](children []ref, yield func([]byte, V) bool) bool {
	for i := len(children) - 1; i >= 0; i-- {
		if !walkReverse(children[i], yield) {
			return false
		}
	}
	return true
}

// bound is a key and where it parts from the keys of a tree: at chunk d, where
// it is less than those that agree with it up to there, or greater.
type bound struct {
	key  []byte
	d    uint64
	less bool
}

func boundIn(root *node, key []byte) bound {
	b := bound{key: key, d: never, less: true} // what is equal counts as not below
	near := nearest(root, key)
	if near == nil {
		return bound{key: key}
	}
	other := leafKey(near)
	if b.d = difference(key, other); b.d != never {
		b.less = symbol(key, b.d) < symbol(other, b.d)
	}
	return b
}

// walkFrom yields what is not less than b below p, which is on the way to its key.
func walkFrom[V any](p ref, b *bound, yield func([]byte, V) bool) bool {
	head := headOf(p)
	offset := head >> offsetShift
	if !isNode(head) || offset > b.d {
		return !b.less || walk(p, yield)
	}
	children := (*node)(p).children()
	i := rank(head, symbol(b.key, offset))
	if offset == b.d {
		return walkAll(children[i:], yield)
	}
	return walkFrom(children[i], b, yield) && walkAll(children[i+1:], yield)
}

// walkBelow yields what is less than b below p, the last first.
func walkBelow[V any](p ref, b *bound, yield func([]byte, V) bool) bool {
	head := headOf(p)
	offset := head >> offsetShift
	if !isNode(head) || offset > b.d {
		return b.less || walkReverse(p, yield)
	}
	children := (*node)(p).children()
	i := rank(head, symbol(b.key, offset))
	if offset == b.d {
		return walkAllReverse(children[:i], yield)
	}
	return walkBelow(children[i], b, yield) && walkAllReverse(children[:i], yield)
}

// lastBelow returns the leaf with the largest key that is less than key, or nil:
// the first one that walkBelow yields.
func lastBelow(root *node, key []byte) ref {
	b := boundIn(root, key)
	var before ref // the nearest child before the way to key
	p := ref(root)
	for {
		head := headOf(p)
		offset := head >> offsetShift
		if !isNode(head) || offset > b.d {
			if !b.less {
				before = p
			}
			return last(before)
		}
		i := rank(head, symbol(key, offset))
		if i > 0 {
			before = (*node)(p).child(i - 1)
		}
		if offset == b.d {
			return last(before)
		}
		p = (*node)(p).child(i)
	}
}

// last returns the leaf with the largest key below p, which may be nil.
func last(p ref) ref {
	for p != nil && isNode(headOf(p)) {
		n := (*node)(p)
		p = n.child(n.count() - 1)
	}
	return p
}
