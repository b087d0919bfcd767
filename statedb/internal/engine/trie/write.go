package trie

import "sync/atomic"

// writer is a transaction without the type of its values.
type writer struct {
	root  ref // a node with offset 0, in every version
	size  int
	ids   *atomic.Uint64 // the last id that a transaction of this tree's family took
	id    uint64         // nodes with this owner can be changed in place; 0 before the first write
	first uint64         // the first id: nodes with a smaller one have been in a version
	old   replaced
	spare *spares
}

// spares are nodes that a transaction has outgrown, one of each size: it goes on
// to make others.
type spares [symbols/2 + 1]*node

// allocate returns an empty node that the transaction owns.
func (w *writer) allocate(slots int) *node {
	var n *node
	if w.spare != nil {
		n, w.spare[slots/2] = w.spare[slots/2], nil
	}
	if n == nil {
		n = allocate(slots)
	}
	n.owner = w.id
	return n
}

// reuse keeps a node that nobody else has ever seen.
func (w *writer) reuse(n *node) {
	if w.spare == nil {
		w.spare = new(spares)
	}
	n.reset()
	w.spare[n.slots()/2] = n
}

// begin takes an id for what will be written.
func (w *writer) begin() {
	if w.id == 0 {
		w.id = w.ids.Add(1)
	}
	if w.first == 0 {
		w.first = w.id
	}
}

// freeze keeps all nodes as they are: from now on writes copy them.
func (w *writer) freeze() { w.id = 0 }

// discard is about a node that is no longer part of the tree: somebody may watch
// it, unless it is younger than the transaction.
func (w *writer) discard(n *node) {
	switch {
	case n.owner < w.first:
		w.old.add(&n.watch)
	case n.owner == w.id:
		w.reuse(n)
	}
}

// own makes the node at a place one that can be changed, with room for so many
// more children.
func (w *writer) own(at *ref, more int) *node {
	n := (*node)(*at)
	owned := n.owner == w.id
	if owned && more == 0 {
		return n
	}
	room := n.count() + more
	if owned && room <= n.slots() {
		return n
	}
	c := w.allocate(slotsFor(room))
	c.fill(n)
	w.discard(n)
	*at = ref(c)
	return c
}

// insert puts a leaf into the tree and returns the one that it replaced, or nil.
func (w *writer) insert(key []byte, fresh ref) (old ref) {
	w.begin()
	d := uint64(0)
	if near := nearest((*node)(w.root), key); near != nil {
		d = difference(key, leafKey(near))
	}
	at, head := w.descend(key, d)
	switch {
	case !isNode(head) && d == never:
		old = *at
		w.old.add(watchOf(old))
		*at = fresh
		return old
	case isNode(head) && head>>offsetShift == d:
		w.own(at, 1).insert(symbol(key, d), fresh)
	default:
		w.split(at, head, d, key, fresh)
	}
	w.size++
	return nil
}

// descend owns the nodes on the way to key that branch before d, and returns the
// place of the node or leaf below the last one.
func (w *writer) descend(key []byte, d uint64) (at *ref, head uint64) {
	at = &w.root
	for head = headOf(*at); isNode(head) && head>>offsetShift < d; head = headOf(*at) {
		n := w.own(at, 0)
		at = n.slot(rank(head, symbol(key, head>>offsetShift)))
	}
	return at, head
}

// split puts a node that branches at d above what is at a place. Whoever watches
// that for what the edge above may lead to has to wake up. A node is replaced for
// this; a leaf is not, to save memory.
func (w *writer) split(at *ref, head, d uint64, key []byte, fresh ref) {
	if isNode(head) {
		w.own(at, 0)
	} else {
		w.old.divided = append(w.old.divided, *at)
	}
	other := *at
	n := w.allocate(minSlots)
	n.head |= d << offsetShift
	n.insert(symbol(anyKey(other), d), other)
	n.insert(symbol(key, d), fresh)
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

// remove takes the leaf with a key out of the tree and returns it, or nil.
func (w *writer) remove(key []byte) (old ref) {
	old = find((*node)(w.root), key)
	if old == nil {
		return nil
	}
	w.begin()
	w.old.add(watchOf(old))
	w.size--
	at := &w.root
	for {
		head := headOf(*at)
		s := symbol(key, head>>offsetShift)
		i := rank(head, s)
		if (*node)(*at).child(i) == old {
			w.removeChild(at, s)
			return old
		}
		at = w.own(at, 0).slot(i)
	}
}

// removeChild takes a child out of the node at a place. The last child of a node
// takes its place, but the root stays.
func (w *writer) removeChild(at *ref, symbol uint64) {
	n := (*node)(*at)
	count := n.count()
	if count == 2 && at != &w.root {
		*at = n.child(1 - rank(n.head, symbol))
		w.discard(n)
		return
	}
	if n.owner == w.id && slotsFor(count-1)+slack >= n.slots() {
		n.remove(symbol)
		return
	}
	c := w.allocate(slotsFor(count - 1))
	c.head |= n.head &^ (slotMask<<slotShift | symbol)
	kept := c.children()
	i := rank(n.head, symbol)
	children := n.children()
	copy(kept, children[:i])
	copy(kept[i:], children[i+1:])
	w.discard(n)
	*at = ref(c)
}

// slack is how many empty slots too many an owned node keeps when it shrinks.
const slack = 4
