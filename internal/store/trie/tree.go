package trie

import "unsafe"

// Tree is one immutable version of a tree. It is a value: copies are the same version. The
// zero value belongs to no tree: it is empty and must not be written.
type Tree struct {
	root *node // always there, with offset 0, for the watches at the top
	top  ref   // where searches begin: the only child of the root if it has only one, else the root
	size int
}

// New returns an empty tree.
func New() Tree {
	root := allocate(minSlots)
	return Tree{root: root, top: ref(root)}
}

func topOf(root *node) ref {
	if root.count() == 1 {
		return root.child(0)
	}
	return ref(root)
}

// Len returns the number of keys.
func (t *Tree) Len() int { return t.size }

// Version tells the versions of one tree apart, those that a transaction has not committed
// included: if it is the same, so are the keys and their leaves.
func (t *Tree) Version() uint64 {
	if t.root == nil {
		return 0
	}
	return t.root.owner // each write copies the root, unless it has the same id
}

// Get returns the leaf with this key, or nil.
func (t *Tree) Get(key []byte) unsafe.Pointer {
	if t.top == nil {
		return nil
	}
	return find(t.top, key)
}

// First returns the leaf with the smallest key that starts with prefix, or nil.
func (t *Tree) First(prefix []byte) unsafe.Pointer {
	if t.root == nil {
		return nil
	}
	return first(below(t.root, prefix))
}

// Txn builds the next version of a tree. It belongs to one goroutine at a time,
// and can be reused after Notify or Discard: it keeps its memory. Of several transactions
// on one version at most one may be committed.
type Txn struct {
	root  ref // a node with offset 0, in every version
	size  int
	ids   *uint64 // the last id that a transaction took
	id    uint64  // nodes with this owner can be modified in place; 0 before the first write
	first uint64  // the first id: nodes with a smaller one have been in a version
	old   replaced
	spare spares
}

// Begin begins a transaction on a version. ids counts the transactions on all versions of
// the tree; only the goroutine that may write the tree may use it. Trees can share it.
func (x *Txn) Begin(t *Tree, ids *uint64) {
	x.root, x.size, x.ids, x.id, x.first = ref(t.root), t.size, ids, 0, 0
}

// Len returns the number of keys, as of now.
func (x *Txn) Len() int { return x.size }

// Get returns the leaf with this key, as of now, or nil.
func (x *Txn) Get(key []byte) unsafe.Pointer { return find(topOf((*node)(x.root)), key) }

// First returns the leaf with the smallest key that starts with prefix, as of now, or
// nil.
func (x *Txn) First(prefix []byte) unsafe.Pointer { return first(below((*node)(x.root), prefix)) }

// View returns the tree as of now. Later writes of the transaction copy its nodes.
func (x *Txn) View() Tree {
	x.freeze()
	root := (*node)(x.root)
	return Tree{root: root, top: topOf(root), size: x.size}
}

// Location is where a key belongs in a tree, for [Txn.Put]. It is valid until the
// next write.
type Location struct{ at located }

// Leaf returns the leaf with the key, or nil.
func (l *Location) Leaf() unsafe.Pointer {
	if l.at.d == never {
		return l.at.near
	}
	return nil
}

// Locate returns where a key belongs in the tree.
func (t *Tree) Locate(key []byte) Location { return Location{locate(t.root, key)} }

// Locate returns where a key belongs in what the transaction has written so far.
func (x *Txn) Locate(key []byte) Location { return Location{locate((*node)(x.root), key)} }

// Put puts a leaf with this key at its location.
func (x *Txn) Put(key []byte, leaf unsafe.Pointer, at Location) { x.put(key, leaf, at.at) }

// Insert puts a leaf with this key into the tree and reports whether it replaced
// another one.
func (x *Txn) Insert(key []byte, leaf unsafe.Pointer) (replaced bool) {
	at := x.Locate(key)
	x.put(key, leaf, at.at)
	return at.Leaf() != nil
}

// Remove removes the leaf with this key and returns it, or nil.
func (x *Txn) Remove(key []byte) unsafe.Pointer { return x.remove(key) }

// RemoveLeaf removes a leaf, which must be in the tree.
func (x *Txn) RemoveLeaf(leaf unsafe.Pointer) { x.removeLeaf(leafKey(leaf), leaf) }

// Commit returns the next version. The caller publishes it and then calls Notify.
func (x *Txn) Commit() Tree { return x.View() }

// Notify closes the watches of what the committed transaction has replaced, and
// ends the transaction.
func (x *Txn) Notify() {
	x.old.closeAll((*node)(x.root))
	x.root = nil
}

// Discard ends a transaction without committing it.
func (x *Txn) Discard() {
	x.old.reset()
	x.root = nil
}
