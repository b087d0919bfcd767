package store

import (
	"unsafe"

	"github.com/statehive/statehive/internal/store/memsize"
)

// TableMemory is an estimate of the heap memory of a table, in bytes. Memory that several
// rows share is counted once.
type TableMemory struct {
	// Rows is the memory of the rows, of everything they refer to, and of their keys in
	// indexes with one key per row.
	Rows int
	// Indexes is the memory of the trees with their watches, and of the keys in the other
	// indexes.
	Indexes int
	// Changes is the memory of the changes that are kept for cursors, including deleted and
	// replaced rows. It does not include the scratch memory for the next transaction, which
	// is at most 64 kB.
	Changes int
}

// Memory estimates the table's memory. It reads every row.
func (t *Table) Memory(txn ReadTxn) TableMemory {
	v := t.committed(txn)
	if v == nil {
		return TableMemory{}
	}
	meter := memsize.New()
	var m TableMemory
	for leaf := range v.leaves(0) {
		e := (*Entry)(leaf)
		m.Rows += t.sizeOf(e, meter)
	}
	for i := range v.trees {
		m.Indexes += v.trees[i].Size()
	}
	m.Changes = v.changesSize(meter)
	return m
}

func (t *Table) sizeOf(e *Entry, meter *memsize.Meter) int {
	return t.allocated(e) + meter.Behind(t.rows.value(e.Row()))
}

// allocated returns the size of an entry with its keys.
func (t *Table) allocated(e *Entry) int {
	keys, leaves := len(e.Key()), len(t.embedded)
	if leaves > 0 {
		keys = 0
	}
	for i := range leaves {
		keys += len(e.leaf(t.rows.Size, i).Key())
	}
	size := int(t.rows.Size)
	switch room := roomForKeys(leaves, keys, len(e.Key())); {
	case room != RoomExternal:
		return memsize.Alloc(size + Rooms[room])
	case leaves > 0:
		size += int(unsafe.Sizeof(ExternalKeys{}))
	default:
		size += int(unsafe.Sizeof(ExternalKey{}))
	}
	return memsize.Alloc(size) + memsize.Alloc(keys+1)
}

// changesSize returns the size of the window's records, and of the rows that only the
// window keeps.
func (v *version) changesSize(meter *memsize.Meter) (size int) {
	const record, deleted = 12, 16 // bytes in the chunks
	w := v.window()
	size = int(w.Head()-w.Base())*record + w.DeleteCount()*deleted
	for _, r := range w.Records(max(w.Base(), w.LostDeletes()), w.Head()) {
		if r.Deleted || v.row(r.Row.Key()) != r.Row {
			size += v.of.sizeOf(r.Row, meter)
		}
	}
	return size
}

// row returns the row with a primary key, or nil.
func (v *version) row(key []byte) *Entry { return (*Entry)(v.trees[0].Get(key)) }
