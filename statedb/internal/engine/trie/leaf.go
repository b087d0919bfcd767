package trie

import "unsafe"

// leafHead is the beginning of every leaf, whatever its value. It is also all of
// one that is part of its value, see [Leaf]: then the head has the mark held.
type leafHead struct {
	head  uint64
	watch watch
}

// leaf is a key and its value. It never changes but for its watch. The key's
// bytes follow in the same allocation, or, when there are many, a pointer to
// them: keys belong to the engine as soon as it is given them.
type leaf[V any] struct {
	leafHead
	value V
}

// With a value of one word these fill the allocator's size classes.
type (
	leaf8[V any] struct {
		leaf[V]
		_ [8]byte
	} // 32 bytes
	leaf24[V any] struct {
		leaf[V]
		_ [24]byte
	}
	leaf40[V any] struct {
		leaf[V]
		_ [40]byte
	}
	leaf56[V any] struct {
		leaf[V]
		_ [56]byte
	}
	leaf72[V any] struct {
		leaf[V]
		_ [72]byte
	}
	leaf104[V any] struct {
		leaf[V]
		_ [104]byte
	} // 128 bytes
	leafLent[V any] struct {
		leaf[V]
		key *byte
	}
)

// roomFor is the number of bytes in the smallest leaf for a key of this length,
// or 0 if there is none.
func roomFor(length int) int {
	switch {
	case length <= 8:
		return 8
	case length <= 72:
		return (length+7)/16*16 + 8
	case length <= 104:
		return 104
	}
	return 0
}

func newLeaf[V any](key []byte, value V) *leaf[V] {
	var l *leaf[V]
	switch roomFor(len(key)) {
	case 8:
		l = &new(leaf8[V]).leaf
	case 24:
		l = &new(leaf24[V]).leaf
	case 40:
		l = &new(leaf40[V]).leaf
	case 56:
		l = &new(leaf56[V]).leaf
	case 72:
		l = &new(leaf72[V]).leaf
	case 104:
		l = &new(leaf104[V]).leaf
	default:
		return newLentLeaf(key, value)
	}
	l.head = uint64(len(key))<<lengthShift | uint64(unsafe.Sizeof(*l))
	l.value = value
	copy(keyOf(ref(l), l.head), key)
	return l
}

func newLentLeaf[V any](key []byte, value V) *leaf[V] {
	l := &leafLent[V]{key: unsafe.SliceData(key)}
	l.head = uint64(len(key))<<lengthShift | lent | uint64(unsafe.Sizeof(l.leaf))
	l.value = value
	return &l.leaf
}

// keyOf returns the key of a leaf with this head.
func keyOf(p ref, head uint64) []byte {
	offset := head & (held - 1)
	if head&further != 0 {
		offset &= 1<<distanceShift - 1
	}
	begin := unsafe.Add(p, offset)
	if head&lent != 0 {
		begin = *(*ref)(begin)
	}
	n := int(head >> lengthShift)
	return unsafe.Slice((*byte)(begin), n)[:n:n]
}

func leafKey(p ref) []byte { return keyOf(p, headOf(p)) }

func valueOf[V any](p ref, head uint64) V {
	if head&held != 0 {
		value := holderOf(p, head)
		return *(*V)(unsafe.Pointer(&value))
	}
	return (*leaf[V])(p).value
}

// distance is how far a leaf is from the beginning of what it is part of: also
// what tells the leaves of one value apart.
func distance(head uint64) uint64 {
	if head&further == 0 {
		return 0
	}
	return head >> distanceShift & distanceMask * wordSize
}

const wordSize = 8

// holderOf returns the beginning of what the leaf is part of.
func holderOf(leaf ref, head uint64) ref { return unsafe.Add(leaf, -int(distance(head))) }

// watchOf returns the watch of a leaf, which those of one value share.
func watchOf(leaf ref) *watch { return &(*leafHead)(holderOf(leaf, headOf(leaf))).watch }
