package trie

// find returns the leaf with this key, or nil.
func find(root *node, key []byte) ref {
	p := ref(root)
	head := root.head
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

// above returns the node above a leaf, or nil if the leaf is not in the tree.
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

// nearest returns a leaf than which none shares more chunks with key, or nil in
// an empty tree.
func nearest(root *node, key []byte) ref {
	if root.head&symbolMask == 0 {
		return nil
	}
	p := ref(root)
	for head := root.head; isNode(head); head = headOf(p) {
		s, i := symbol(key, head>>offsetShift), 0
		if head&s != 0 {
			i = rank(head, s)
		}
		p = (*node)(p).child(i)
	}
	return p
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

// startsWith says whether the keys below p, which agree as far as the length of
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
