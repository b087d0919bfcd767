package trie

import (
	"math/bits"
	"unsafe"
)

// The first word of a node and of a leaf, from its low end:
//
//	node:           children present 17 | - 1 | slots 5 | branch 1 | offset 40
//	leaf:           where its key begins 21 | embedded 1 | external 1 | branch 1 | secondary 1 | key length 39
//	secondary leaf: where its key begins 13, words from its entry 8 | embedded and so on, as a leaf
const (
	symbolMask  = 1<<symbols - 1
	slotShift   = 18
	slotMask    = 1<<5 - 1
	embedded    = 1 << 21
	external    = 1 << 22
	branch      = 1 << 23
	offsetShift = 24

	secondary     = 1 << 24
	lengthShift   = 25
	distanceShift = 13
	distanceMask  = 1<<8 - 1
	offsetBits    = 64 - offsetShift
)

// ref is a pointer to a node or to a leaf: isNode tells which.
type ref = unsafe.Pointer

func headOf(p ref) uint64 { return *(*uint64)(p) }

func isNode(head uint64) bool { return head&branch != 0 }

// node is the beginning of every node. Its slots follow, one for each child in
// the order of their symbols, and then empty ones; see [allocate].
type node struct {
	head  uint64
	owner uint64 // the id under which a transaction made it and may modify it
	watch watch
}

func (n *node) offset() uint64 { return n.head >> offsetShift }
func (n *node) count() int     { return bits.OnesCount32(uint32(n.head & symbolMask)) }
func (n *node) slots() int     { return int(n.head >> slotShift & slotMask) }

// rank is the number of children before a symbol: the slot of its child.
func rank(head, symbol uint64) int { return bits.OnesCount32(uint32(head & (symbol - 1) & symbolMask)) }

func (n *node) slot(i int) *ref {
	return (*ref)(unsafe.Add(unsafe.Pointer(n), unsafe.Sizeof(node{})+uintptr(i)*unsafe.Sizeof(ref(nil))))
}

func (n *node) child(i int) ref { return *n.slot(i) }

func (n *node) children() []ref { return unsafe.Slice(n.slot(0), n.count()) }

// insert adds a child; there must be a free slot.
func (n *node) insert(symbol uint64, child ref) {
	i, count := rank(n.head, symbol), n.count()
	slots := unsafe.Slice(n.slot(0), count+1)
	copy(slots[i+1:], slots[i:])
	slots[i] = child
	n.head |= symbol
}

// remove removes a child.
func (n *node) remove(symbol uint64) {
	slots := n.children()
	i := rank(n.head, symbol)
	copy(slots[i:], slots[i+1:])
	slots[len(slots)-1] = nil
	n.head &^= symbol
}

// slotsFor returns the number of slots of the smallest node with room for this many
// children. An odd number fills the allocator's size class.
func slotsFor(children int) int { return max(minSlots, children|1) }

const minSlots = 3

type (
	node3 struct {
		node
		_ [3]ref
	} // 48 bytes
	node5 struct {
		node
		_ [5]ref
	}
	node7 struct {
		node
		_ [7]ref
	}
	node9 struct {
		node
		_ [9]ref
	}
	node11 struct {
		node
		_ [11]ref
	}
	node13 struct {
		node
		_ [13]ref
	}
	node15 struct {
		node
		_ [15]ref
	}
	node17 struct {
		node
		_ [symbols]ref
	} // 160 bytes
)

// allocate returns an empty node. Each number of slots has a type of its own,
// so that the garbage collector knows where the pointers are.
func allocate(slots int) (n *node) {
	switch slots {
	case 3:
		n = &new(node3).node
	case 5:
		n = &new(node5).node
	case 7:
		n = &new(node7).node
	case 9:
		n = &new(node9).node
	case 11:
		n = &new(node11).node
	case 13:
		n = &new(node13).node
	case 15:
		n = &new(node15).node
	default:
		slots = symbols
		n = &new(node17).node
	}
	n.head = branch | uint64(slots)<<slotShift
	return n
}

// fill copies the children of another node into an empty one.
func (n *node) fill(from *node) {
	n.head |= from.head &^ (slotMask << slotShift)
	children := from.children()
	copy(unsafe.Slice(n.slot(0), len(children)), children)
}

// reset empties a node.
func (n *node) reset() {
	clear(n.children())
	n.head = branch | uint64(n.slots())<<slotShift
}
