package trie

// spares are nodes that a transaction has outgrown, one of each size, for reuse.
type spares [symbols/2 + 1]*node

// allocate returns an empty node that the transaction owns.
func (x *Txn) allocate(slots int) *node {
	n := x.spare[slots/2]
	if n == nil {
		n = allocate(slots)
	} else {
		x.spare[slots/2] = nil
	}
	n.owner = x.id
	return n
}

// reuse keeps a node that nothing else has ever seen.
func (x *Txn) reuse(n *node) {
	n.reset()
	x.spare[n.slots()/2] = n
}

// begin takes an id for the writes that follow.
func (x *Txn) begin() {
	if x.id == 0 {
		*x.ids++
		x.id = *x.ids
	}
	if x.first == 0 {
		x.first = x.id
	}
}

// freeze keeps all nodes as they are: from now on writes copy them.
func (x *Txn) freeze() { x.id = 0 }

// discard handles a node that is no longer part of the tree: it may have a watch unless it
// is younger than the transaction.
func (x *Txn) discard(n *node) {
	switch {
	case n.owner < x.first:
		x.old.add(&n.watch)
	case n.owner == x.id:
		x.reuse(n)
	}
}

// own makes the node in a slot modifiable, with room for that many more children.
func (x *Txn) own(at *ref, more int) *node {
	n := (*node)(*at)
	owned := n.owner == x.id
	if owned && more == 0 {
		return n
	}
	room := n.count() + more
	if owned && room <= n.slots() {
		return n
	}
	c := x.allocate(slotsFor(room))
	c.fill(n)
	x.discard(n)
	*at = ref(c)
	return c
}

// put puts a leaf where locate has found that its key belongs.
func (x *Txn) put(key []byte, leaf ref, l located) {
	x.begin()
	n := l.parent
	owned := n != nil && n.owner == x.id // and so is all above
	if l.near != nil && l.d == never {
		if owned {
			*n.slot(rank(n.head, symbol(key, n.offset()))) = leaf
		} else {
			at, _ := x.descend(key, never)
			*at = leaf
		}
		x.old.add(watchOf(l.near))
		return
	}
	x.size++
	if owned && n.offset() == l.d && n.count() < n.slots() {
		n.insert(symbol(key, l.d), leaf)
		return
	}
	at, head := x.descend(key, l.d)
	if isNode(head) && head>>offsetShift == l.d {
		x.own(at, 1).insert(symbol(key, l.d), leaf)
	} else {
		x.split(at, head, l.d, key, leaf)
	}
}

// descend makes the nodes on the path to key that branch before d modifiable, and returns
// the slot of the node or leaf below the last one.
func (x *Txn) descend(key []byte, d uint64) (at *ref, head uint64) {
	at = &x.root
	for head = headOf(*at); isNode(head) && head>>offsetShift < d; head = headOf(*at) {
		n := x.own(at, 0)
		at = n.slot(rank(head, symbol(key, head>>offsetShift)))
	}
	return at, head
}

// split puts a node that branches at d above what is in a slot. Watchers of keys to which
// the edge above might lead have to be woken. A node is replaced for this; a leaf is not,
// to save memory.
func (x *Txn) split(at *ref, head, d uint64, key []byte, leaf ref) {
	if isNode(head) {
		x.own(at, 0)
	} else {
		x.old.divided = append(x.old.divided, *at)
	}
	other := *at
	n := x.allocate(minSlots)
	n.head |= d << offsetShift
	n.insert(symbol(anyKey(other), d), other)
	n.insert(symbol(key, d), leaf)
	*at = ref(n)
}

// anyKey returns one of the keys below p.
func anyKey(p ref) []byte {
	head := headOf(p)
	for isNode(head) {
		p = (*node)(p).child(0)
		head = headOf(p)
	}
	return keyOf(p, head)
}

// remove removes the leaf with a key from the tree and returns it, or nil.
func (x *Txn) remove(key []byte) (old ref) {
	if old = find(x.root, key); old != nil {
		x.removeLeaf(key, old)
	}
	return old
}

func (x *Txn) removeLeaf(key []byte, leaf ref) {
	x.begin()
	x.old.add(watchOf(leaf))
	x.size--
	at := &x.root
	for {
		head := headOf(*at)
		s := symbol(key, head>>offsetShift)
		i := rank(head, s)
		if (*node)(*at).child(i) == leaf {
			x.removeChild(at, s)
			return
		}
		at = x.own(at, 0).slot(i)
	}
}

// removeChild removes a child from the node in a slot. The last remaining child takes the
// node's slot, except at the root.
func (x *Txn) removeChild(at *ref, symbol uint64) {
	n := (*node)(*at)
	count := n.count()
	if count == 2 && at != &x.root {
		*at = n.child(1 - rank(n.head, symbol))
		x.discard(n)
		return
	}
	if n.owner == x.id && slotsFor(count-1)+slack >= n.slots() {
		n.remove(symbol)
		return
	}
	c := x.allocate(slotsFor(count - 1))
	c.head |= n.head &^ (slotMask<<slotShift | symbol)
	kept := c.children()
	i := rank(n.head, symbol)
	children := n.children()
	copy(kept, children[:i])
	copy(kept[i:], children[i+1:])
	x.discard(n)
	*at = ref(c)
}

// slack is how many unused slots an owned node may keep when it shrinks.
const slack = 4
