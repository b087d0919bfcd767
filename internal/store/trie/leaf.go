package trie

import "unsafe"

// Leaf is the first field of every entry: it makes the entry its own leaf in one tree. Its
// key must be set ([Leaf.SetKey] or [Leaf.SetExternalKey]) before the entry is put into the
// tree. An entry that was replaced or removed must not be put into a tree again.
type Leaf struct {
	head  uint64
	watch watch
}

// SecondaryLeaf makes an entry its own leaf in one more tree, under another key. It is part
// of the allocation of the entry, whose watch it shares. An entry must be put into all of
// its trees, or replaced in all of them, together.
type SecondaryLeaf struct{ head uint64 }

// Limits of positions in an entry, in bytes: a key has to begin within MaxEntry, and a
// secondary leaf within MaxDistance.
const (
	MaxEntry    = embedded
	MaxDistance = (distanceMask + 1) * wordSize
)

const wordSize = 8

// SetKey sets the position of the key of an entry: an offset from the beginning of the entry,
// in the same allocation.
func (l *Leaf) SetKey(offset, length uintptr) {
	l.head = uint64(length)<<lengthShift | embedded | uint64(offset)
}

// SetExternalKey is SetKey for a key elsewhere: a pointer to it lies at the offset.
func (l *Leaf) SetExternalKey(offset, length uintptr) {
	l.SetKey(offset, length)
	l.head |= external
}

// Key returns the key, which must not be modified.
func (l *Leaf) Key() []byte { return keyOf(ref(l), l.head) }

// SetKey sets how far the leaf is from the beginning of its entry, a multiple of 8, and how
// far its key is from the leaf.
func (l *SecondaryLeaf) SetKey(distance, offset, length uintptr) {
	l.head = uint64(length)<<lengthShift | secondary | embedded | uint64(distance)/wordSize<<distanceShift | uint64(offset)
}

// SetExternalKey is SetKey for a key elsewhere: a pointer to it lies at the offset.
func (l *SecondaryLeaf) SetExternalKey(distance, offset, length uintptr) {
	l.SetKey(distance, offset, length)
	l.head |= external
}

// Key returns the key, which must not be modified.
func (l *SecondaryLeaf) Key() []byte { return keyOf(ref(l), l.head) }

// separateLeaf is a leaf that is an allocation of its own, for trees in which an entry may
// have any number of keys. The bytes of the key follow in the same allocation, or a pointer
// to them if the key is long.
type separateLeaf struct {
	Leaf
	entry ref
}

// The sizes fill the allocator's size classes.
type (
	separateLeaf8 struct {
		separateLeaf
		_ [8]byte
	} // 32 bytes
	separateLeaf24 struct {
		separateLeaf
		_ [24]byte
	}
	separateLeaf40 struct {
		separateLeaf
		_ [40]byte
	}
	separateLeaf56 struct {
		separateLeaf
		_ [56]byte
	}
	separateLeaf72 struct {
		separateLeaf
		_ [72]byte
	}
	separateLeaf104 struct {
		separateLeaf
		_ [104]byte
	} // 128 bytes
	separateLeafExternal struct {
		separateLeaf
		key *byte
	}
)

// roomFor returns the number of bytes in the smallest separate leaf for a key of this
// length, or 0 if there is none.
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

// NewSeparateLeaf returns a leaf that leads to an entry under a key. The key must
// not be modified afterwards.
func NewSeparateLeaf(key []byte, entry unsafe.Pointer) unsafe.Pointer {
	var l *separateLeaf
	switch roomFor(len(key)) {
	case 8:
		l = &new(separateLeaf8).separateLeaf
	case 24:
		l = &new(separateLeaf24).separateLeaf
	case 40:
		l = &new(separateLeaf40).separateLeaf
	case 56:
		l = &new(separateLeaf56).separateLeaf
	case 72:
		l = &new(separateLeaf72).separateLeaf
	case 104:
		l = &new(separateLeaf104).separateLeaf
	default:
		e := &separateLeafExternal{key: unsafe.SliceData(key)}
		e.head = uint64(len(key))<<lengthShift | external | uint64(unsafe.Sizeof(e.separateLeaf))
		e.entry = entry
		return ref(e)
	}
	l.head = uint64(len(key))<<lengthShift | uint64(unsafe.Sizeof(*l))
	l.entry = entry
	copy(keyOf(ref(l), l.head), key)
	return ref(l)
}

// SeparateEntry returns the entry that a separate leaf leads to.
func SeparateEntry(leaf unsafe.Pointer) unsafe.Pointer { return (*separateLeaf)(leaf).entry }

// keyOf returns the key of a leaf with this head.
func keyOf(p ref, head uint64) []byte {
	offset := head & (embedded - 1)
	if head&secondary != 0 {
		offset &= 1<<distanceShift - 1
	}
	begin := unsafe.Add(p, offset)
	if head&external != 0 {
		begin = *(*ref)(begin)
	}
	n := int(head >> lengthShift)
	return unsafe.Slice((*byte)(begin), n)[:n:n]
}

func leafKey(p ref) []byte { return keyOf(p, headOf(p)) }

// Entry returns the entry of any leaf, and nil for nil.
func Entry(leaf unsafe.Pointer) unsafe.Pointer {
	if leaf == nil {
		return nil
	}
	head := headOf(leaf)
	if head&embedded != 0 {
		return beginningOf(leaf, head)
	}
	return (*separateLeaf)(leaf).entry
}

// Key returns the key of any leaf.
func Key(leaf unsafe.Pointer) []byte { return leafKey(leaf) }

// distance returns how far a leaf is from the beginning of its entry. No two leaves of an
// entry have the same distance.
func distance(head uint64) uint64 {
	if head&secondary == 0 {
		return 0
	}
	return head >> distanceShift & distanceMask * wordSize
}

// beginningOf returns the beginning of the entry that the leaf is part of.
func beginningOf(leaf ref, head uint64) ref { return unsafe.Add(leaf, -int(distance(head))) }

// watchOf returns the watch of a leaf, which all embedded leaves of an entry share.
func watchOf(leaf ref) *watch { return &(*Leaf)(beginningOf(leaf, headOf(leaf))).watch }
