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
// key, and in one more for each [Head], and is not put into them again once it was
// replaced or removed.
type Leaf struct{ leafHead }

// Head makes a value its own leaf in one more tree, under another key: it lies in
// the same allocation as the value, which it shares the watch with. Who puts the
// value into a tree or replaces it does so in all of its trees.
type Head struct{ head uint64 }

// MaxDistance is what the distance of a head from the beginning of its value has
// to be smaller than, in bytes.
const MaxDistance = (distanceMask + 1) * wordSize

// SetKey says how far the head lies behind the beginning of its value, and how
// far behind the head its key, in bytes. The former is a multiple of 8.
func (h *Head) SetKey(distance, key, length uintptr) {
	h.head = uint64(length)<<lengthShift | further | held | uint64(distance)/wordSize<<distanceShift | uint64(key)
}

// LendKey says that a pointer to the key lies there, in place of the key.
func (h *Head) LendKey(distance, pointer, length uintptr) {
	h.SetKey(distance, pointer, length)
	h.head |= lent
}

// Key returns the key, which must not be changed.
func (h *Head) Key() []byte { return keyOf(ref(h), h.head) }

// MaxHolder is what a holder without its key has to be smaller than, in bytes.
const MaxHolder = held

// SetKey says where the key lies, before the holder is put into a tree: its bytes
// are at the end of a holder of so many bytes, in the same allocation.
func (l *Leaf) SetKey(holder, length uintptr) {
	l.head = uint64(length)<<lengthShift | held | uint64(holder)
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
	return &tree[P]{root: allocate(minSlots), ids: &atomic.Uint64{}, held: 1}
}

// NewFurther returns an empty tree of values that have a [Head] for it, so many
// bytes behind their beginning.
func NewFurther[T any, P Holder[T]](distance uintptr) engine.Tree[P] {
	return &tree[P]{root: allocate(minSlots), ids: &atomic.Uint64{}, held: 1 + distance}
}

// leafFor returns the leaf for a key and its value. held is 0 when it has to be
// made; otherwise, less one, its distance from the value. Of no value there is no leaf:
// a transaction that was given one can be committed and notified about, and nothing else.
func leafFor[V any](held uintptr, key []byte, value V) ref {
	if held == 0 {
		return ref(newLeaf(key, value))
	}
	holder := *(*ref)(unsafe.Pointer(&value))
	if holder == nil {
		return nil
	}
	return unsafe.Add(holder, held-1)
}
