package trie

import (
	"unsafe"

	"github.com/statehive/statehive/internal/store/memsize"
)

// Sizes of the parts of a watch, in bytes.
const (
	signalSize  = 32
	edgeSize    = 24
	channelSize = 112
)

func (w *watch) size() int {
	s := w.signal.Load()
	switch {
	case s == nil:
		return 0
	case s.ch == nil:
		return signalSize + len(s.edges)*(edgeSize+channelSize)
	}
	return signalSize + channelSize + len(s.edges)*(edgeSize+channelSize)
}

// Size estimates the heap memory of a version, in bytes: the nodes, the watches, and the
// separate leaves with their keys. What is part of entries does not count.
func (t *Tree) Size() int {
	if t.root == nil {
		return 0
	}
	return sizeOf(ref(t.root))
}

func sizeOf(p ref) int {
	head := headOf(p)
	if !isNode(head) {
		return sizeOfLeaf(p, head)
	}
	n := (*node)(p)
	size := memsize.Alloc(int(unsafe.Sizeof(*n))+n.slots()*int(unsafe.Sizeof(p))) + n.watch.size()
	for _, child := range n.children() {
		size += sizeOf(child)
	}
	return size
}

func sizeOfLeaf(p ref, head uint64) int {
	if head&secondary != 0 {
		return 0 // the watch counts in the first tree
	}
	watch, length := watchOf(p).size(), int(head>>lengthShift)
	leafSize := int(unsafe.Sizeof(separateLeaf{}))
	switch {
	case head&embedded != 0:
		return watch
	case head&external != 0:
		return memsize.Alloc(leafSize+int(unsafe.Sizeof(p))) + watch + memsize.Alloc(length)
	}
	return memsize.Alloc(leafSize+roomFor(length)) + watch
}
