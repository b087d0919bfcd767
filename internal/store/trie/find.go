package trie

// find returns the leaf with this key below p, or nil.
func find(p ref, key []byte) ref {
	head := headOf(p)
	for isNode(head) {
		s := symbol(key, head>>offsetShift)
		if head&s == 0 {
			return nil
		}
		p = (*node)(p).child(rank(head, s))
		head = headOf(p)
	}
	if string(keyOf(p, head)) != string(key) {
		return nil
	}
	return p
}

// above returns the parent of a leaf, or nil if the leaf is not in the tree.
func above(root *node, leaf ref) *node {
	key := leafKey(leaf)
	for n := root; ; {
		s := symbol(key, n.offset())
		if n.head&s == 0 {
			return nil
		}
		next := n.child(rank(n.head, s))
		switch {
		case next == leaf:
			return n
		case !isNode(headOf(next)):
			return nil
		}
		n = (*node)(next)
	}
}

// located is the place where a key belongs.
type located struct {
	near   ref    // the leaf that shares the most chunks with the key; nil in an empty tree
	parent *node  // of near
	d      uint64 // the first chunk in which they differ, or never
}

func locate(root *node, key []byte) (l located) {
	if root.head&symbolMask == 0 {
		return l
	}
	n := root
	if top := topOf(root); isNode(headOf(top)) { // saves a step
		n = (*node)(top)
	}
	head := n.head
	for {
		s, i := symbol(key, head>>offsetShift), 0
		if head&s != 0 {
			i = rank(head, s)
		}
		p := n.child(i)
		head = headOf(p)
		if !isNode(head) {
			return located{near: p, parent: n, d: difference(key, keyOf(p, head))}
		}
		n = (*node)(p)
	}
}

// below returns the node or leaf below which are all keys with this prefix and
// no others, or nil.
func below(root *node, prefix []byte) ref {
	p, length := ref(root), uint64(2*len(prefix))
	for head := root.head; isNode(head) && head>>offsetShift < length; head = headOf(p) {
		s := symbol(prefix, head>>offsetShift)
		if head&s == 0 {
			return nil
		}
		p = (*node)(p).child(rank(head, s))
	}
	if !startsWith(p, prefix) {
		return nil
	}
	return p
}

// startsWith reports whether the keys below p, which agree as far as the length of
// prefix, start with it.
func startsWith(p ref, prefix []byte) bool {
	if len(prefix) == 0 {
		return true
	}
	head := headOf(p)
	for isNode(head) {
		p = (*node)(p).child(0)
		head = headOf(p)
	}
	key := keyOf(p, head)
	return len(key) >= len(prefix) && string(key[:len(prefix)]) == string(prefix)
}

// first returns the leaf with the smallest key below p, which may be nil.
func first(p ref) ref {
	for p != nil && isNode(headOf(p)) {
		p = (*node)(p).child(0)
	}
	return p
}
