package statedb

import (
	"sync/atomic"
	"unsafe"

	"github.com/statehive/statehive/statedb/internal/engine/trie"
	"github.com/statehive/statehive/statedb/internal/memsize"
)

// entry is one version of one row, shared by all indexes. It is one allocation,
// and its own leaf in the primary index. Behind it lie, in this order, a head for
// each secondary index that the entry is its own leaf of, and the bytes of all keys: see
// [entryKeys].
type entry[Obj any] struct {
	trie.Leaf
	rev  Revision
	spec Revision      // of the last write that was not a status write
	dead atomic.Uint64 // revision of the commit that replaced it, if the window held it
	obj  Obj
}

// Entries with room for heads and keys. A type for each, so that the collector
// knows where the pointers are.
type (
	entry8[Obj any] struct {
		entry[Obj]
		_ [8]byte
	}
	entry16[Obj any] struct {
		entry[Obj]
		_ [16]byte
	}
	entry24[Obj any] struct {
		entry[Obj]
		_ [24]byte
	}
	entry32[Obj any] struct {
		entry[Obj]
		_ [32]byte
	}
	entry48[Obj any] struct {
		entry[Obj]
		_ [48]byte
	}
	entry64[Obj any] struct {
		entry[Obj]
		_ [64]byte
	}
	entry96[Obj any] struct {
		entry[Obj]
		_ [96]byte
	}
	entry128[Obj any] struct {
		entry[Obj]
		_ [128]byte
	}
	entry160[Obj any] struct {
		entry[Obj]
		_ [160]byte
	}
	entry192[Obj any] struct {
		entry[Obj]
		_ [192]byte
	}
	// entryLent has its keys elsewhere.
	entryLent[Obj any] struct {
		entry[Obj]
		key *byte
	}
	entryLentAll[Obj any] struct {
		entry[Obj]
		heads [maxShared]trie.Head
		keys  [1 + maxShared]*byte // the primary one first
	}
)

// maxShared is how many secondary indexes an entry can be its own leaf of.
const maxShared = 7

const headSize = unsafe.Sizeof(trie.Head{})

// entryRooms are the sizes of heads and keys for which there are entries with room.
var entryRooms = [...]int{8, 16, 24, 32, 48, 64, 96, 128, 160, 192}

// entryRoom is the number of bytes behind the entry for this many, or 0 when the
// keys lie elsewhere.
func entryRoom(size int) int {
	for _, room := range entryRooms {
		if size <= room {
			return room
		}
	}
	return 0
}

// entryKeys is the keys of an entry: those of the secondary indexes that it is its own
// leaf of one behind another, and the primary key, which they all end with: it is
// the end of the last one.
type entryKeys struct {
	bytes   []byte
	primary int            // length of the primary key
	count   int            // of secondary keys
	ends    [maxShared]int // of the secondary keys
}

// newEntry makes an entry with a copy of its keys.
func newEntry[Obj any](keys *entryKeys) *entry[Obj] {
	heads := uintptr(keys.count) * headSize
	e := roomyEntry[Obj](int(heads) + roomFor(len(keys.bytes), keys.primary))
	if e == nil {
		return newLentEntry[Obj](keys)
	}
	size := unsafe.Sizeof(*e)
	copy(unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(e), size+heads)), len(keys.bytes)), keys.bytes)
	e.SetKey(size+heads+uintptr(len(keys.bytes)-keys.primary), uintptr(keys.primary))
	begin := 0
	for i, end := range keys.ends[:keys.count] {
		at := uintptr(i) * headSize
		e.head(i).SetKey(size+at, heads-at+uintptr(begin), uintptr(end-begin))
		begin = end
	}
	return e
}

// roomFor is the bytes that keys need: one more when the primary key is empty, or
// else it could begin behind the end of the entry.
func roomFor(keys, primary int) int {
	if primary == 0 {
		return keys + 1
	}
	return keys
}

// roomyEntry returns an entry with so many bytes behind it, or nil if that are
// too many.
func roomyEntry[Obj any](size int) *entry[Obj] {
	switch entryRoom(size) {
	case 8:
		return &new(entry8[Obj]).entry
	case 16:
		return &new(entry16[Obj]).entry
	case 24:
		return &new(entry24[Obj]).entry
	case 32:
		return &new(entry32[Obj]).entry
	case 48:
		return &new(entry48[Obj]).entry
	case 64:
		return &new(entry64[Obj]).entry
	case 96:
		return &new(entry96[Obj]).entry
	case 128:
		return &new(entry128[Obj]).entry
	case 160:
		return &new(entry160[Obj]).entry
	case 192:
		return &new(entry192[Obj]).entry
	}
	return nil
}

func newLentEntry[Obj any](keys *entryKeys) *entry[Obj] {
	lent := make([]byte, roomFor(len(keys.bytes), keys.primary))
	copy(lent, keys.bytes)
	primary := &lent[len(keys.bytes)-keys.primary]
	if keys.count == 0 {
		e := &entryLent[Obj]{key: primary}
		e.LendKey(unsafe.Offsetof(e.key), uintptr(keys.primary))
		return &e.entry
	}
	e := &entryLentAll[Obj]{}
	e.keys[0] = primary
	e.LendKey(unsafe.Offsetof(e.keys), uintptr(keys.primary))
	begin := 0
	for i, end := range keys.ends[:keys.count] {
		e.keys[1+i] = &lent[begin]
		head := unsafe.Offsetof(e.heads) + uintptr(i)*headSize
		pointer := unsafe.Offsetof(e.keys) + uintptr(1+i)*unsafe.Sizeof(primary)
		e.heads[i].LendKey(head, pointer-head, uintptr(end-begin))
		begin = end
	}
	return &e.entry
}

// Held makes an entry its own leaf in the primary index.
func (e *entry[Obj]) Held() *trie.Leaf { return &e.Leaf }

// head makes it one in a secondary index, the i-th of those.
func (e *entry[Obj]) head(i int) *trie.Head {
	return (*trie.Head)(unsafe.Add(unsafe.Pointer(e), headDistance[Obj](i)))
}

// headDistance is how far head i lies behind the beginning of an entry.
func headDistance[Obj any](i int) uintptr { return unsafe.Sizeof(entry[Obj]{}) + uintptr(i)*headSize }

// mostShared is how many secondary indexes an entry can be its own leaf of: none
// when rows are large.
func mostShared[Obj any]() int {
	if headDistance[Obj](maxShared) > trie.MaxDistance {
		return 0
	}
	return maxShared
}

// allocated is the memory that an entry with so many heads occupies, with its keys.
func (e *entry[Obj]) allocated(heads int) int {
	size, keys := int(unsafe.Sizeof(*e)), len(e.Key())
	if heads > 0 {
		keys = 0
	}
	for i := range heads {
		keys += len(e.head(i).Key())
	}
	keys = roomFor(keys, len(e.Key()))
	if room := entryRoom(heads*int(headSize) + keys); room > 0 {
		return memsize.Alloc(size + room)
	}
	pointers := int(unsafe.Sizeof((*byte)(nil)))
	if heads > 0 {
		pointers = int(unsafe.Sizeof(entryLentAll[Obj]{})) - size
	}
	return memsize.Alloc(size+pointers) + memsize.Alloc(keys)
}

// tooLarge says whether rows are too large to be kept by value.
func tooLarge[Obj any]() bool { return unsafe.Sizeof(entry[Obj]{}) >= trie.MaxHolder-maxEntryRoom }

// maxEntryRoom is how far a key may lie behind an entry.
const maxEntryRoom = 256
