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

func (t holdingTxn) Insert(key []byte, value int) (int, bool) {
	h := newHeld(key, value)
	return number(t.Txn.Insert(h.Key(), h))
}

func (t holdingTxn) Delete(key []byte) (int, bool) { return number(t.Txn.Delete(key)) }

func (t holdingTxn) Commit() engine.Tree[int] { return holding{t.Txn.Commit()} }

func TestConformanceOfValuesThatAreLeaves(t *testing.T) {
	enginetest.Run(t, func() engine.Tree[int] { return holding{trie.NewHolding[held]()} })
}
