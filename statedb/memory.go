package statedb

import (
	"reflect"

	"github.com/statehive/statehive/statedb/internal/memsize"
)

// TableMemory is an estimate of the heap memory of a table, in bytes. What
// several rows share counts once.
type TableMemory struct {
	// Rows is the rows with all that they lead to, and their keys in indexes with
	// one key for each row.
	Rows int
	// Indexes is the trees with their watches, and the keys of other indexes.
	Indexes int
	// Changes is what is kept for cursors, deleted and replaced rows included, but
	// not the scratch memory for the next transaction, of at most 64 kB.
	Changes int
}

func (a anyTable[Obj]) Memory(txn ReadTxn) TableMemory {
	v := a.t.committed(txn)
	if v == nil {
		return TableMemory{}
	}
	meter := memsize.New()
	var m TableMemory
	for _, e := range v.trees[0].Prefix(nil) {
		m.Rows += e.size(meter, len(v.of.shared))
	}
	for i, tree := range v.trees {
		own, keys := tree.Size()
		m.Indexes += own
		if i > 0 { // else they are the rows'
			m.Indexes += keys
		}
	}
	m.Changes = v.changesSize(meter)
	return m
}

func (e *entry[Obj]) size(meter *memsize.Meter, heads int) int {
	return e.allocated(heads) + meter.Behind(reflect.ValueOf(&e.obj).Elem())
}

// changesSize is the records of the window, and the rows that only it still has.
func (v *version[Obj]) changesSize(meter *memsize.Meter) (size int) {
	const record, deleted = 12, 16 // bytes in the chunks
	w := v.changes
	size = int(w.Head()-w.Base())*record + w.DeleteCount()*deleted
	for _, r := range w.Records(max(w.Base(), w.LostDeletes()), w.Head()) {
		if current, _ := v.trees[0].Get(r.Row.Key()); r.Deleted || current != r.Row {
			size += r.Row.size(meter, len(v.of.shared))
		}
	}
	return size
}
