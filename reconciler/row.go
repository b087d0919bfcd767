package reconciler

import (
	"unsafe"

	"github.com/statehive/statehive/internal/store"
)

// rowOf returns the row of an entry of a table of Obj rows. It is one of the few places where
// an untyped row gets its type: see the rules in the package comment of internal/store.
func rowOf[Obj any](e *store.Entry) Obj { return *(*Obj)(e.Row()) }

func rowsOf[Obj any](entries []*store.Entry) []Obj {
	rows := make([]Obj, len(entries))
	for i, e := range entries {
		rows[i] = rowOf[Obj](e)
	}
	return rows
}

// pointerTo returns a pointer to a row for the store.
func pointerTo[Obj any](row *Obj) unsafe.Pointer { return unsafe.Pointer(row) }
