package statedb

import (
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/statehive/statehive/statedb/internal/engine/trie"
	"github.com/statehive/statehive/statedb/internal/memsize"
)

// entry is one version of one row, shared by all indexes. It is one allocation,
// with the bytes of its primary key behind it, and its own leaf in the primary
// index.
type entry[Obj any] struct {
	trie.Leaf
	rev  Revision
	spec Revision      // of the last write that was not a status write
	dead atomic.Uint64 // revision of the commit that replaced it, if the window held it
	obj  Obj
}

// Entries with room for a key. A type for each, so that the collector knows where
// the pointers are.
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
	entryLent[Obj any] struct {
		entry[Obj]
		key *byte
	}
)

// keyRooms are the sizes of the keys for which there are entries with room.
var keyRooms = [...]int{8, 16, 24, 32, 48, 64, 96}

// keyRoom is the number of bytes behind the entry with a key of this length, or 0
// when the key lies elsewhere.
func keyRoom(length int) int {
	for _, room := range keyRooms {
		if length <= room {
			return room
		}
	}
	return 0
}

// newEntry makes an entry with a copy of a key.
func newEntry[Obj any](key []byte) *entry[Obj] {
	var e *entry[Obj]
	switch keyRoom(len(key)) {
	case 8:
		e = &new(entry8[Obj]).entry
	case 16:
		e = &new(entry16[Obj]).entry
	case 24:
		e = &new(entry24[Obj]).entry
	case 32:
		e = &new(entry32[Obj]).entry
	case 48:
		e = &new(entry48[Obj]).entry
	case 64:
		e = &new(entry64[Obj]).entry
	case 96:
		e = &new(entry96[Obj]).entry
	default:
		lent := &entryLent[Obj]{key: unsafe.SliceData(slices.Clone(key))}
		lent.LendKey(unsafe.Sizeof(lent.entry), uintptr(len(key)))
		return &lent.entry
	}
	e.SetKey(unsafe.Sizeof(*e), uintptr(len(key)))
	copy(e.Key(), key)
	return e
}

// Held makes an entry its own leaf in the primary index.
func (e *entry[Obj]) Held() *trie.Leaf { return &e.Leaf }

// allocated is the memory that the entry occupies, with its key.
func (e *entry[Obj]) allocated() int {
	size, length := int(unsafe.Sizeof(*e)), len(e.Key())
	if room := keyRoom(length); room > 0 {
		return memsize.Alloc(size + room)
	}
	return memsize.Alloc(size+int(unsafe.Sizeof((*byte)(nil)))) + memsize.Alloc(length)
}

// tooLarge says whether rows are too large to be kept by value.
func tooLarge[Obj any]() bool { return unsafe.Sizeof(entry[Obj]{}) >= trie.MaxHolder }
