package store

import (
	"sync/atomic"
	"unsafe"

	"github.com/statehive/statehive/internal/store/trie"
)

// Revision counts the changes of a table: each write or delete of a row increments it by
// one. Revision 0 is before the first change. Revisions seen inside a write transaction are
// valid only once it has committed.
type Revision uint64

// Entry is one version of one row. Nothing but dead ever changes. In memory it is one
// allocation that all indexes share:
//
//	[ Entry | row | secondary leaves | keys ]
//
// The row is at [RowOffset]. After it comes a leaf for each index with one key per row (up
// to MaxEmbedded of them), then the bytes of the keys of these indexes. Each key ends with
// the primary key, and the last copy of that is also the entry's own key. Long keys are
// allocated separately.
type Entry struct {
	trie.Leaf
	rev  Revision
	spec Revision      // of the last write that was not a status write
	dead atomic.Uint64 // revision of the commit that replaced it, if the window held it
}

// RowOffset is the offset of the row in an entry, in bytes. No type needs an alignment of
// more than 8.
const RowOffset = unsafe.Sizeof(Entry{})

// Row returns a pointer to the row, which must not be modified.
func (e *Entry) Row() unsafe.Pointer { return unsafe.Add(unsafe.Pointer(e), RowOffset) }

// Revision returns the revision of the write.
func (e *Entry) Revision() Revision { return e.rev }

// Spec returns the revision of the last write of the row that was not a status write.
func (e *Entry) Spec() Revision { return e.spec }

// Rooms are the sizes, in bytes, of the space that may follow a row in its entry.
var Rooms = [...]int{8, 16, 24, 32, 48, 64, 96, 128}

// Rooms that hold pointers to the keys: one pointer, or the leaves and keys of all indexes.
const (
	RoomExternal    = -1
	RoomExternalAll = -2
)

// MaxEmbedded is the maximum number of secondary indexes whose leaves are embedded in an
// entry.
const MaxEmbedded = 7

type (
	// ExternalKey is the room of RoomExternal.
	ExternalKey struct{ key *byte }
	// ExternalKeys is the room of RoomExternalAll.
	ExternalKeys struct {
		leaves [MaxEmbedded]trie.SecondaryLeaf
		keys   [1 + MaxEmbedded]*byte // the primary one first
	}
)

const leafSize = unsafe.Sizeof(trie.SecondaryLeaf{})

// roomBySize maps a number of words to the index of the smallest room for them.
var roomBySize = func() (rooms [16 + 1]int8) {
	for words := range rooms {
		for Rooms[rooms[words]] < 8*words {
			rooms[words]++
		}
	}
	return rooms
}()

// roomFor returns the index in Rooms of the smallest room of at least size bytes, or
// RoomExternal.
func roomFor(size int) int {
	if size > Rooms[len(Rooms)-1] {
		return RoomExternal
	}
	return int(roomBySize[(size+7)/8])
}

// roomForKeys returns the room for secondary leaves and keys, as roomFor does. An empty primary
// key needs a byte, because otherwise it could begin past the end of the entry.
func roomForKeys(leaves, keys, primary int) int {
	if primary == 0 {
		keys++
	}
	return roomFor(leaves*int(leafSize) + keys)
}

// leaf returns the i-th secondary leaf of an entry whose row ends at size.
func (e *Entry) leaf(size uintptr, i int) *trie.SecondaryLeaf {
	return (*trie.SecondaryLeaf)(unsafe.Add(unsafe.Pointer(e), size+uintptr(i)*leafSize))
}

// entryKeys holds the keys of an entry: the keys of its secondary leaves, concatenated, each
// ending with the primary key. If there are none it holds the primary key.
type entryKeys struct {
	bytes   []byte
	primary int              // length of the primary key
	count   int              // of secondary keys
	ends    [MaxEmbedded]int // of the secondary keys
}

// newEntry returns an entry with a copy of the row and of the keys.
func (r *RowType) newEntry(row unsafe.Pointer, keys *entryKeys) *Entry {
	room := roomForKeys(keys.count, len(keys.bytes), keys.primary)
	if room == RoomExternal {
		return r.newExternalEntry(row, keys)
	}
	e := r.New(room, row)
	leaves := uintptr(keys.count) * leafSize
	copy(unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(e), r.Size+leaves)), len(keys.bytes)), keys.bytes)
	e.SetKey(r.Size+leaves+uintptr(len(keys.bytes)-keys.primary), uintptr(keys.primary))
	begin := 0
	for i, end := range keys.ends[:keys.count] {
		at := uintptr(i) * leafSize
		e.leaf(r.Size, i).SetKey(r.Size+at, leaves-at+uintptr(begin), uintptr(end-begin))
		begin = end
	}
	return e
}

func (r *RowType) newExternalEntry(row unsafe.Pointer, keys *entryKeys) *Entry {
	bytes := make([]byte, len(keys.bytes)+1) // one more, so that an empty key has an address inside
	copy(bytes, keys.bytes)
	primary := &bytes[len(keys.bytes)-keys.primary]
	if keys.count == 0 {
		e := r.New(RoomExternal, row)
		(*ExternalKey)(unsafe.Add(unsafe.Pointer(e), r.Size)).key = primary
		e.SetExternalKey(r.Size, uintptr(keys.primary))
		return e
	}
	e := r.New(RoomExternalAll, row)
	room := (*ExternalKeys)(unsafe.Add(unsafe.Pointer(e), r.Size))
	pointers := unsafe.Offsetof(room.keys)
	room.keys[0] = primary
	e.SetExternalKey(r.Size+pointers, uintptr(keys.primary))
	begin := 0
	for i, end := range keys.ends[:keys.count] {
		room.keys[1+i] = &bytes[begin]
		at := uintptr(i) * leafSize
		pointer := pointers + uintptr(1+i)*unsafe.Sizeof(primary)
		room.leaves[i].SetExternalKey(r.Size+at, pointer-at, uintptr(end-begin))
		begin = end
	}
	return e
}

// pointerEntry is an entry whose row is a pointer; pointer8 and so on add room. All tables
// whose rows are pointers share them.
type (
	pointerEntry struct {
		Entry
		row unsafe.Pointer
	}
	pointer8 struct {
		pointerEntry
		_ [8]byte
	}
	pointer16 struct {
		pointerEntry
		_ [16]byte
	}
	pointer24 struct {
		pointerEntry
		_ [24]byte
	}
	pointer32 struct {
		pointerEntry
		_ [32]byte
	}
	pointer48 struct {
		pointerEntry
		_ [48]byte
	}
	pointer64 struct {
		pointerEntry
		_ [64]byte
	}
	pointer96 struct {
		pointerEntry
		_ [96]byte
	}
	pointer128 struct {
		pointerEntry
		_ [128]byte
	}
	pointerExternal struct {
		pointerEntry
		ExternalKey
	}
	pointerExternalAll struct {
		pointerEntry
		ExternalKeys
	}
)

// newPointerEntry implements [RowType.New] for rows that are pointers.
func newPointerEntry(room int, row unsafe.Pointer) *Entry {
	var e *pointerEntry
	switch room {
	case 0:
		e = &new(pointer8).pointerEntry
	case 1:
		e = &new(pointer16).pointerEntry
	case 2:
		e = &new(pointer24).pointerEntry
	case 3:
		e = &new(pointer32).pointerEntry
	case 4:
		e = &new(pointer48).pointerEntry
	case 5:
		e = &new(pointer64).pointerEntry
	case 6:
		e = &new(pointer96).pointerEntry
	case 7:
		e = &new(pointer128).pointerEntry
	case RoomExternal:
		e = &new(pointerExternal).pointerEntry
	default:
		e = &new(pointerExternalAll).pointerEntry
	}
	e.row = *(*unsafe.Pointer)(row)
	return &e.Entry
}
