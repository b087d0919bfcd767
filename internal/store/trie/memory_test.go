package trie

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"unsafe"
)

// A transaction that changes many keys leaves nothing behind but its tree, though
// it is there to be used again.
func TestHugeTransactionLeavesNoBookkeeping(t *testing.T) {
	var txn Txn
	var ids uint64
	tree, row := New(), unsafe.Pointer(&entry{value: 1})
	replaceAll := func(keys [][]byte) {
		txn.Begin(&tree, &ids)
		for _, key := range keys {
			txn.Insert(key, NewSeparateLeaf(key, row))
		}
		tree = txn.Commit()
		txn.Notify()
	}
	random := rand.New(rand.NewPCG(1, 2))
	keys := make([][]byte, 50_000)
	for i := range keys {
		keys[i] = fmt.Append(nil, random.Uint64())
	}
	for range 4 { // replaces everything, so that all bookkeeping is in use
		replaceAll(keys)
	}
	with := heapInUse()
	size := tree.Size()
	runtime.KeepAlive(tree)
	tree = Tree{}
	freed := with - heapInUse()
	runtime.KeepAlive(&txn)
	runtime.KeepAlive(keys)
	if freed > size*11/10 || freed < size*9/10 {
		t.Errorf("the tree occupied %d bytes, expected about %d", freed, size)
	}
	if txn.old.watches != nil || txn.old.divided != nil {
		t.Errorf("room for %d watches and %d leaves is left", cap(txn.old.watches), cap(txn.old.divided))
	}
	discarded := New()
	txn.Begin(&discarded, &ids)
	for range 2 * maxSpare {
		txn.Insert(keys[0], NewSeparateLeaf(keys[0], row))
	}
	txn.Discard()
	if txn.old.watches != nil {
		t.Errorf("room for %d watches is left", cap(txn.old.watches))
	}
}

// What a transaction keeps for the next one leads to nothing of its tree.
func TestMemoryForTheNextTransactionIsEmpty(t *testing.T) {
	for name, end := range map[string]func(x *Txn){
		"commit":  func(x *Txn) { x.Commit(); x.Notify() },
		"discard": func(x *Txn) { x.Discard() },
	} {
		h := load(embeddedLeaf, model{"a": 1, "b": 2, "c": 3})
		m := h.begin()
		for i := range 100 {
			h.set(m, fmt.Sprint("a", i), 1)
			h.set(m, "b", 2)
			h.txn.Remove([]byte("c"))
		}
		end(&h.txn)
		x := &h.txn
		if x.root != nil || len(x.old.watches) > 0 || len(x.old.divided) > 0 {
			t.Errorf("%s: the transaction leads to its tree", name)
		}
		for _, w := range x.old.watches[:cap(x.old.watches)] {
			if w != nil {
				t.Fatalf("%s: a watch is kept", name)
			}
		}
		for _, leaf := range x.old.divided[:cap(x.old.divided)] {
			if leaf != nil {
				t.Fatalf("%s: a leaf is kept", name)
			}
		}
		for _, n := range x.spare {
			if n == nil {
				continue
			}
			for i := range n.slots() {
				if n.child(i) != nil {
					t.Fatalf("%s: a node is kept", name)
				}
			}
		}
	}
}

func heapInUse() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

func TestSizeIsAboutTheHeapOfATree(t *testing.T) {
	row := unsafe.Pointer(&entry{value: 1})
	for name, c := range map[string]struct {
		leaf     func(key []byte) unsafe.Pointer
		pad      int // bytes behind the key
		watching int // one of so many keys
	}{
		"embedded":                {leaf: func(key []byte) unsafe.Pointer { return embeddedLeaf(key, 1) }},
		"embedded, watched":       {leaf: func(key []byte) unsafe.Pointer { return embeddedLeaf(key, 1) }, watching: 1},
		"secondary":               {leaf: func(key []byte) unsafe.Pointer { return secondaryLeaf(key, 1) }},
		"separate":                {leaf: func(key []byte) unsafe.Pointer { return NewSeparateLeaf(key, row) }},
		"separate, watched":       {leaf: func(key []byte) unsafe.Pointer { return NewSeparateLeaf(key, row) }, watching: 2},
		"separate with long keys": {leaf: func(key []byte) unsafe.Pointer { return NewSeparateLeaf(bytes.Clone(key), row) }, pad: 200},
	} {
		t.Run(name, func(t *testing.T) {
			const count = 20_000
			random := rand.New(rand.NewPCG(1, 2))
			keys := make([][]byte, count)
			leaves := make([]unsafe.Pointer, count)
			for i := range keys {
				keys[i] = append(fmt.Append(nil, random.Uint64()), make([]byte, c.pad)...)
				if c.pad == 0 && name != "separate" && name != "separate, watched" {
					leaves[i] = c.leaf(keys[i]) // not part of the tree's memory
				}
			}
			before := heapInUse()
			tree, x, ids := New(), Txn{}, uint64(0)
			x.Begin(&tree, &ids)
			for i, key := range keys {
				if leaf := leaves[i]; leaf != nil {
					x.Insert(key, leaf)
				} else {
					x.Insert(key, c.leaf(key))
				}
			}
			tree = x.Commit()
			x.Notify()
			if c.watching > 0 {
				for i := 0; i < count; i += c.watching {
					tree.Watch(keys[i], func() Tree { return tree })
				}
			}
			used, size := heapInUse()-before, tree.Size()
			runtime.KeepAlive(keys)
			runtime.KeepAlive(leaves)
			if size < used*9/10 || size > used*11/10 {
				t.Errorf("Size is %d, the heap grew by %d", size, used)
			}
		})
	}
}

func TestReadsAndScansAllocateNothing(t *testing.T) {
	h := newHistory(embeddedLeaf)
	h.begin()
	for i := range 10_000 {
		key := fmt.Append(nil, i*7919)
		h.txn.Insert(key, embeddedLeaf(key, i+1))
	}
	tree := h.commit(nil).tree
	key, other := []byte("7919"), []byte("8")
	var s Scan
	scan := func(r Range, reverse bool) (n int) {
		r.Reverse = reverse
		s.Start(&r)
		for run := s.Next(); len(run) > 0; run = s.Next() {
			n += len(run)
		}
		return n
	}
	scan(tree.All(), false) // a deep tree needs more memory once
	for name, read := range map[string]func() int{
		"Get":     func() int { return valueOf(tree.Get(key)) },
		"Locate":  func() int { at := tree.Locate(key); return valueOf(at.Leaf()) },
		"First":   func() int { r := tree.From(key); return valueOf(r.First()) },
		"All":     func() int { return scan(tree.All(), false) + scan(tree.All(), true) },
		"Prefix":  func() int { return scan(tree.Prefix(key), false) + scan(tree.Prefix(key), true) },
		"From":    func() int { return scan(tree.From(key), false) + scan(tree.From(key), true) },
		"Between": func() int { return scan(tree.Between(key, other), false) + scan(tree.Between(key, other), true) },
	} {
		if n := testing.AllocsPerRun(10, func() { read() }); n != 0 || read() == 0 {
			t.Errorf("%s allocates %v times for %d", name, n, read())
		}
	}
	if n := testing.AllocsPerRun(10, func() {
		var s Scan
		r := tree.All()
		s.Start(&r)
		for len(s.Next()) > 0 {
		}
	}); n > 2 {
		t.Errorf("a new scan allocates %v times", n)
	}
}

// A transaction that is used again allocates only what it leaves in the tree.
func TestTransactionsAllocateOnlyNodes(t *testing.T) {
	h := load(embeddedLeaf, model{"a": 1, "b": 2})
	tree := h.newest().tree
	var txn Txn
	empty := testing.AllocsPerRun(100, func() {
		txn.Begin(&tree, &h.ids)
		tree = txn.Commit()
		txn.Notify()
	})
	key, other := []byte("a"), []byte("b")
	leaves, others := make([]unsafe.Pointer, 200), make([]unsafe.Pointer, 200)
	for i := range leaves {
		leaves[i], others[i] = embeddedLeaf(key, i+1), embeddedLeaf(other, i+1)
	}
	replacing := testing.AllocsPerRun(100, func() {
		txn.Begin(&tree, &h.ids)
		txn.Insert(key, leaves[0])
		txn.Insert(other, others[0])
		leaves, others = leaves[1:], others[1:]
		tree = txn.Commit()
		txn.Notify()
	})
	if empty != 0 || replacing != 2 { // the root and the node below it
		t.Errorf("an empty transaction allocates %v times, one that replaces two leaves %v times", empty, replacing)
	}
}
