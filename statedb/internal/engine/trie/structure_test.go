package trie

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"pgregory.net/rapid"
)

// violation says what is wrong with the structure below p, whose keys begin with
// those chunks of sample that come before offset.
func violation(p ref, isRoot bool, offset uint64, sample []byte) error {
	head := headOf(p)
	if !isNode(head) {
		if d := difference(leafKey(p), sample); d < offset {
			return fmt.Errorf("key %q differs from %q at chunk %d, above its node at %d", leafKey(p), sample, d, offset)
		}
		return nil
	}
	n := (*node)(p)
	switch {
	case isRoot && n.offset() != 0:
		return fmt.Errorf("the root branches at %d", n.offset())
	case !isRoot && n.count() < 2:
		return fmt.Errorf("%d children at chunk %d", n.count(), n.offset())
	case !isRoot && n.offset() < offset:
		return fmt.Errorf("chunk %d below chunk %d", n.offset(), offset-1)
	case n.offset()%2 == 1 && n.head&ended != 0:
		return fmt.Errorf("a key ends inside its byte, at chunk %d", n.offset())
	}
	for i := n.count(); i < n.slots(); i++ {
		if n.child(i) != nil {
			return fmt.Errorf("a child in slot %d, which is free", i)
		}
	}
	return childViolation(n)
}

func childViolation(n *node) error {
	place := 0
	for s := uint64(ended); s&symbolMask != 0; s <<= 1 {
		if n.head&s == 0 {
			continue
		}
		child := n.child(place)
		key := anyKey(child)
		if symbol(key, n.offset()) != s {
			return fmt.Errorf("child %d at chunk %d has key %q", place, n.offset(), key)
		}
		if err := violation(child, false, n.offset()+1, key); err != nil {
			return err
		}
		if d := difference(key, anyKey(ref(n))); d < n.offset() {
			return fmt.Errorf("children of chunk %d part at %d", n.offset(), d)
		}
		place++
	}
	return nil
}

func mustHold(t interface{ Fatal(...any) }, root ref) {
	if err := violation(root, true, 0, nil); err != nil {
		t.Fatal(err)
	}
}

func TestStructureHoldsAfterEveryWrite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		newest := New[int]().(*tree[int])
		letters := rapid.SampledFrom([]byte{0, 1, 0x10, 'a', 'b', 0xff})
		for range rapid.IntRange(1, 4).Draw(t, "transactions") {
			w := newest.Txn().(*txn[int])
			for range rapid.IntRange(0, 30).Draw(t, "writes") {
				key := rapid.SliceOfN(letters, 0, 5).Draw(t, "key")
				switch rapid.IntRange(0, 6).Draw(t, "kind") {
				case 0, 1:
					w.Delete(key)
				case 2:
					w.Prefix(nil)
				default:
					w.Insert(key, 1)
				}
				mustHold(t, w.root)
			}
			if rapid.Bool().Draw(t, "commit") {
				next := w.Commit()
				w.Notify()
				newest = next.(*tree[int])
			}
			mustHold(t, ref(newest.root))
		}
	})
}

func TestKeysOfAllLengthsAreKept(t *testing.T) {
	w := New[int]().Txn().(*txn[int])
	for n := range 300 {
		key := bytes.Repeat([]byte{byte(n)}, n)
		w.Insert(key, n)
		if n <= maxOwnKey {
			clear(key) // it is a copy's turn
		}
	}
	for n := range 300 {
		key := bytes.Repeat([]byte{byte(n)}, n)
		if value, ok := w.Get(key); !ok || value != n {
			t.Errorf("the value of %d bytes is %d, %t", n, value, ok)
		}
	}
}

const maxOwnKey = 104

// A transaction that changes many keys leaves nothing behind but its tree.
func TestAHugeTransactionLeavesNoBookkeeping(t *testing.T) {
	txn := New[int]().Txn()
	random := rand.New(rand.NewPCG(1, 2))
	for range 50_000 {
		txn.Insert(fmt.Append(nil, random.Uint64()), 1)
	}
	tree := txn.Commit()
	txn.Notify()
	for range 3 { // replaces everything, so that all bookkeeping is in use
		txn = tree.Txn()
		for key := range tree.Prefix(nil) {
			txn.Insert(key, 2)
		}
		tree = txn.Commit()
		txn.Notify()
	}
	with := heapInUse()
	own, _ := tree.Size()
	runtime.KeepAlive(tree)
	runtime.KeepAlive(txn)
	without := heapInUse()
	if freed := with - without; freed > own*11/10 || freed < own*9/10 {
		t.Errorf("the tree and what came with it occupied %d bytes, expected about %d", freed, own)
	}
}

func heapInUse() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

func TestOldWatchesOfManyReplacedNodesClose(t *testing.T) {
	var list replaced
	watches := make([]watch, 1_000)
	var channels []<-chan struct{}
	for i := range watches {
		list.add(&watches[i])
		channels = append(channels, watches[i].channel())
	}
	list.closeAll(nil)
	for i, ch := range channels {
		select {
		case <-ch:
		default:
			t.Fatalf("watch %d is open", i)
		}
	}
	if list.count != 0 || list.more != nil {
		t.Error("the list still holds what it has closed")
	}
}

func TestReadsAndSequencesAllocateNextToNothing(t *testing.T) {
	w := New[int]().Txn()
	for i := range 10_000 {
		w.Insert(fmt.Append(nil, i*7919), i)
	}
	tree := w.Commit()
	key := []byte("7919")
	if n := testing.AllocsPerRun(100, func() { tree.Get(key) }); n != 0 {
		t.Errorf("Get allocates %v times", n)
	}
	for name, ask := range map[string]func() int{
		"Prefix":        func() (n int) { tree.Prefix(nil)(func([]byte, int) bool { n++; return true }); return n },
		"PrefixReverse": func() (n int) { tree.PrefixReverse(nil)(func([]byte, int) bool { n++; return true }); return n },
		"LowerBound":    func() (n int) { tree.LowerBound(key)(func([]byte, int) bool { n++; return true }); return n },
		"BelowReverse":  func() (n int) { tree.BelowReverse(key)(func([]byte, int) bool { n++; return true }); return n },
	} {
		if n := testing.AllocsPerRun(10, func() { ask() }); n > 4 {
			t.Errorf("%s allocates %v times for %d keys", name, n, ask())
		}
	}
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// The watch of a row must not wake up when a key beside it comes: only who waits
// for such keys does.
func TestAKeyBesideALeafWakesOnlyWhoWaitsForIt(t *testing.T) {
	w := New[int]().Txn()
	w.Insert([]byte("ab"), 1)
	w.Insert([]byte("x"), 2)
	before := w.Commit()
	w.Notify()
	row, rows, absent := before.Watch([]byte("ab")), before.WatchPrefix([]byte("ab")), before.Watch([]byte("abc"))
	other := before.Watch([]byte("xy"))

	w = before.Txn()
	w.Insert([]byte("abc"), 3)
	after := w.Commit()
	w.Notify()
	if closed(row) || closed(other) || !closed(rows) || !closed(absent) {
		t.Errorf("woken: the row %t, another's neighbor %t, the prefix %t, the absent key %t", closed(row), closed(other), closed(rows), closed(absent))
	}
	if !closed(before.WatchPrefix([]byte("ab"))) || closed(after.Watch([]byte("abcd"))) || closed(after.Watch([]byte("ab"))) {
		t.Error("a watch of the old version is open, or one of the new version closed")
	}
}
