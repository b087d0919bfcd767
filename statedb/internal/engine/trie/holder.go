package trie

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/statehive/statehive/statedb/internal/engine"
)

// Leaf is the first field of a value that is its own leaf: what a key leads to
// is then one allocation, with the bytes of the key at its end, and an entry in
// the tree needs no other. Such a value can be in one tree at a time, under one
// key, and is not put into it again once it was replaced or removed.
type Leaf struct{ leafHead }

// MaxHolder is what a holder without its key has to be smaller than, in bytes.
const MaxHolder = held

// SetKey says where the key lies, before the holder is put into a tree: its bytes
// are at the end of a holder of so many bytes, in the same allocation.
func (l *Leaf) SetKey(holder, length uintptr) {
	l.head = uint64(length)<<offsetShift | held | uint64(holder)
}

// LendKey says that at the end of a holder of so many bytes lies a pointer to a
// key of this length, in place of the key.
func (l *Leaf) LendKey(holder, length uintptr) {
	l.SetKey(holder, length)
	l.head |= lent
}

// Key returns the key, which must not be changed.
func (l *Leaf) Key() []byte { return keyOf(ref(l), l.head) }

// Holder is a pointer to a value that begins with a [Leaf], which Held returns.
type Holder[T any] interface {
	*T
	Held() *Leaf
}

// NewHolding returns an empty tree of values that are their own leaves. The key
// that a value is inserted with is the one that it has.
func NewHolding[T any, P Holder[T]]() engine.Tree[P] {
	value := P(new(T))
	if ref(value.Held()) != ref(value) {
		panic(fmt.Sprintf("%T does not begin with its leaf", value))
	}
	return &tree[P]{root: allocate(minSlots), ids: &atomic.Uint64{}, holding: true}
}

// leafFor returns the leaf for a key and its value.
func leafFor[V any](holding bool, key []byte, value V) ref {
	if holding {
		return *(*ref)(unsafe.Pointer(&value))
	}
	return ref(newLeaf(key, value))
}
