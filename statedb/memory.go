package statedb

import (
	"reflect"
	"unsafe"

	"github.com/statehive/statehive/statedb/internal/engine"
	"github.com/statehive/statehive/statedb/internal/memsize"
)

// TableMemory is an estimate of the heap memory of a table, in bytes. What
// several rows share counts once.
type TableMemory struct {
	// Rows is the rows with all that they lead to, and their primary keys.
	Rows int
	// Indexes is the trees with their watches, and the keys of secondary indexes.
	Indexes int
	// Changes is what is kept for cursors, deleted and replaced rows included.
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
		m.Rows += e.size(meter)
	}
	for i, tree := range v.trees {
		m.Indexes += treeSize(tree, i > 0)
	}
	m.Changes = v.changesSize(meter)
	return m
}

func (e *entry[Obj]) size(meter *memsize.Meter) int {
	return memsize.Alloc(int(unsafe.Sizeof(*e))) + memsize.Alloc(len(e.key)) + meter.Behind(reflect.ValueOf(&e.obj).Elem())
}

// changesSize is the records of the window, and the rows that only it still has.
func (v *version[Obj]) changesSize(meter *memsize.Meter) (size int) {
	const record, deleted = 12, 16 // bytes in the chunks
	w := v.changes
	size = int(w.Head()-w.Base())*record + w.DeleteCount()*deleted
	for _, r := range w.Records(max(w.Base(), w.LostDeletes()), w.Head()) {
		if current, _ := v.trees[0].Get(r.Row.key); r.Deleted || current != r.Row {
			size += r.Row.size(meter)
		}
	}
	return size
}

// What a tree of the reference engine is made of.
const (
	treeWatch = 112     // a channel
	treeNode  = 64 + 20 // with its place in the node above, and room for growth there
	treeLeaf  = 48      // beside its node
	perNode   = treeNode + treeWatch
	perKey    = perNode + treeLeaf + treeWatch
)

// treeSize is computed from the shape of the tree, which follows from the keys:
// a node for each, and for each place where keys part.
func treeSize[V any](tree engine.Reader[V], withKeys bool) int {
	size := perNode // the root
	var last []byte
	var forks []int // depths of the nodes above last, where keys part
	for key := range tree.Prefix(nil) {
		size += perKey
		if withKeys {
			size += memsize.Alloc(len(key))
		}
		depth := common(last, key)
		for len(forks) > 0 && forks[len(forks)-1] > depth {
			forks = forks[:len(forks)-1]
		}
		if depth > 0 && (len(forks) == 0 || forks[len(forks)-1] < depth) {
			forks = append(forks, depth)
			if depth < len(last) { // else it is the node of last itself
				size += perNode
			}
		}
		last = key
	}
	return size
}

// common is the length of the longest common prefix.
func common(a, b []byte) (n int) {
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
