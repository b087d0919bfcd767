package trie

import (
	"unsafe"

	"github.com/statehive/statehive/statedb/internal/memsize"
)

// What watches are made of.
const (
	signalSize  = 32
	edgeSize    = 24
	channelSize = 112
)

func (w *watch) size() int {
	s := w.signal.Load()
	switch {
	case s == nil || s == replacedMark:
		return 0
	case s.ch == nil:
		return signalSize + len(s.edges)*(edgeSize+channelSize)
	}
	return signalSize + channelSize + len(s.edges)*(edgeSize+channelSize)
}

// sizeOf adds up what is below p: own is nodes and leaves with their keys, lent
// the long keys that they refer to. Leaves that are values do not count.
func sizeOf(p ref, leafSize int) (own, lentKeys int) {
	head := headOf(p)
	if !isNode(head) {
		return sizeOfLeaf(p, head, leafSize)
	}
	n := (*node)(p)
	own = memsize.Alloc(int(unsafe.Sizeof(*n))+n.slots()*int(unsafe.Sizeof(p))) + n.watch.size()
	for _, child := range n.children() {
		o, l := sizeOf(child, leafSize)
		own, lentKeys = own+o, lentKeys+l
	}
	return own, lentKeys
}

func sizeOfLeaf(p ref, head uint64, leafSize int) (own, lentKeys int) {
	if head&further != 0 {
		return 0, 0 // the watch counts in the first tree
	}
	watch, length := watchOf(p).size(), int(head>>lengthShift)
	if head&held != 0 {
		return watch, 0
	}
	if head&lent != 0 {
		return memsize.Alloc(leafSize+int(unsafe.Sizeof(p))) + watch, memsize.Alloc(length)
	}
	return memsize.Alloc(leafSize+roomFor(length)) + watch, 0
}
