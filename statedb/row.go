package statedb

import (
	"unsafe"

	"github.com/statehive/statehive/internal/store"
)

// This file has the unsafe code for rows: their layout in the entries of the store, and the
// access to them. See the package comment of internal/store for the rules.

// entry is a [store.Entry] with its row. Nothing is embedded, and func() is not comparable,
// so that the compiler generates no methods and no equality for each row type.
type entry[Obj any] struct {
	_   [0]func()
	e   store.Entry
	obj Obj
}

// Entries with room after the row, for each size in [store.Rooms].
type (
	entry8[Obj any] struct {
		e entry[Obj]
		_ [8]byte
	}
	entry16[Obj any] struct {
		e entry[Obj]
		_ [16]byte
	}
	entry24[Obj any] struct {
		e entry[Obj]
		_ [24]byte
	}
	entry32[Obj any] struct {
		e entry[Obj]
		_ [32]byte
	}
	entry48[Obj any] struct {
		e entry[Obj]
		_ [48]byte
	}
	entry64[Obj any] struct {
		e entry[Obj]
		_ [64]byte
	}
	entry96[Obj any] struct {
		e entry[Obj]
		_ [96]byte
	}
	entry128[Obj any] struct {
		e entry[Obj]
		_ [128]byte
	}
	entryExternal[Obj any] struct {
		e    entry[Obj]
		room store.ExternalKey
	}
	entryExternalAll[Obj any] struct {
		e    entry[Obj]
		room store.ExternalKeys
	}
)

// newEntry implements [store.RowType.New].
func newEntry[Obj any](room int, row unsafe.Pointer) *store.Entry {
	var p unsafe.Pointer
	switch room {
	case 0:
		p = unsafe.Pointer(new(entry8[Obj]))
	case 1:
		p = unsafe.Pointer(new(entry16[Obj]))
	case 2:
		p = unsafe.Pointer(new(entry24[Obj]))
	case 3:
		p = unsafe.Pointer(new(entry32[Obj]))
	case 4:
		p = unsafe.Pointer(new(entry48[Obj]))
	case 5:
		p = unsafe.Pointer(new(entry64[Obj]))
	case 6:
		p = unsafe.Pointer(new(entry96[Obj]))
	case 7:
		p = unsafe.Pointer(new(entry128[Obj]))
	case store.RoomExternal:
		p = unsafe.Pointer(new(entryExternal[Obj]))
	default:
		p = unsafe.Pointer(new(entryExternalAll[Obj]))
	}
	(*entry[Obj])(p).obj = *(*Obj)(row)
	return (*store.Entry)(p)
}

// entrySize returns the size of an entry up to the end of its row.
func entrySize[Obj any]() uintptr { return unsafe.Sizeof(entry[Obj]{}) }

// objectOf returns the row of an entry.
func objectOf[Obj any](e *store.Entry) Obj { return (*entry[Obj])(unsafe.Pointer(e)).obj }

// object returns the row behind a pointer that the store passes.
func object[Obj any](row unsafe.Pointer) Obj { return *(*Obj)(row) }

// setObject sets the row behind such a pointer.
func setObject[Obj any](row unsafe.Pointer, obj Obj) { *(*Obj)(row) = obj }

// rowOf returns a pointer to a row for the store, which copies the row if it keeps it. So the
// row itself need not be moved to the heap. Everything it refers to must be, because the store
// may keep that memory, including texts of keys that are part of it.
func rowOf[Obj any](obj *Obj) unsafe.Pointer {
	if leaked != nil {
		leak(obj)
	}
	return hidden(unsafe.Pointer(obj))
}

// leaked is always nil, but the compiler has to expect that rows are stored in it.
var leaked any

// leak tells the compiler that the memory a row refers to escapes to the heap. It is never called.
//
//go:noinline
func leak[Obj any](obj *Obj) { leaked = *obj }

// hidden hides from the compiler that a pointer is passed to functions it does not know.
// While the pointer is a number the stack must not move. So nothing may be called meanwhile,
// not even the pointer checks that the compiler inserts for the race detector.
//
//go:nosplit
//go:nocheckptr
func hidden(p unsafe.Pointer) unsafe.Pointer {
	address := uintptr(p)
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}
