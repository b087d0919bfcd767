package trie

import (
	"testing"
	"unsafe"
)

// entry is what the tests put into trees: a number, with the keys of up to three
// trees behind it, or pointers to long ones.
type entry struct {
	Leaf
	value     int
	secondary [2]SecondaryLeaf
	external  [3]*byte
	room      [3][keyRoom]byte
}

const keyRoom = 8

// newEntry returns an entry with a key for each of its leaves, in their order; of
// those without one the key is nil.
func newEntry(value int, keys ...[]byte) *entry {
	e := &entry{value: value}
	for i, key := range keys {
		if key != nil {
			e.setKey(i, key)
		}
	}
	return e
}

func (e *entry) setKey(i int, key []byte) {
	length, distance := uintptr(len(key)), e.distance(i)
	room, pointer := unsafe.Offsetof(e.room)+uintptr(i)*keyRoom, unsafe.Offsetof(e.external)+uintptr(i)*wordSize
	short := len(key) <= keyRoom
	switch {
	case short && i == 0:
		e.SetKey(room, length)
	case short:
		e.secondary[i-1].SetKey(distance, room-distance, length)
	case i == 0:
		e.SetExternalKey(pointer, length)
	default:
		e.secondary[i-1].SetExternalKey(distance, pointer-distance, length)
	}
	e.external[i] = unsafe.SliceData(key)
	if short {
		copy(e.room[i][:], key)
		e.external[i] = nil
	}
}

// leaf returns one of the leaves.
func (e *entry) leaf(i int) unsafe.Pointer { return unsafe.Add(unsafe.Pointer(e), e.distance(i)) }

func (e *entry) distance(i int) uintptr {
	if i == 0 {
		return 0
	}
	return unsafe.Offsetof(e.secondary) + uintptr(i-1)*unsafe.Sizeof(e.secondary[0])
}

// maker returns a leaf with a key, of an entry with a value.
type maker func(key []byte, value int) unsafe.Pointer

func embeddedLeaf(key []byte, value int) unsafe.Pointer { return newEntry(value, key).leaf(0) }

func secondaryLeaf(key []byte, value int) unsafe.Pointer {
	return newEntry(value, nil, nil, key).leaf(2)
}

func separate(key []byte, value int) unsafe.Pointer {
	return NewSeparateLeaf(key, unsafe.Pointer(&entry{value: value}))
}

// valueOf returns the value of a leaf's entry, or 0 without a leaf.
func valueOf(leaf unsafe.Pointer) int {
	if leaf == nil {
		return 0
	}
	return (*entry)(Entry(leaf)).value
}

// eachKind runs a test with all kinds of leaves.
func eachKind(t *testing.T, test func(t *testing.T, leaf maker)) {
	for name, leaf := range map[string]maker{"embedded": embeddedLeaf, "secondary": secondaryLeaf, "separate": separate} {
		t.Run(name, func(t *testing.T) { test(t, leaf) })
	}
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
