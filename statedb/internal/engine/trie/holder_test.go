package trie_test

import (
	"iter"
	"testing"
	"unsafe"

	"github.com/statehive/statehive/statedb/internal/engine"
	"github.com/statehive/statehive/statedb/internal/engine/enginetest"
	"github.com/statehive/statehive/statedb/internal/engine/trie"
)

// held is a value that is its own leaf.
type held struct {
	trie.Leaf
	value int
}

func (h *held) Held() *trie.Leaf { return &h.Leaf }

const keyRoom = 8

// roomy has room for a short key, lender points to a long one.
type (
	roomy struct {
		held
		_ [keyRoom]byte
	}
	lender struct {
		held
		key *byte
	}
)

func newHeld(key []byte, value int) *held {
	if len(key) > keyRoom {
		h := &lender{held: held{value: value}, key: unsafe.SliceData(key)}
		h.LendKey(unsafe.Sizeof(h.held), uintptr(len(key)))
		return &h.held
	}
	h := &roomy{held: held{value: value}}
	h.SetKey(unsafe.Sizeof(h.held), uintptr(len(key)))
	copy(h.Key(), key)
	return &h.held
}

// holding is a tree of such values that looks like one of numbers.
type holding struct{ engine.Tree[*held] }

type holdingTxn struct{ engine.Txn[*held] }

func number(h *held, ok bool) (int, bool) {
	if !ok {
		return 0, false
	}
	return h.value, true
}

func numbered(key []byte, h *held, ok bool) ([]byte, int, bool) {
	value, ok := number(h, ok)
	return key, value, ok
}

func numbers(seq iter.Seq2[[]byte, *held]) iter.Seq2[[]byte, int] {
	return func(yield func([]byte, int) bool) {
		for key, h := range seq {
			if !yield(key, h.value) {
				return
			}
		}
	}
}

func (t holding) Get(key []byte) (int, bool) { return number(t.Tree.Get(key)) }

func (t holding) Prefix(key []byte) iter.Seq2[[]byte, int] { return numbers(t.Tree.Prefix(key)) }

func (t holding) LowerBound(key []byte) iter.Seq2[[]byte, int] {
	return numbers(t.Tree.LowerBound(key))
}

func (t holding) PrefixReverse(key []byte) iter.Seq2[[]byte, int] {
	return numbers(t.Tree.PrefixReverse(key))
}

func (t holding) BelowReverse(key []byte) iter.Seq2[[]byte, int] {
	return numbers(t.Tree.BelowReverse(key))
}

func (t holding) Below(key []byte) ([]byte, int, bool) { return numbered(t.Tree.Below(key)) }

func (t holding) Txn() engine.Txn[int] { return holdingTxn{t.Tree.Txn()} }

func (t holdingTxn) Get(key []byte) (int, bool) { return number(t.Txn.Get(key)) }

func (t holdingTxn) Prefix(key []byte) iter.Seq2[[]byte, int] { return numbers(t.Txn.Prefix(key)) }

func (t holdingTxn) LowerBound(key []byte) iter.Seq2[[]byte, int] {
	return numbers(t.Txn.LowerBound(key))
}

func (t holdingTxn) PrefixReverse(key []byte) iter.Seq2[[]byte, int] {
	return numbers(t.Txn.PrefixReverse(key))
}

func (t holdingTxn) BelowReverse(key []byte) iter.Seq2[[]byte, int] {
	return numbers(t.Txn.BelowReverse(key))
}

func (t holdingTxn) Below(key []byte) ([]byte, int, bool) { return numbered(t.Txn.Below(key)) }

func (t holdingTxn) Insert(key []byte, value int) (int, bool) {
	h := newHeld(key, value)
	return number(t.Txn.Insert(h.Key(), h))
}

func (t holdingTxn) Delete(key []byte) (int, bool) { return number(t.Txn.Delete(key)) }

func (t holdingTxn) Commit() engine.Tree[int] { return holding{t.Txn.Commit()} }

func TestConformanceOfValuesThatAreLeaves(t *testing.T) {
	enginetest.Run(t, func() engine.Tree[int] { return holding{trie.NewHolding[held]()} })
}

// further is a value that is its own leaf in two more trees, under keys with a
// mark before the first key.
type further struct {
	held
	heads [2]trie.Head
	room  [3 * (keyRoom + 1)]byte
}

func newFurther(key []byte, value int) *further {
	f := &further{held: held{value: value}}
	f.SetKey(unsafe.Offsetof(f.room), uintptr(len(key)))
	copy(f.Key(), key)
	for i := range f.heads {
		head, at := f.headAt(i), unsafe.Offsetof(f.room)+uintptr(i+1)*(keyRoom+1)
		f.heads[i].SetKey(head, at-head, uintptr(len(key)+1))
		copy(f.heads[i].Key(), append([]byte{byte(i)}, key...))
	}
	return f
}

func (f *further) headAt(i int) uintptr {
	return unsafe.Offsetof(f.heads) + uintptr(i)*unsafe.Sizeof(f.heads[0])
}

// Leaves of one value share its watch, but not what belongs to the way to them in
// their trees.
func TestLeavesOfAValueWakeOnlyWhoWatchesTheirTree(t *testing.T) {
	first, second := newFurther([]byte("ab"), 1), newFurther([]byte("x"), 2)
	trees := []engine.Tree[*further]{
		trie.NewHolding[further](),
		trie.NewFurther[further](first.headAt(0)),
		trie.NewFurther[further](first.headAt(1)),
	}
	commit := func(i int, write func(txn engine.Txn[*further])) {
		txn := trees[i].Txn()
		write(txn)
		trees[i] = txn.Commit()
		txn.Notify()
	}
	key := func(i int, f *further) []byte {
		if i == 0 {
			return f.Key()
		}
		return f.heads[i-1].Key()
	}
	insert := func(f *further) {
		for i := range trees {
			commit(i, func(txn engine.Txn[*further]) { txn.Insert(key(i, f), f) })
		}
	}
	insert(first)
	insert(second)
	var beside, row []<-chan struct{}
	for i := range trees {
		if got, ok := trees[i].Get(key(i, first)); !ok || got != first {
			t.Fatalf("tree %d yields %v", i, got)
		}
		beside = append(beside, trees[i].WatchPrefix(key(i, first)))
		row = append(row, trees[i].Watch(key(i, first)))
	}
	neighbor := newFurther([]byte("abc"), 3)
	for i := range trees {
		commit(i, func(txn engine.Txn[*further]) { txn.Insert(key(i, neighbor), neighbor) })
		for j := range trees {
			if got := isClosed(beside[j]); got != (j <= i) {
				t.Errorf("with a neighbor in tree %d, the watch of what is beside the row in tree %d is closed: %t", i, j, got)
			}
			if isClosed(row[j]) {
				t.Errorf("a neighbor in tree %d has woken who watches the row", i)
			}
		}
	}
	commit(2, func(txn engine.Txn[*further]) { txn.Delete(key(2, first)) })
	for i, ch := range row {
		if !isClosed(ch) || !isClosed(trees[i].Watch(key(i, first))) && i < 2 {
			t.Errorf("the row was replaced, and its watch in tree %d is open", i)
		}
	}
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
